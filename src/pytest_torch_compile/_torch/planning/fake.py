"""Create fake CUDA tensors, which have all properties of CUDA tensors except values, and count the memory that they
would use on the GPU.

This module uses these private torch names, checked with torch 2.11, 2.13 and 2.15: ``FakeTensorMode.dispatch`` and the
constructor of ``FakeTensor``, both from ``torch._subclasses``.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

CARD = torch.device("cuda", 0)


@dataclass
class Memory:
    """The number of bytes in use on the GPU, and the maximum of this number so far. Each storage is counted with its
    requested size.
    """

    used: int = 0
    peak: int = 0
    _known: dict[int, weakref.ref[Any]] = field(default_factory=dict)

    def note(self, tensor: torch.Tensor) -> None:
        """Count a tensor's storage until the storage is freed."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._known:
            return
        size = storage.nbytes()
        self.used += size
        self.peak = max(self.peak, self.used)

        def freed(_: Any) -> None:
            self.used -= size
            del self._known[key]  # the next storage may get the same address

        self._known[key] = weakref.ref(storage, freed)


class CardMode(FakeTensorMode):
    """The fake tensor mode in which generated code runs as if on the GPU. ``memory`` counts the memory that CUDA
    tensors use.
    """

    def __init__(self) -> None:
        super().__init__(allow_non_fake_inputs=True)
        self.memory = Memory()
        self._depth = 0
        self._storages: dict[int, torch.Tensor] = {}

    def dispatch(self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] = {}) -> Any:
        """Run an operator on fake tensors. A decomposition's temporary tensors are not counted, because the operator's
        CUDA kernel does not create them.
        """
        self._depth += 1
        try:
            result = super().dispatch(func, types, args, kwargs)
        finally:
            self._depth -= 1
        for tensor in result if isinstance(result, (tuple, list)) else (result,):
            if not self._depth and isinstance(tensor, FakeTensor) and tensor.fake_device.type == "cuda":
                self.memory.note(tensor)
        return result

    def tensor(self, shape: Shape) -> torch.Tensor:
        """Create a fake tensor from a description. Tensors that are described with the same storage become views of
        one storage.
        """
        if shape.storage not in self._storages:
            bytes_of_storage = torch.empty(shape.storage_bytes, dtype=torch.uint8, device="meta")
            self._storages[shape.storage] = bytes_of_storage
        storage = self._storages[shape.storage].untyped_storage()
        plain = torch.empty(0, dtype=shape.dtype, device="meta")
        plain.set_(storage, shape.offset, shape.size, shape.stride)
        tensor = FakeTensor(self, plain, CARD if shape.on_card else torch.device("cpu"))
        if shape.on_card:
            self.memory.note(tensor)
        if shape.parameter:
            return torch.nn.Parameter(tensor, requires_grad=shape.requires_grad)
        return tensor.requires_grad_(shape.requires_grad)

    def forget_storages(self) -> None:
        """Drop the references to the storages, so that each storage is freed together with its last tensor."""
        self._storages.clear()


@dataclass(frozen=True)
class Shape:
    """The description of a tensor to create. ``storage`` identifies the tensor's storage: tensors with the same number
    share one storage.

    ``values`` contains the contents of the storage, or is None if the tensor has no values.
    """

    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    dtype: torch.dtype
    requires_grad: bool
    parameter: bool
    on_card: bool
    storage: int
    storage_bytes: int
    values: bytes | None = None


_modes: list[CardMode] = []


@contextmanager
def tensors_made_in(mode: CardMode) -> Iterator[None]:
    """Inside the ``with`` block, unpickle tensors as fake tensors of ``mode``."""
    _modes.append(mode)
    try:
        yield
    finally:
        _modes.pop()
        mode.forget_storages()


def made(shape: Shape) -> torch.Tensor:
    """Create a tensor from its description. This function is called while the planning process unpickles a target."""
    return _modes[-1].tensor(shape)
