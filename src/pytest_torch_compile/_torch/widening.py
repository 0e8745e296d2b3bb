"""A float64 run in which code that names a narrower float type gets float64 in its place.

``self.linear(t.float())`` would stop a float64 run otherwise, and a cast to half would put its rounding into the
reference. Bits that are looked at as another type (``x.view(torch.int32)``) stay as they are. Uses
``torch.utils._python_dispatch.TorchDispatchMode``, which is the same on torch 2.6 to 2.15.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


def widened(dtype: Any) -> Any:
    """The float64 or complex128 that stands for a floating or complex dtype; any other as it is."""
    if not isinstance(dtype, torch.dtype):
        return dtype
    if dtype.is_complex:
        return torch.complex128
    return torch.float64 if dtype.is_floating_point else dtype


class Widening(TorchDispatchMode):
    """Lets casts and factories that name a float type make float64."""

    def __init__(self) -> None:
        super().__init__()
        self._paused = False

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave alone what is computed here: it is given to the model, not computed by it."""
        self._paused = True
        try:
            yield
        finally:
            self._paused = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not self._paused and kwargs.get("dtype") is not None and not func.is_view:
            kwargs = {**kwargs, "dtype": widened(kwargs["dtype"])}
        return func(*args, **kwargs)
