"""Pointers to the memory of tensors. Each access is checked against the bounds of the tensor's storage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import torch

from .block import OF_TORCH, aligned


@dataclass
class Launch:
    """The state of one launch: the ids of the programs that are running, and the faults found so far."""

    ids: Sequence[torch.Tensor] = ()
    grid: Sequence[int] = ()
    faults: list[str] = field(default_factory=list)

    def note(self, fault: str) -> None:
        """Add a fault, unless the same fault was added before."""
        if fault not in self.faults:
            self.faults.append(fault)


class Pointer:
    """A pointer to elements of a tensor. ``offset`` is counted in elements, starting at the tensor's first element."""

    def __init__(self, name: str, tensor: torch.Tensor, offset: Any = 0) -> None:
        self.name, self.tensor, self.offset = name, tensor, offset
        self.dtype = SimpleNamespace(element_ty=OF_TORCH.get(tensor.dtype), is_ptr=lambda: True)

    def __add__(self, offset: Any) -> Pointer:
        return Pointer(self.name, self.tensor, offset if isinstance(self.offset, int) else self.offset + offset)

    __radd__ = __add__

    def places(self, mask: Any, launch: Launch, verb: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        """Return the storage as a flat tensor, each lane's index in this tensor, and a mask of the lanes that access
        memory. Indices outside the storage are recorded as faults and masked out.
        """
        storage = self.tensor.untyped_storage()
        size = storage.nbytes() // self.tensor.dtype.itemsize
        flat = torch.empty(0, dtype=self.tensor.dtype, device="cpu").set_(storage, 0, (size,), (1,))
        values = aligned(self.offset, True if mask is None else mask)
        index, active = torch.broadcast_tensors(values[0].long() + self.tensor.storage_offset(), values[1].bool())
        wrong = active & ((index < 0) | (index >= size))
        if wrong.any():
            first = int(index[wrong][0]) - self.tensor.storage_offset()
            launch.note(f"{verb} {self.name}[{first}], but the size of {self.name} is {self.tensor.numel()}")
        return flat, torch.where(active & ~wrong, index, 0), active & ~wrong


def poison(tensor: torch.Tensor) -> torch.Tensor:
    """Fill a tensor with NaN, True or a large integer, depending on its dtype, to mark its values as undefined."""
    if tensor.dtype == torch.bool:
        return tensor.fill_(True)
    if tensor.is_floating_point() or tensor.is_complex():
        return tensor.fill_(float("nan"))
    return tensor.fill_(torch.iinfo(tensor.dtype).max // 3)
