"""Turn the results of a call into flat structures that can be compared between eager and compiled runs."""

from __future__ import annotations

import contextvars
import functools
import types
import weakref
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.nn.parameter import is_lazy

from .._torch.attributes import is_a, same_values
from .._torch.machine_faults import machine_fault
from .._torch.tensor_state import is_plain, is_wrapper
from .._torch.trees import waited
from ..numerics import CallRecord, Flat, Node
from .calls import Call
from .holders import ClassAttributes, Key, is_mutable
from .reach import cells, is_plain_key, is_table_of_python, items, parts
from .reach import is_plain as is_plain_value
from .snapshot import Contents, Snapshot
from .stateful import cannot_be_restored, comparable, stateful

_FACTS = (bool, type, types.FunctionType)
_HOLDERS = (tuple, types.MethodType, functools.partial, contextvars.ContextVar, weakref.ref)
# The number of results that are stored: a run may alternate between a few states.
MOST_STORED = 4
# The maximum number of values and of nested levels to compare. Model state is far smaller, so values beyond these
# limits are skipped.
MOST_VALUES = 50_000
DEEPEST = 50
# The setting in a parameter group that torch changes while it traces an optimizer step.
CAPTURABLE = "capturable"
# Attributes that only save time, by the class's package and name: a loguru logger remembers which modules have logged.
# These attributes are restored after a run, but not compared, because compiled code need not log.
_CACHES = {("loguru", "Core"): "enabled"}


@dataclass(frozen=True)
class _KeptState:
    """A result of ``KeptStates.of``, with the target, the number of holders and the changes for which it is valid."""

    target: Any
    holders: int
    changed: dict[Key, Any]
    flat: Flat


