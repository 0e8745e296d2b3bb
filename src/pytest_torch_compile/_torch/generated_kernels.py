"""How many kernels Inductor generates while code runs.

Private names used, read on torch 2.6, 2.8, 2.11, 2.13 and 2.15: ``torch._inductor.metrics.generated_kernel_count``,
which a graph out of Inductor's cache counts too, and ``enable_autograd_cache`` of ``torch._functorch.config``: that
cache loads a backward with its forward, whether it is asked for or not, so that it is off while kernels are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def counting_generated(note: Callable[[int], None]) -> Iterator[None]:
    """Call ``note`` with how many kernels were generated in the body."""
    import torch._functorch.config as functorch_config
    from torch._inductor import metrics

    before = metrics.generated_kernel_count
    with functorch_config.patch(enable_autograd_cache=False):
        yield
    note(metrics.generated_kernel_count - before)
