"""A dispatch mode that can be paused for ops that prepare the model's inputs.

This module uses ``torch.utils._python_dispatch.TorchDispatchMode``, which is the same in torch 2.6 to 2.15.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch.utils._python_dispatch import TorchDispatchMode


class PausableMode(TorchDispatchMode):
    """A base class for dispatch modes that leave every op unchanged while ``is_paused`` is true."""

    def __init__(self) -> None:
        super().__init__()
        self.is_paused = False

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Pause the mode inside the ``with`` block, for ops that prepare the model's inputs."""
        self.is_paused = True
        try:
            yield
        finally:
            self.is_paused = False
