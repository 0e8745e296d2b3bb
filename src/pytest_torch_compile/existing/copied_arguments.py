"""Copy a call's arguments, if they are small, so that the check of a later call can repeat the earlier call first.

This module stores copies of tensors, but no references to the test's tensors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .._torch.attributes import is_a
from ..legs.calls import Call
from ..legs.reach import PLAIN

# The limits in bytes: for one call, and for all calls of a run together.
MOST_BYTES = 1 << 20
MOST_BYTES_IN_ALL = 64 << 20


class NotCopied(Exception):
    """Raised when an argument is not a plain value, a small tensor, or a container of such values and tensors."""


@dataclass(frozen=True)
class _Tensor:
    """The values of a tensor, in host memory."""

    numbers: torch.Tensor
    device: torch.device
    requires_grad: bool


@dataclass(frozen=True)
class Copied:
    """A call's arguments, without references to the test's objects."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    size: int

    @classmethod
    def of(cls, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Copied:
        """Copy the arguments.

        Raises:
            NotCopied: If the arguments contain a value that cannot be copied, or are too large.
        """
        counted = [0]
        copied = tuple(_copied(value, counted) for value in args)
        named = {name: _copied(value, counted) for name, value in kwargs.items()}
        return cls(copied, named, counted[0])

    def call(self) -> Call:
        """Create a call with new tensors that have the copied values."""
        return Call(tuple(map(_made, self.args)), {name: _made(value) for name, value in self.kwargs.items()})


def _copied(value: Any, counted: list[int]) -> Any:
    if type(value) in PLAIN or is_a(value, (torch.dtype, torch.device)):
        return value
    if type(value) in (torch.Tensor, torch.nn.Parameter) and value.layout is torch.strided and not value.is_nested:
        counted[0] += value.numel() * value.element_size()
        if counted[0] > MOST_BYTES or not value.is_contiguous() or value.device.type == "meta":
            raise NotCopied
        with torch.no_grad():
            return _Tensor(value.detach().to("cpu", copy=True), value.device, value.requires_grad)
    if type(value) in (list, tuple):
        return type(value)(_copied(one, counted) for one in value)
    if type(value) is dict and all(type(key) in PLAIN for key in value):
        return {key: _copied(one, counted) for key, one in value.items()}
    raise NotCopied


def _made(value: Any) -> Any:
    if type(value) is _Tensor:
        return value.numbers.to(value.device, copy=True).requires_grad_(value.requires_grad)
    if type(value) in (list, tuple):
        return type(value)(_made(one) for one in value)
    if type(value) is dict:
        return {key: _made(one) for key, one in value.items()}
    return value
