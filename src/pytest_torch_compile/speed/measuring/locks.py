"""Locks between processes of one machine: a file each, that the system lets go of when its holder ends."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def lock_path(name: str, directory: Path | None = None) -> Path:
    """The file of a lock, in the temporary directory of the machine."""
    return (directory or Path(tempfile.gettempdir())) / f"pytest-torch-compile-{name}.lock"


def try_lock(handle: int) -> bool:
    """Whether the open file could be locked now; it stays so until it is closed."""
    try:
        import fcntl
    except ImportError:  # Windows: no lock, as there is no GPU gate there
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


@contextmanager
def attempt(path: Path) -> Iterator[bool]:
    """Try to hold a lock while the body runs; gives whether it is held. Another user's file counts as taken."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except PermissionError:
        yield False
        return
    try:
        yield try_lock(handle)
    finally:
        os.close(handle)
