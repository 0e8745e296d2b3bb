"""Copy the target before it is measured, so that the measured memory includes the model, and training does not change
the caller's model.
"""

from __future__ import annotations

import copy
import types
from typing import Any

import torch

from ..._torch.object_text import name_of
from ...findings import CompileUsageError
from ...legs.calls import Call
from ...legs.reach import EMPTY, cells, content, lives_in_torch, reached


def copied(target: Any, call: Call) -> tuple[Any, Call]:
    """Copy a target and a call. Functions that refer to tensors or modules are recreated, so that they refer to the
    copies.

    Raises:
        CompileUsageError: If an object cannot be deep-copied.
    """
    memo: dict[int, Any] = {}
    for tensor in reached([target, call.args, call.kwargs, call.actions]):
        if isinstance(tensor, torch.Tensor) and tensor.requires_grad and not tensor.is_leaf:
            memo[id(tensor)] = tensor.detach().clone().requires_grad_()
    try:
        _copy_functions(target, memo)
        return copy.deepcopy((target, call), memo)
    except Exception as error:
        name = name_of(target)
        raise CompileUsageError(
            f"{name} or its inputs cannot be deep-copied, but timing requires a copy: {type(error).__name__}: "
            f"{error}. Add a __deepcopy__ method to the class that cannot be copied."
        ) from error


def _copy_functions(target: Any, memo: dict[int, Any]) -> None:
    """Recreate functions that refer to tensors or modules, because ``deepcopy`` does not copy functions."""
    functions = [value for value in reached([target]) if isinstance(value, types.FunctionType)]
    twins = [
        function
        for function in functions
        if not lives_in_torch(function)
        and any(isinstance(value, (torch.Tensor, torch.nn.Module)) for value in reached([function]))
    ]
    for function in twins:
        own = tuple(memo.setdefault(id(cell), types.CellType()) for _, cell in cells(function))
        twin = types.FunctionType(
            function.__code__, function.__globals__, function.__name__, function.__defaults__, own
        )
        twin.__qualname__, twin.__module__, twin.__kwdefaults__ = (
            function.__qualname__, function.__module__, function.__kwdefaults__
        )  # fmt: skip
        twin.__dict__.update(vars(function))
        memo[id(function)] = twin
    for function in twins:
        for _, cell in cells(function):
            if content(cell) is not EMPTY and content(memo[id(cell)]) is EMPTY:
                memo[id(cell)].cell_contents = copy.deepcopy(content(cell), memo)