class KeptStates:
    """Returns the state that a target keeps. Visiting all of its objects takes longer than the calls of a small model,
    and most calls change only the data of tensors. Therefore, the last results are stored.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._stored: list[_KeptState] = []

    def of(self, target: Any, contents: Contents, covered: Collection[int]) -> Flat:
        """Return the state of a target other than parameters and buffers: attributes, variables, and their contents.
        ``contents`` are the run's contents at this moment.

        Each object appears once, under its first path. Tensors whose ids are in ``covered`` are omitted, because they
        are compared elsewhere.
        """
        covered = frozenset(covered)
        changed = self._snapshot.changed_references(contents, covered)
        count = len(self._snapshot.holders)
        for known in self._stored:
            if known.target is target and known.holders == count and same_values(known.changed, changed):
                return known.flat
        walk = _Walk(self._snapshot, covered)
        flat = walk.all_of(target)
        if walk.lasts and not self._snapshot.unreadable:
            self._stored = [_KeptState(target, count, changed, flat), *self._stored[: MOST_STORED - 1]]
        return flat


class _Walk:
    def __init__(self, snapshot: Snapshot, covered: frozenset[int]) -> None:
        self.flat = Flat()
        self._snapshot = snapshot
        self._covered = covered
        self._seen: set[int] = set()
        self._placed_by_torch: set[int] = set()
        # Whether another run in the same state would return the same objects, without keeping a run's tensors alive.
        self.lasts = True

    def all_of(self, target: Any) -> Flat:
        """Visit the target, the named variables and the class attributes."""
        self.enter(target, "", "attribute")
        for variable in self._snapshot.variables():
            self.visit(variable.read(), variable.label)
        for holder in list(self._snapshot.holders.values()):
            if isinstance(holder, ClassAttributes):
                for label, value in holder.labelled():
                    self.visit(value, label)
        return self.flat

    def enter(self, value: Any, path: str, kind: str) -> None:
        """Visit the parts of the target, and record their paths relative to the target."""
        self._seen.add(id(value))
        for text, part in self._parts(value):
            if not text or (is_a(part, torch.nn.Module) and is_a(value, torch.nn.Module)):
                self.enter(part, f"{path}{text}", kind) if id(part) not in self._seen else None
            else:
                self.visit(part, f"{kind} {(path + text).lstrip('.')}")

    def visit(self, value: Any, path: str, depth: int = 0) -> None:
        """Visit one value and its contents."""
        if is_plain_value(value):
            self.flat.nodes[path] = Node(type(value), True, value)
            return
        if len(self.flat.nodes) >= MOST_VALUES or depth > DEEPEST or is_table_of_python(value):
            return
        if is_a(value, torch.Tensor):
            self._visit_tensor(value, path, depth)
            return
        if (known := stateful(value)) is not None:
            self.flat.nodes[path] = Node(type(value), True, comparable(known.read()))
            return
        if is_a(value, (set, frozenset)) or not (is_mutable(value) or is_a(value, _HOLDERS)):
            self.flat.nodes[path] = Node(type(value), True, set(items(value)) if is_a(value, set) else value)
            return
        if id(value) in self._seen:
            return
        self._seen.add(id(value))
        of_torch = {CAPTURABLE} if id(value) in self._placed_by_torch else frozenset[str]()
        self.flat.nodes[path] = Node(type(value), False, shape=_shape(value, of_torch, self._snapshot))
        for text, part in self._parts(value):
            self.visit(part, f"{path}{text}", depth + 1)

    def _visit_tensor(self, tensor: torch.Tensor, path: str, depth: int) -> None:
        if is_lazy(tensor):
            return
        self.lasts = self.lasts and ("tensor", id(tensor)) in self._snapshot.holders
        if id(tensor) in self._placed_by_torch:
            self.lasts = False
            self.flat.nodes[path] = Node(type(tensor), True, tensor.detach().cpu().clone())
            return
        if id(tensor) not in self._covered and is_readable(tensor, self._snapshot):
            self.flat.nodes[path] = Node(type(tensor), True, tensor)
        if id(tensor) in self._seen or is_wrapper(tensor):
            return
        self._seen.add(id(tensor))
        for text, part in parts(tensor):
            if text != ".grad" or id(tensor) not in self._covered:
                self.visit(part, f"{path}{text}", depth + 1)

    def _parts(self, value: Any) -> Any:
        """Return the parts of a value to visit. Omit parts that torch changes while it traces, and function variables
        that are compared under separate names.
        """
        if is_a(value, torch.optim.Optimizer):
            self._placed_by_torch |= set(map(id, _placed_by_torch(value)))
        if id(value) in self._placed_by_torch:
            return ((text, part) for text, part in parts(value) if text != f"['{CAPTURABLE}']")
        if is_a(value, dict) and (left_out := _by_class(value, self._snapshot)):
            entries = len(items(value))
            return (pair for index, pair in enumerate(parts(value)) if index >= entries or index not in left_out)
        if cache := _CACHES.get((type(value).__module__.partition(".")[0], type(value).__name__)):
            return ((text, part) for text, part in parts(value) if text != f".{cache}")
        if not is_a(value, types.FunctionType):
            return parts(value)
        named = [name for name, cell in cells(value) if ("cell", id(cell)) in self._snapshot.holders]
        hidden = {f".{name}" for name in (*named, *(value.__kwdefaults__ or {}))}
        return ((t, p) for t, p in parts(value) if t not in hidden and not t.startswith(".default "))


def with_contents(arguments: Flat, record: CallRecord, call: Call, snapshot: Snapshot) -> Flat:
    """Return the flattened arguments of a call with the present contents of the objects among them: attributes, items
    of sets, and states such as those of random number generators. Call this function before the objects' state is
    restored.
    """
    walk = _Walk(snapshot, frozenset(map(id, arguments.tensors.values())))
    for position, value in enumerate(call.args):
        walk.visit(value, record.argument_label(position))
    for name, value in call.kwargs.items():
        walk.visit(value, f"argument {name}")
    found, known = walk.flat.nodes, arguments.nodes

    def is_left_out(path: str, node: Node) -> bool:
        """Return whether the walk left out a value, such as a setting that torch changes in an optimizer."""
        above = found.get(path[: max(path.rfind("."), path.rfind("["))])
        is_entered = above is not None and not above.is_leaf
        return is_entered and node.is_leaf and path not in found and not is_a(node.value, torch.Tensor)

    nodes = {path: node for path, node in known.items() if not is_left_out(path, node)}
    for path, node in found.items():
        # If both describe a container, only the flattened arguments bypass the methods of the container's class.
        if node.is_leaf or path not in nodes or nodes[path].is_leaf:
            nodes[path] = node
    return Flat(nodes)


def _placed_by_torch(optimizer: torch.optim.Optimizer) -> list[Any]:
    """Return the parts of an optimizer that torch changes when it traces a step on a GPU: the parameter groups and the
    scalar tensors in the state.

    torch sets ``capturable`` in the groups (up to torch 2.14, ``capturable`` stays set), and keeps scalars such as step
    counts on the GPU instead of the CPU. So ``capturable`` and the devices of these scalars are not compared.
    """
    groups = optimizer.__dict__.get("param_groups", ())
    states = optimizer.__dict__.get("state", {}).values()
    numbers = [value for state in states if is_a(state, dict) for _, value in items(state)]
    return [*groups, *(number for number in numbers if is_a(number, torch.Tensor) and number.dim() == 0)]


def not_restorable(record: CallRecord, call: Call) -> list[str]:
    """List the target's objects and the call's arguments whose state cannot be restored after a run."""
    named = {path: node.value for path, node in record.kept.nodes.items() if node.is_leaf}
    named |= {record.argument_label(position): value for position, value in enumerate(call.args)}
    named |= {f"argument {name}": value for name, value in call.kwargs.items()}
    return [f"{path} ({type(value).__name__})" for path, value in named.items() if cannot_be_restored(value)]


def is_readable(tensor: torch.Tensor, snapshot: Snapshot) -> bool:
    """Return whether a tensor's data can be copied for the comparison."""
    if id(tensor) in snapshot.unreadable:
        return False
    if type(tensor) in (torch.Tensor, torch.nn.Parameter):
        return True
    try:
        torch.Tensor.clone(torch.Tensor.detach(tensor))
    except Exception as error:  # a tensor subclass may raise any exception
        if machine_fault(error, compiling=False):
            raise
        snapshot.unreadable[id(tensor)] = tensor
        return False
    return True


