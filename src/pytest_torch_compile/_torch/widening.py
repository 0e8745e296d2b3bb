"""In a float64 run, replace the floating-point dtypes in casts and tensor factories with float64.

Without this replacement, ``self.linear(t.float())`` would fail in a float64 run, and a cast to float16 would add
rounding errors to the reference. Views with another dtype (``x.view(torch.int32)``) are not changed. This module uses
``torch.utils._python_dispatch.TorchDispatchMode``, which is the same in torch 2.6 to 2.15.
"""

from __future__ import annotations

from typing import Any

import torch

from .dispatch_mode import PausableMode, is_higher_order


def widened(dtype: Any) -> Any:
    """Return float64 for a floating-point dtype, complex128 for a complex dtype, and any other dtype unchanged."""
    if not isinstance(dtype, torch.dtype):
        return dtype
    if dtype.is_complex:
        return torch.complex128
    return torch.float64 if dtype.is_floating_point else dtype


class Widening(PausableMode):
    """A mode in which casts and tensor factories use float64 instead of other floating-point dtypes, and complex128
    instead of other complex dtypes.
    """

    def call(self, func: Any, args: Any, kwargs: Any) -> Any:
        if not self.is_paused and kwargs.get("dtype") is not None and not is_higher_order(func) and not func.is_view:
            kwargs = {**kwargs, "dtype": widened(kwargs["dtype"])}
        return func(*args, **kwargs)
