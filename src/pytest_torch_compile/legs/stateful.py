"""Holders of objects whose state is not in their attributes, such as random number generators, buffers and open files.
The classes are in ``_STATEFUL``, and those of NumPy, which need not be installed, in ``_NUMPY``.
"""

from __future__ import annotations

import array
import io
import logging
import mmap
import queue
import random
import socket
import subprocess
import threading
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from .._torch.attributes import is_a
from .._torch.class_cache import cached_by_class


@dataclass
class Stateful:
    """A holder of an object with internal state, such as a random number generator or an open file."""

    value: Any
    get: Callable[[Any], Any]
    set: Callable[[Any, Any], None]

    @property
    def key(self) -> tuple[Any, ...]:
        """A key that identifies the object."""
        return "stateful", id(self.value)

    def has(self, content: Any) -> bool:
        """Return whether the object has this state."""
        now = self.get(self.value)
        return bool(torch.equal(now, content)) if type(now) is torch.Tensor else _as_bytes(now) == _as_bytes(content)

    def read(self) -> Any:
        """Return the current state."""
        return self.get(self.value)

    def put(self, content: Any) -> None:
        """Restore this state."""
        self.set(self.value, content)

    def replaced(self, content: Any, replace: Callable[[Any], Any]) -> Any:
        """Return the content unchanged, because no objects are replaced in a copy of data."""
        return content


def comparable(state: Any) -> Any:
    """Return a state in a form that can be compared between two runs. Tensors and NumPy arrays are unchanged, and
    everything else is converted to basic Python values.
    """
    return state if type(state) is torch.Tensor or type(state).__module__ == "numpy" else _as_bytes(state)


def _as_bytes(state: Any) -> Any:
    """Convert the NumPy arrays in a state to bytes, because ``==`` on NumPy arrays does not return a bool."""
    if isinstance(state, Mapping):
        return {name: _as_bytes(value) for name, value in state.items()}
    if isinstance(state, (list, tuple)):
        return [_as_bytes(value) for value in state]
    return state.tobytes() if type(state).__module__ == "numpy" else state


def _put_array(value: Any, content: Any) -> None:
    if value.flags.writeable:
        value[...] = content


def _put_buffer(value: Any, content: tuple[Any, int]) -> None:
    value.seek(0)
    value.truncate()
    value.write(content[0])
    value.seek(content[1])


def _put_logger(value: logging.Logger, content: tuple[int, bool, bool]) -> None:
    value.setLevel(content[0])
    value.disabled, value.propagate = content[1:]


def _put_array_of_numbers(value: array.array[Any], content: bytes) -> None:
    del value[:]
    value.frombytes(content)


# The types with internal state, each with functions that read and restore the state.
_How = tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]
_STATEFUL: tuple[tuple[type, _How], ...] = (
    (random.Random, (random.Random.getstate, random.Random.setstate)),
    (torch.Generator, (torch.Generator.get_state, torch.Generator.set_state)),
    (bytearray, (bytes, lambda value, content: value.__setitem__(slice(None), content))),
    (array.array, (array.array.tobytes, _put_array_of_numbers)),
    (io.BytesIO, (lambda value: (value.getvalue(), value.tell()), _put_buffer)),
    (io.StringIO, (lambda value: (value.getvalue(), value.tell()), _put_buffer)),
    (logging.Logger, (lambda value: (value.level, value.disabled, value.propagate), _put_logger)),
)
# Objects whose state cannot be restored, because it is outside this process or because other threads may use them.
_NOT_RESTORABLE: tuple[type, ...] = (
    socket.socket, io.IOBase, mmap.mmap, subprocess.Popen, types.CoroutineType, types.AsyncGeneratorType,
    threading.Event, threading.Condition, threading.Semaphore, threading.Barrier, queue.Queue, queue.SimpleQueue,
)  # fmt: skip
_LOCK = type(threading.Lock())
_FILES = (io.TextIOWrapper, io.BufferedReader, io.FileIO)
_FILE: _How = (lambda file: file.tell(), lambda file, place: file.seek(place))
_NUMPY: dict[str, _How] = {
    "ndarray": (lambda value: value.copy(), _put_array),
    "Generator": (
        lambda value: value.bit_generator.state,
        lambda value, content: setattr(value.bit_generator, "state", content),
    ),
    "RandomState": (lambda value: value.get_state(legacy=False), lambda value, content: value.set_state(content)),
}


def stateful(value: Any) -> Stateful | None:
    """Return the holder of an object with internal state; None for other objects."""
    how = _how(type(value))
    return Stateful(value, *how) if how is not None and (how is not _FILE or _seeks(value)) else None


@cached_by_class
def _how(kind: type) -> _How | None:
    """Return the functions that read and restore the state of a class's objects, or None if they have no such state."""
    if kind.__module__.partition(".")[0] == "numpy" and kind.__name__ in _NUMPY:
        return _NUMPY[kind.__name__]
    if any(kind is file for file in _FILES):
        return _FILE
    known = next((how for base in kind.__mro__ for of, how in _STATEFUL if base is of), None)
    return None if issubclass(kind, random.SystemRandom) else known


def _seeks(file: Any) -> bool:
    try:
        return bool(file.readable() and file.seekable() and file.tell() >= 0)
    except (OSError, ValueError):  # the file is closed, or is being iterated over
        return False


def cannot_be_restored(value: Any) -> bool:
    """Return whether an object has state that cannot be restored after a run. Results that depend on such state may
    differ between runs.
    """
    if type(value) is _LOCK:
        return bool(value.locked())
    if not is_a(value, _NOT_RESTORABLE) or stateful(value) is not None:
        return False
    # The calls cannot read a file that is open only for writing, so their results do not depend on it.
    return not (is_a(value, io.IOBase) and not value.closed and not value.readable())
