"""Modules and tensors that a function reaches through global names: each leg has its own values in them."""

from __future__ import annotations

import types
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch


@dataclass
class _Values:
    """What the tensors and modules hold at one time."""

    tensors: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]]
    training: list[tuple[torch.nn.Module, bool]]


class GlobalState:
    """Globals cannot be copied for a leg, so that their values are put in place while the leg runs."""

    def __init__(self, target: Any) -> None:
        self._globals = dict(_named_globals(target))
        self._own = self._read()

    @contextmanager
    def in_force(self) -> Iterator[None]:
        """Give the globals this leg's values in the body, and the caller's after it."""
        if not self._globals:
            yield
            return
        callers = self._read()
        _write(self._own)
        try:
            yield
        finally:
            self._own = self._read()
            _write(callers)

    def _read(self) -> _Values:
        modules = [m for value in self._globals.values() if isinstance(value, torch.nn.Module) for m in value.modules()]
        tensors = [value for value in self._globals.values() if isinstance(value, torch.Tensor)]
        for module in modules:
            tensors += [*module.parameters(recurse=False), *module.buffers(recurse=False)]
        return _Values(
            [(tensor, tensor.detach().clone(), tensor.grad if tensor.is_leaf else None) for tensor in tensors],
            [(module, module.training) for module in modules],
        )


def _write(values: _Values) -> None:
    with torch.no_grad():
        for tensor, value, gradient in values.tensors:
            if not torch.equal(tensor, value):
                tensor.copy_(value)
            if tensor.is_leaf:
                tensor.grad = gradient
    for module, training in values.training:
        module.training = training


def _named_globals(target: Any) -> Iterator[tuple[str, Any]]:
    function = getattr(target, "__func__", target)
    if not isinstance(function, types.FunctionType):
        return
    for name in _names(function.__code__):
        value = function.__globals__.get(name)
        if isinstance(value, (torch.nn.Module, torch.Tensor)):
            yield name, value


def _names(code: types.CodeType) -> set[str]:
    inner = (_names(constant) for constant in code.co_consts if isinstance(constant, types.CodeType))
    return set(code.co_names).union(*inner)
