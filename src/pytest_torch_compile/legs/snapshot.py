"""Record the state that a run may write to, and restore it afterwards.

Each run of a check (called a leg) uses the caller's objects. The first call of a run starts from the recorded contents,
and each later call starts from the contents at the end of the previous call. The caller's contents are restored after
each call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.nn.parameter import is_lazy

from .._torch.attributes import is_a
from .._torch.machine_faults import machine_fault
from .._torch.tensor_state import (
    Extent,
    TensorState,
    Unreadable,
    below_subclasses,
    copy_with_strides,
    extent,
    is_lazy_kind,
    is_plain,
    viewed,
    without_torch_function,
)
from .file_copies import FileCopies
from .holders import Holder, Key, Memory, TensorObject, Variable, holders_of
from .reach import reached
from .renewed import Replacements, renewal

# The fraction of a device's free memory that float64 copies and a snapshot may use. If they would use more, the
# snapshot is kept on the host.
ROOM = 0.85
# In training, the parameters and gradients of the eager run stay on the device until they are compared. A snapshot
# larger than this number of bytes is kept on the host. On an H100, keeping a 2.15 GB snapshot on the host took 7 s. A
# larger snapshot of tensors on the host is kept in a temporary file.
LARGE_IN_TRAINING = 2**30
# Copies of tensors of fewer bytes than this stay in memory.
LEAST_IN_FILE = 2**20


@dataclass
class Contents:
    """The part of one run's state that differs from the caller's state: changed contents and replaced objects."""

    held: dict[Key, Any] = field(default_factory=dict)
    replacements: Replacements = field(default_factory=Replacements)


class Snapshot:
    """A snapshot of the initial contents of all writable objects that are reachable from ``roots``."""

    def __init__(self, roots: Iterable[Any], *, on_host: bool | None = None, training: bool = False) -> None:
        self.holders: dict[Key, Holder] = {}
        self.initial: dict[Key, Any] = {}
        self.unreadable: dict[int, Any] = {}
        self._reached: dict[int, Any] = {}
        self._renewals: dict[int, tuple[Any, Any]] = {}
        self._by_storage: dict[tuple[str, int], list[Memory]] = {}
        self._memory_at_start: dict[int, Memory | None] = {}
        self._now: dict[Key, Any] = {}
        self._gradients: set[Key] = set()  # the keys of tensors that are the gradient of another tensor
        self._running: Contents | None = None
        self._taken = False
        self._host = on_host
        self._file: FileCopies | None = None
        roots = list(roots)
        if on_host is None:
            tensors = [value for value in reached(roots) if is_a(value, torch.Tensor) and is_plain(value)]
            with without_torch_function():
                self._host = _needs_host(tensors, training)
                if training and sum(t.nbytes for t in tensors if t.device.type == "cpu") > LARGE_IN_TRAINING:
                    self._file = FileCopies()
        self.note(*roots)

    def note(self, *values: Any) -> None:
        """Add all objects that are reachable from the values. Some objects, such as iterators, are recreated for each
        run; if a run is active, recreate such objects for this run.
        """
        found = list(reached(values, closed=self._reached))
        self._reached |= {id(value): value for value in found}
        new: list[Holder] = []
        for value in found:
            if (make := renewal(value)) is not None:
                self._renewals[id(value)] = value, make
                if self._running is not None:
                    self._running.replacements.add(value, make())
            new += self._holders_of(value)
        for holder in new:
            self.add(holder)
        for holder in new:
            if isinstance(holder, TensorObject) and is_plain(holder.value):
                self._memory_at_start[id(holder.value)] = self._memory_under(holder.value)

    def add(self, holder: Holder) -> None:
        """Record one holder with its content."""
        if holder.key in self.holders:
            return
        if isinstance(holder, Memory):
            # Tensors may share memory. Memory that is already recorded must not be recorded again.
            known = self._by_storage.setdefault(holder.extent.key, [])
            if any(memory.extent.covers(holder.extent) for memory in known):
                return
            known.append(holder)
        content = holder.read()
        if isinstance(holder, TensorObject) and content.grad is not None:
            self._gradients.add(("tensor", id(content.grad)))
        if self._file is not None and isinstance(holder, Memory) and content.nbytes >= LEAST_IN_FILE:
            content = self._file.saved(content)
        self.holders[holder.key] = holder
        self.initial[holder.key] = self._now[holder.key] = content
        if self._running is not None and self._running.replacements:
            self._place(holder, holder.replaced(content, self._running.replacements))

    def _holders_of(self, value: Any) -> list[Holder]:
        try:
            return list(holders_of(value, self._is_on_host))
        except Unreadable:
            self.unreadable[id(value)] = value
        except Exception as error:  # reading may raise any exception
            if machine_fault(error, compiling=False):
                raise
            self.unreadable[id(value)] = value
        return []

    def _is_on_host(self, found: Extent) -> bool:
        return bool(self._host) and found.storage.device.type != "cpu"

    def new_leg(self) -> Contents:
        """Return the initial contents of a run: the caller's contents, with iterators and similar objects recreated."""
        contents = Contents()
        for value, make in self._renewals.values():
            contents.replacements.add(value, make())
        return contents

    def replace(self, contents: Contents) -> None:
        """Install a run's replacements wherever the replaced objects are referenced."""
        for key, holder in self.holders.items() if contents.replacements else ():
            content = contents.held.get(key, self.initial[key])
            new = holder.replaced(content, contents.replacements)
            if new is not content:
                contents.held[key] = new

    @contextmanager
    def in_force(self, contents: Contents) -> Iterator[None]:
        """Install a run's contents inside the ``with`` block, and restore the caller's contents afterwards.
        ``contents`` receives the changes made inside the block.

        The caller's contents are restored even if the block raises an exception or Ctrl-C interrupts the restoration.
        """
        try:
            self._running, self._taken = contents, False
            self._put(contents.held)
            yield
            self._running = None
            if not self._taken:
                self._take(contents)
        except BaseException:
            self._now = {}  # it is unknown what changed, so everything is restored
            raise
        finally:
            self._running = None
            self.put_back()

    def take(self) -> None:
        """Record the changes that the active run has made. Nothing may change until the run's contents are replaced."""
        if self._running is not None:
            self._take(self._running)

    def put_back(self) -> None:
        """Restore all initial contents.

        If restoring one holder fails, or if Ctrl-C or a time limit interrupts this method, it restores the remaining
        holders before it raises the exception.
        """
        first: BaseException | None = None
        refused: set[Key] = set()
        with torch.inference_mode(False), torch.no_grad():
            while waiting := [key for key in self.holders if self._is_changed(key) and key not in refused]:
                for key in self._in_order(waiting):
                    try:
                        self._place(self.holders[key], self.initial[key])
                    except Exception as error:  # a user class may raise any exception
                        first = first or error
                        refused.add(key)
                    except BaseException as error:
                        first = error
        if first is not None:
            raise first

    def _is_changed(self, key: Key) -> bool:
        # If the present content is unknown, the default ``self`` makes the holder count as changed.
        return self._now.get(key, self) is not self.initial[key]

    def _put(self, held: dict[Key, Any]) -> None:
        with torch.inference_mode(False), torch.no_grad():
            for key in self._in_order(self.holders):
                content = held.get(key, self.initial[key])
                if self._now.get(key, self) is not content:
                    self._place(self.holders[key], content)

    def _in_order(self, keys: Iterable[Key]) -> list[Key]:
        """Return the keys in the order in which to install contents. A gradient precedes its tensor, because torch
        refuses to assign a gradient of another dtype.
        """
        return sorted(keys, key=lambda key: key not in self._gradients)

    def _place(self, holder: Holder, content: Any) -> None:
        self._now.pop(holder.key, None)  # unknown, if an exception interrupts ``put``
        holder.put(content)
        self._now[holder.key] = content

    def _take(self, contents: Contents) -> None:
        """Record in ``contents`` the changes that the calls made."""
        with torch.inference_mode(False), torch.no_grad():
            for key, holder in list(self.holders.items()):
                initial = self.initial[key]
                known = self._now.get(key, initial)
                if not holder.has(known):
                    known = initial if initial is not known and holder.has(initial) else holder.read()
                    self._now[key] = known
                if known is not initial:
                    contents.held[key] = known
                elif key in contents.held:
                    del contents.held[key]
        self._taken = True

    def changed_objects(self, contents: Contents) -> dict[Key, Any]:
        """Return the new contents of the objects and variables that a run has changed. Tensors are omitted."""
        return {
            key: content
            for key, content in contents.held.items()
            if not isinstance(self.holders[key], (Memory, TensorObject))
        }

    def changed_references(self, contents: Contents, covered: Collection[int]) -> dict[Key, Any]:
        """Return the content of each holder that refers to other objects than in the caller's state. The data of
        tensors is not a reference. The gradients of the tensors whose ids are in ``covered`` are left out.
        """

        def refers_as(tensor: torch.Tensor, initial: TensorState, now: TensorState) -> bool:
            return now.refers_as(initial) and (id(tensor) in covered or now.grad is initial.grad)

        return {
            key: content
            for key, content in contents.held.items()
            if not isinstance(holder := self.holders[key], Memory)
            and not (isinstance(holder, TensorObject) and refers_as(holder.value, self.initial[key], content))
        }

    def at_end_of_call(self, tensor: torch.Tensor, contents: Contents, *, copy: bool) -> torch.Tensor:
        """Return a tensor in its state at the end of a call. The result remains valid after the caller's contents are
        restored.

        If the run did not change the tensor, the result is the tensor itself. If ``copy`` is true, memory
        that the run allocated is copied as well, because a later call may write to this memory.
        """
        key = "tensor", id(tensor)
        state: TensorState | None = contents.held.get(key)
        if state is None and id(tensor) in self._memory_at_start:
            memory = self._memory_at_start[id(tensor)]
            if memory is None or memory.key not in contents.held:
                return tensor
        if state is None and key not in self.holders:
            state = TensorState.of(tensor)
        elif state is None:
            state = self.initial[key]
        if is_lazy(tensor) and (state.data is None or is_lazy_kind(state.kind)):
            return tensor
        if state.data is None or not is_plain(state.data):
            return tensor.detach().clone().requires_grad_(tensor.requires_grad) if copy else tensor
        with below_subclasses():
            place = extent(state.data)
        memory = self._memory_of(place)
        if memory is not None and memory.key in contents.held:
            with below_subclasses():
                data = viewed(contents.held[memory.key], memory.extent, state.data)
        elif (memory is not None and state is self.initial.get(key)) or (key not in self.holders and not copy):
            return tensor
        else:
            with below_subclasses():
                data = copy_with_strides(state.data) if copy else state.data.detach()
        return _of_kind(data, state)

    def is_noted(self, tensor: torch.Tensor) -> bool:
        """Return whether the snapshot restores a tensor or its memory."""
        if ("tensor", id(tensor)) in self.holders:
            return True
        return is_plain(tensor) and self._memory_under(tensor) is not None

    def _memory_under(self, tensor: torch.Tensor) -> Memory | None:
        with below_subclasses():
            return self._memory_of(extent(tensor))

    def _memory_of(self, place: Extent | None) -> Memory | None:
        known = self._by_storage.get(place.key, ()) if place is not None else ()
        return next((memory for memory in known if place is not None and memory.extent.covers(place)), None)

    def variables(self) -> Iterator[Variable]:
        """Yield the named variables: globals, closed-over variables, defaults."""
        named = [holder for holder in self.holders.values() if isinstance(holder, Variable) and holder.label]
        yield from named

    def tensors(self) -> list[torch.Tensor]:
        """Return all recorded tensors."""
        return [holder.value for holder in self.holders.values() if isinstance(holder, TensorObject)]

    def not_observable(self) -> list[str]:
        """Return a list with one line, which contains the types whose state can be neither compared nor restored.
        Return an empty list if the state of all types can be compared and restored.
        """
        unread = (value for value in self.unreadable.values() if not (is_a(value, torch.Tensor) and is_lazy(value)))
        kinds = sorted({type(value).__name__ for value in unread})
        if not kinds:
            return []
        return [f"state of type {', '.join(kinds)} cannot be copied, so it was neither compared nor restored"]


