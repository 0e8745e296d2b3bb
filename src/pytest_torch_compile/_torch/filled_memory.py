"""Run code eagerly with known numbers in memory that would be uninitialized, so that results that depend on this memory
differ from those of another run.

An op that allocates memory in its implementation is not affected. ``torch.use_deterministic_algorithms(True)`` would
fill that memory as well, but it also selects other kernels.
"""

from __future__ import annotations

import itertools
from typing import Any

import torch

from .dispatch_mode import DispatchMode, name_in_torch
from .float_types import is_packed

# ``resize_`` is not listed, because it keeps the values of the tensor that it resizes.
_UNINITIALIZED = frozenset(["empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"])
# Memory that an earlier run has filled may be reused, so each run uses another number. Any two of these differ by more
# than half of either of them. They are multiples of the largest number of the dtype.
_NUMBERS = itertools.cycle(sign * 8.0**-power / 4 for power in range(4) for sign in (1, -1))


class FilledMemory(DispatchMode):
    """A mode that fills each tensor that is allocated without a value. Floating-point tensors are filled with a large
    number, and other tensors with 1, because an integer may become an index.
    """

    def __init__(self) -> None:
        super().__init__()
        self._number = next(_NUMBERS)

    def call(self, func: Any, args: Any, kwargs: Any) -> Any:
        result = func(*args, **kwargs)
        if name_in_torch(func) not in _UNINITIALIZED:
            return result
        if type(result) is not torch.Tensor or result.layout is not torch.strided:
            return result
        if not (result.is_meta or result.is_quantized or is_packed(result.dtype)):
            is_float = result.is_floating_point() or result.is_complex()
            result.fill_(torch.finfo(result.dtype).max * self._number if is_float else 1)
        return result
