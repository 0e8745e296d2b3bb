"""Pointers to the memory of tensors. Each access is checked against the bounds of the tensor's storage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import torch

from .block import OF_TORCH, aligned


class Accesses:
    """The first and the last program that read each element of a storage, and those that wrote it. A GPU runs the
    programs of a launch in any order, but here, all of them load before any of them stores. So a result that depends on
    the order of the programs would not be noticed by its value.
    """

    def __init__(self, name: str, tensor: torch.Tensor) -> None:
        self._name, self._start = name, tensor.storage_offset()
        size = (2, tensor.untyped_storage().nbytes() // tensor.dtype.itemsize)
        # Row 0 contains the reads, and row 1 the writes.
        self._first = torch.full(size, torch.iinfo(torch.int32).max, dtype=torch.int32, device="cpu")
        self._last = torch.full(size, -1, dtype=torch.int32, device="cpu")

    def note(self, index: torch.Tensor, active: torch.Tensor, programs: torch.Tensor, *, writes: bool) -> None:
        """Note the programs that access elements; ``programs`` contains the number of each program."""
        programs = programs.reshape(-1, *[1] * (index.ndim - 1))
        index, active, programs = torch.broadcast_tensors(index, active, programs)
        index, programs = index[active], programs[active]
        self._first[int(writes)].scatter_reduce_(0, index, programs, "amin")
        self._last[int(writes)].scatter_reduce_(0, index, programs, "amax")

    def fault(self) -> str:
        """Return the fault if a program reads an element that another program writes, or an empty string."""
        both = (self._last >= 0).all(0)
        (elements,) = torch.where(both & (self._first.amin(0) != self._last.amax(0)))
        if not len(elements):
            return ""
        return (
            f"reads {self._name}[{int(elements[0]) - self._start}] in one program and writes it in another, so the "
            "result depends on the order in which a GPU runs the programs"
        )


@dataclass
class Launch:
    """The state of one launch: the numbers and ids of the programs that are running, and the faults found so far.
    ``accesses`` contains the memory that the kernel both reads and writes.
    """

    number: torch.Tensor = field(default_factory=lambda: torch.zeros(1, dtype=torch.int32, device="cpu"))
    ids: Sequence[torch.Tensor] = ()
    grid: Sequence[int] = ()
    faults: list[str] = field(default_factory=list)
    accesses: dict[tuple[int, torch.dtype], Accesses] = field(default_factory=dict)

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

    @property
    def memory(self) -> tuple[int, torch.dtype]:
        """The identity of the tensor's storage, and the dtype in which the pointer's elements are counted."""
        return self.tensor.untyped_storage()._cdata, self.tensor.dtype

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
        if accesses := launch.accesses.get(self.memory):
            accesses.note(index, active & ~wrong, launch.number, writes=verb != "reads")
        # torch accesses the elements of all lanes, so inactive lanes also need a valid index.
        return flat, torch.where(active & ~wrong, index, 0), active & ~wrong


def poison(tensor: torch.Tensor) -> torch.Tensor:
    """Fill a tensor with NaN, True or a large integer, depending on its dtype, to mark its values as undefined."""
    if tensor.dtype == torch.bool:
        return tensor.fill_(True)
    if tensor.is_floating_point() or tensor.is_complex():
        return tensor.fill_(float("nan"))
    return tensor.fill_(torch.iinfo(tensor.dtype).max // 3)