def _of_kind(data: torch.Tensor, state: TensorState) -> torch.Tensor:
    """Return ``data`` as a tensor with the class and the ``requires_grad`` flag that ``state`` contains."""
    with without_torch_function(), torch.inference_mode(data.is_inference()):
        if state.kind is torch.nn.Parameter:
            return torch.nn.Parameter(data, state.requires_grad)
        made = data if state.kind is torch.Tensor else data.as_subclass(state.kind)
        return made.requires_grad_(state.requires_grad)


def _needs_host(tensors: Iterable[torch.Tensor], training: bool) -> bool:
    """Return whether copies must be kept on the host, because a device has too little memory for both a copy of the
    tensors and their data in float64, or because a large model is trained.
    """
    copies: Counter[torch.device] = Counter()
    doubles: Counter[torch.device] = Counter()
    for tensor in tensors:
        if tensor.device.type != "cpu":
            copies[tensor.device] += tensor.nbytes
            doubles[tensor.device] += tensor.nbytes // tensor.itemsize * (8 if tensor.dtype.is_floating_point else 0)
    if training and copies.total() > LARGE_IN_TRAINING:
        return True
    for device, size in (copies + doubles).items():
        module = torch.get_device_module(device)
        if hasattr(module, "mem_get_info") and size > ROOM * module.mem_get_info(device)[0]:
            return True
    return False
