"""Read and restore a tensor's state below autograd, without running tensor subclasses' code.

This module uses these private torch names, checked with torch 2.6, 2.8, 2.11, 2.13 and 2.15:
``torch._C.DisableTorchFunctionSubclass``, ``torch._C._DisableTorchDispatch``,
``torch._C._autograd._unsafe_set_version_counter`` (takes one tensor on 2.6, a tuple since 2.8),
``torch._has_compatible_shallow_copy_type``, ``Tensor._version``, ``_backward_hooks``, ``_post_accumulate_grad_hooks``,
``_indices`` and ``_values``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.nn.parameter import is_lazy
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from .attributes import attributes, same_values, set_attributes

_BY_ROW = (torch.sparse_csr, torch.sparse_bsr)
_BY_COLUMN = (torch.sparse_csc, torch.sparse_bsc)
# The number of bytes that are copied from the host at a time, for a comparison with bytes on a device.
_CHUNK = 64 << 20


class Unreadable(Exception):
    """Raised for a tensor whose data is inaccessible, because its layout or subclass has no storage."""


def without_torch_function() -> AbstractContextManager[None]:
    """Return a context that disables ``__torch_function__`` of tensor subclasses, which is the caller's code and may
    refuse to be called.
    """
    disabled: AbstractContextManager[None] = torch._C.DisableTorchFunctionSubclass()
    return disabled


@contextmanager
def below_subclasses() -> Iterator[None]:
    """Run the ``with`` block outside inference mode, with gradients and tensor subclasses' code disabled."""
    with torch.inference_mode(False), torch.no_grad(), torch._C.DisableTorchFunctionSubclass():
        with torch._C._DisableTorchDispatch():
            yield


def can_swap_data(tensor: torch.Tensor | None, other: torch.Tensor) -> bool:
    """Return whether ``tensor.data = other`` is possible."""
    return tensor is not None and torch._has_compatible_shallow_copy_type(tensor, other)


def is_wrapper(tensor: torch.Tensor) -> bool:
    """Return whether a tensor is a wrapper: it has no storage, and its attributes contain other tensors."""
    if type(tensor) in (torch.Tensor, torch.nn.Parameter) or is_lazy(tensor):
        return False
    if is_traceable_wrapper_subclass(tensor):
        return True
    with without_torch_function():
        try:
            no_memory = tensor.device.type != "meta" and torch.Tensor.untyped_storage(tensor).data_ptr() == 0
            return bool(no_memory and torch.Tensor.numel(tensor) > 0)
        except (RuntimeError, NotImplementedError):
            return True


def is_plain(tensor: torch.Tensor) -> bool:
    """Return whether a tensor's data is in one storage, which the tensor accesses by strides."""
    with torch._C.DisableTorchFunctionSubclass():
        if is_lazy(tensor) or tensor.layout is not torch.strided or tensor.device.type == "meta":
            return False
        return not (tensor.is_nested or tensor.is_quantized or is_wrapper(tensor))


def without_subclass(tensor: torch.Tensor) -> torch.Tensor:
    """Return a plain tensor with the same data, because the methods of a subclass may raise any exception. A wrapper is
    returned unchanged, because its data is in other tensors.
    """
    if type(tensor) in (torch.Tensor, torch.nn.Parameter) or is_lazy(tensor) or is_wrapper(tensor):
        return tensor
    with below_subclasses():
        return torch.Tensor.detach(tensor)


def pieces(tensor: torch.Tensor) -> list[torch.Tensor]:
    """Return the tensors that contain a tensor's data; the list is empty for lazy, meta and wrapper tensors.

    Raises:
        Unreadable: If torch does not provide access to the data.
    """
    if is_lazy(tensor) or tensor.device.type == "meta":
        return []
    if is_wrapper(tensor):
        return []
    if tensor.layout is torch.strided:
        return [tensor]
    if tensor.layout is torch.sparse_coo:
        return [tensor._indices(), tensor._values()]
    if tensor.layout in _BY_ROW:
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    if tensor.layout in _BY_COLUMN:
        return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    raise Unreadable(str(tensor.layout))


