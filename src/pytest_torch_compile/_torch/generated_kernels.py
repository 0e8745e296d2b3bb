"""Count the kernels that Inductor generates while code runs.

This module uses these private torch names, checked with torch 2.6, 2.8, 2.11, 2.13 and 2.15:
``torch._inductor.metrics.generated_kernel_count``, which also counts the kernels of graphs that are loaded from
Inductor's cache, and ``enable_autograd_cache`` of ``torch._functorch.config``. AOTAutograd's cache always loads a
backward graph together with its forward graph, so this cache is turned off while kernels are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def counting_generated(note: Callable[[int], None]) -> Iterator[None]:
    """Call ``note`` with the number of kernels generated inside the ``with`` block."""
    import torch._functorch.config as functorch_config
    from torch._inductor import metrics

    before = metrics.generated_kernel_count
    with functorch_config.patch(enable_autograd_cache=False):
        yield
    note(metrics.generated_kernel_count - before)