def while_it_lasts(flat: Flat, snapshot: Snapshot) -> Flat:
    """Return the structure with a copy in place of each tensor whose data is not in one storage, such as a sparse
    tensor, and with the results of collectives that had not finished. Call this function before the tensors' state is
    restored.
    """

    def copied(tensor: torch.Tensor) -> torch.Tensor:
        tensor = waited(tensor)
        if is_plain(tensor) or is_lazy(tensor) or not (snapshot.is_noted(tensor) and is_readable(tensor, snapshot)):
            return tensor
        return tensor.detach().clone().requires_grad_(tensor.requires_grad)

    return _with_tensors(flat, copied)


def at_end_of_call(flat: Flat, snapshot: Snapshot, contents: Contents, *, copy: bool) -> Flat:
    """Return the structure with the values that its tensors had at the end of a call. The result remains valid after
    the caller's state is restored.
    """
    return _with_tensors(flat, lambda tensor: snapshot.at_end_of_call(tensor, contents, copy=copy))


def _with_tensors(flat: Flat, change: Callable[[torch.Tensor], torch.Tensor]) -> Flat:
    nodes = dict(flat.nodes)
    for path, node in flat.nodes.items():
        if node.is_leaf and is_a(node.value, torch.Tensor):
            nodes[path] = replace(node, value=change(node.value))
    return Flat(nodes)


def _by_class(mapping: dict[Any, Any], snapshot: Snapshot) -> set[int]:
    """Return the positions of the dict entries that are caches: the key is a class, and the value is a fact about this
    class. Cache entries are not compared.

    An entry whose key is a tensor class, or a collection of classes that contains a tensor class, is always treated as
    a cache. The reason is that eager code adds an entry for ``Tensor`` where traced code adds an entry for
    ``FakeTensor``. An entry for another class is treated as a cache only if the entry is new and its value is a bool,
    None, a class or a function; libraries such as tensordict fill these caches only in eager code. All other entries
    are compared, because they may be state, such as a counter or a flag.
    """
    before = snapshot.initial.get(("items", id(mapping)))
    known = None if before is None else {id(key) for key, _ in before}
    return {
        index
        for index, (key, value) in enumerate(items(mapping))
        if _names_type_of_tensor(key)
        or (is_a(key, type) and known is not None and id(key) not in known and (value is None or is_a(value, _FACTS)))
    }


def _names_type_of_tensor(key: Any) -> bool:
    if is_a(key, (tuple, frozenset)):
        return any(_names_type_of_tensor(part) for part in items(key))
    return is_a(key, type) and torch.Tensor in key.__mro__


def _shape(value: Any, of_torch: Collection[str], snapshot: Snapshot) -> str:
    if is_a(value, dict):
        left_out = _by_class(value, snapshot)
        keys = [key for index, (key, _) in enumerate(items(value)) if index not in left_out]
        keys = [key for key in keys if not (is_plain_key(key) and key in of_torch)]
        plain = [str(key) for key in keys if is_plain_key(key)]
        return f"keys {', '.join(plain)}" if plain and len(plain) == len(keys) else f"length {len(keys)}"
    return f"length {len(items(value))}" if is_a(value, (list, tuple, deque)) else ""