@dataclass(frozen=True)
class Extent:
    """A range of bytes in a storage."""

    storage: torch.UntypedStorage
    start: int
    stop: int

    @property
    def key(self) -> tuple[str, int]:
        """A key that identifies the storage."""
        return str(self.storage.device), self.storage.data_ptr()

    def covers(self, other: Extent) -> bool:
        """Return whether the other range lies within this range."""
        return self.start <= other.start and other.stop <= self.stop

    def live(self) -> torch.Tensor:
        """Return the bytes as an int64 tensor, or as a uint8 tensor if they are not aligned to 8 bytes. Writing to this
        tensor does not change version counters.
        """
        dtype, width = torch.uint8, 1
        if self.start % 8 == 0 and self.stop % 8 == 0 and self.storage.data_ptr() % 8 == 0:
            dtype, width = torch.int64, 8
        empty = torch.empty(0, dtype=dtype, device=self.storage.device)
        return empty.set_(self.storage, self.start // width, ((self.stop - self.start) // width,), (1,))


def extent(piece: torch.Tensor) -> Extent | None:
    """Return the range of bytes that a tensor's elements occupy, or None for a tensor without elements or without
    allocated memory.

    Raises:
        Unreadable: If the tensor has no storage.
    """
    piece = without_subclass(piece)
    if piece.numel() == 0:
        return None
    try:
        storage = piece.untyped_storage()
        if piece.is_nested:
            return Extent(storage, 0, storage.nbytes())
        width, offset = piece.element_size(), piece.storage_offset()
        last = sum((size - 1) * stride for size, stride in zip(piece.shape, piece.stride(), strict=True))
    except (RuntimeError, NotImplementedError) as error:
        raise Unreadable(type(piece).__name__) from error
    found = Extent(storage, offset * width, (offset + last + 1) * width)
    return found if storage.nbytes() >= found.stop and storage.data_ptr() else None


def holds(extent: Extent, saved: torch.Tensor) -> bool:
    """Return whether the bytes in a range equal the saved bytes, which may be on another device."""
    live = extent.live()
    if live.device == saved.device:
        return bool(torch.equal(live, saved))
    step = _CHUNK // live.element_size()
    parts = zip(live.split(step), saved.split(step), strict=True)
    return all(torch.equal(here, there.to(here.device)) for here, there in parts)


def viewed(saved: torch.Tensor, extent: Extent, like: torch.Tensor) -> torch.Tensor:
    """Return the saved values of ``like``, which is a tensor within the range. The result has the same size, strides,
    dtype and device as ``like``.
    """
    width = like.element_size()
    start = like.storage_offset() * width - extent.start
    offset, rest = divmod(start, width)
    if saved.device != like.device:  # copy only this range, because many tensors may be views of one flat buffer
        last = sum((size - 1) * stride for size, stride in zip(like.shape, like.stride(), strict=True))
        saved, offset = saved.view(torch.uint8)[start : start + (last + 1) * width].to(like.device), 0
    elif rest:  # the range starts inside an element of this dtype, for example because of a view in another dtype
        raw = saved.view(torch.uint8)[rest:]
        saved, offset = raw.clone(), offset
    empty = torch.empty(0, dtype=like.dtype, device=like.device)
    return empty.set_(saved.untyped_storage(), offset, like.shape, like.stride())


def copy_with_strides(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy of a tensor that has the same strides, even if there are gaps between the elements."""
    copied = tensor.clone()
    place = extent(tensor)
    if place is None or copied.stride() == tensor.stride():
        return copied
    return viewed(place.live().clone(), place, tensor)


@dataclass(frozen=True)
class TensorState:
    """The state of a tensor object except its data.

    ``data`` is another tensor object with the same memory, size, strides and dtype as the tensor; None for a wrapper.
    """

    kind: type
    data: torch.Tensor | None
    requires_grad: bool
    is_leaf: bool
    grad: torch.Tensor | None
    version: int | None
    attributes: dict[str, Any] = field(default_factory=dict)
    hooks: tuple[Any, Any] = (None, None)
    hook_items: tuple[Any, Any] = (None, None)

    @classmethod
    def of(cls, tensor: torch.Tensor) -> TensorState:
        """Return the current state of a tensor."""
        wrapper = is_wrapper(tensor)
        with below_subclasses():
            hooks = tensor._backward_hooks, tensor._post_accumulate_grad_hooks
            return cls(
                type(tensor),
                None if wrapper else torch.Tensor.detach(tensor),  # a subclass may override methods
                tensor.requires_grad,
                tensor.is_leaf,
                tensor.grad if tensor.is_leaf else None,
                None if wrapper or tensor.is_inference() else tensor._version,
                attributes(tensor),
                hooks,
                tuple(None if hook is None else dict(hook) for hook in hooks),  # type: ignore[arg-type]
            )

    def with_data(self, data: torch.Tensor) -> TensorState:
        """Return the same state with different data."""
        return replace(self, data=data)

    def is_as(self, other: TensorState) -> bool:
        """Return whether two states of one tensor object are identical."""
        return (
            self.kind is other.kind
            and self.requires_grad == other.requires_grad
            and self.is_leaf == other.is_leaf
            and self.grad is other.grad
            and self.version == other.version
            and _same_memory(self.data, other.data)
            and self.refers_as(other)
        )

    def refers_as(self, other: TensorState) -> bool:
        """Return whether two states have the same class, attributes and hooks."""
        return (
            self.kind is other.kind
            and same_values(self.attributes, other.attributes)
            and all(one is two for one, two in zip(self.hooks, other.hooks, strict=True))
            and all(
                same_values(one or {}, two or {}) for one, two in zip(self.hook_items, other.hook_items, strict=True)
            )
        )

    def put(self, tensor: torch.Tensor) -> None:
        """Restore the state of the tensor object."""
        with below_subclasses():
            now = TensorState.of(tensor)
            if now.kind is not self.kind:
                if self.data is not None and is_lazy_kind(self.kind):
                    tensor.data = self.data
                tensor.__class__ = self.kind
            if now.grad is not self.grad and now.grad is not None and tensor.is_leaf:
                tensor.grad = None  # torch cannot assign .data while .grad has another dtype
            if self.data is not None and not _same_memory(now.data, self.data):
                tensor.data = self.data
            if self.is_leaf and not now.is_leaf:
                tensor.detach_()
            if self.is_leaf and tensor.requires_grad != self.requires_grad:
                tensor.requires_grad_(self.requires_grad)
            if tensor.is_leaf and tensor.grad is not self.grad:
                tensor.grad = self.grad
            if not same_values(attributes(tensor), self.attributes):
                set_attributes(tensor, self.attributes)
            self._put_hooks(tensor, now)
            if self.version is not None and tensor._version != self.version:
                set_version(tensor, self.version)

    def _put_hooks(self, tensor: torch.Tensor, now: TensorState) -> None:
        names = ("_backward_hooks", "_post_accumulate_grad_hooks")
        for name, held, items, present in zip(names, self.hooks, self.hook_items, now.hooks, strict=True):
            if present is not None and present is not held:
                present.clear()  # autograd reads the hooks from this dict, not from the attribute
            if held is not None and not same_values(held, items):
                held.clear()
                held.update(items)
            if present is not held:
                setattr(tensor, name, held)


def is_lazy_kind(kind: type) -> bool:
    """Return whether a class is for lazy tensors, which have no data until they are initialized."""
    return issubclass(kind, (torch.nn.UninitializedParameter, torch.nn.UninitializedBuffer))


def set_version(tensor: torch.Tensor, version: int) -> None:
    """Set the version counter, by which autograd detects in-place writes to saved tensors."""
    try:
        torch._C._autograd._unsafe_set_version_counter((tensor,), (version,))
    except TypeError:  # torch 2.6
        torch._C._autograd._unsafe_set_version_counter(tensor, version)


def _same_memory(one: torch.Tensor | None, other: torch.Tensor | None) -> bool:
    if one is None or other is None:
        return one is other
    if (one.dtype, one.device, one.layout, one.dim()) != (other.dtype, other.device, other.layout, other.dim()):
        return False
    try:
        if one.is_quantized and one.shape != other.shape:
            return False
        if one.layout is torch.strided and not (one.is_nested or one.is_quantized):
            return bool(one.is_set_to(other))
        parts = zip(pieces(one), pieces(other), strict=True)
        return all(left.untyped_storage()._cdata == right.untyped_storage()._cdata for left, right in parts)
    except (RuntimeError, NotImplementedError, Unreadable):  # for example, if the gradient is on the meta device
        return True
