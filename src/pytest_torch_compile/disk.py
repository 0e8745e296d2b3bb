"""Files that several processes use: written whole or not at all, one holder of a lock at a time, nothing left behind.

What is temporary is locked by the process that uses it, and the system ends the lock with the process. So the next run
knows what a killed one has left, and removes it.
"""

from __future__ import annotations

import glob
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

try:
    import fcntl
except ImportError:  # Windows: what a killed process leaves stays
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from filelock import FileLock

_ENDING = ".being-written"


def write_atomically(path: Path, content: str | bytes) -> Path:
    """Write a file so that a reader sees the old one or the new one, never a part; returns its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(path.parent, path.name)
    handle, name = _locked_file(path)
    try:
        with os.fdopen(handle, "wb") as stream:
            # Text that no encoding has, such as half a surrogate pair, is written as its escape.
            stream.write(content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content)
            stream.flush()
            os.fsync(stream.fileno())
            os.chmod(name, 0o644)  # mkstemp makes it readable for nobody else
            os.replace(name, path)
    except BaseException:  # Ctrl-C too must leave no part behind
        Path(name).unlink(missing_ok=True)
        raise
    return path


def remove_leftovers(folder: Path, name: str = "*", *, nested: bool = False) -> None:
    """Remove the parts of files that killed processes were writing in a folder, ``nested``: or one level below it."""
    pattern = f".{name if name == '*' else glob.escape(name)}-*{_ENDING}"
    for part in [*folder.glob(pattern), *(folder.glob(f"*/{pattern}") if nested else ())]:
        _remove_if_left(part)


class TemporaryFolder:
    """A folder of this process alone. Those of the same ``prefix`` that killed processes left are removed first."""

    def __init__(self, prefix: str) -> None:
        for other in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
            _remove_if_left(other)
        # Until it is locked, another process may take it for left, and remove it.
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=prefix))
            try:
                self._handle = os.open(self.path, os.O_RDONLY)
            except FileNotFoundError:
                continue
            _lock(self._handle, wait=True)
            if self.path.exists():
                return
            os.close(self._handle)

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *error: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Remove it with all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._handle)


def _locked_file(path: Path) -> tuple[int, str]:
    while True:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-", suffix=_ENDING)
        _lock(handle, wait=True)
        if os.path.exists(name):  # else another process took it for left, before it was locked
            return handle, name
        os.close(handle)


def _lock(handle: int, *, wait: bool) -> bool:
    """Whether the lock is ours; not where the file system knows none."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        return True
    except (OSError, AttributeError):
        return False


def _remove_if_left(path: Path) -> None:
    with suppress(OSError):  # removed by another process, or of another user
        if path.is_symlink() or path.stat().st_uid != os.getuid():
            return
        handle = os.open(path, os.O_RDONLY)
        try:
            if _lock(handle, wait=False):
                shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink()
        finally:
            os.close(handle)


def machine_lock(name: str, directory: Path | None = None) -> FileLock:
    """A lock between the processes of this machine, which the system releases when its holder ends.

    It lies in the temporary directory, so that none is left among a user's files. Every user of the machine may open
    it, as they share its devices.
    """
    from filelock import FileLock  # not at the top: most sessions store nothing and time nothing

    folder = directory or Path(tempfile.gettempdir())
    return FileLock(folder / f"pytest-torch-compile-{name}.lock", mode=0o666)
