"""Pickle parametrized modules, for example modules with weight normalization. torch refuses to pickle such modules.

A parametrized module is an instance of a class that torch created for this one module. So the unpickled copy is created
from the original class and is then parametrized again.

This module uses these private torch names, checked with torch 2.11, 2.13 and 2.15: ``_inject_new_class`` and
``_inject_property`` of ``torch.nn.utils.parametrize``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch.nn import Module
from torch.nn.utils import parametrize


def reduced_parametrized(thing: Any) -> Any:
    """Reduce a parametrized module for pickle. Returns ``NotImplemented`` for any other object."""
    if not isinstance(thing, Module) or not parametrize.is_parametrized(thing):
        return NotImplemented
    return _made, (type(thing).__bases__[0], [*thing.parametrizations]), vars(thing)


def _made(kind: type[Module], names: Sequence[str]) -> Module:
    torchs: Any = parametrize
    module: Module = object.__new__(kind)
    torchs._inject_new_class(module)
    for name in names:
        torchs._inject_property(module, name)
    return module
