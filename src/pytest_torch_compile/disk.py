"""Files shared by several processes: atomic writes, locks, and temporary files that are cleaned up.

A process locks its temporary files, and the system releases the lock when the process exits. So the next run can find
and remove the files of a killed run.
"""

from __future__ import annotations

import errno
import glob
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

try:
    import fcntl
except ImportError:  # Windows: files of a killed process are not removed
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from filelock import FileLock

_ENDING = ".being-written"


def write_atomically(path: Path, content: str | bytes) -> Path:
    """Write a file atomically, so that a reader gets either the old or the new contents. Return its path.

    If the path is a symbolic link, the file to which it points is replaced. A device or a pipe, such as
    ``/dev/stdout``, is written to and not replaced.

    Raises:
        IsADirectoryError: If the path is a folder.
    """
    path = path.resolve()
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "expected a file, but this is a folder", str(path))
    if path.exists() and not path.is_file():
        path.write_bytes(_encoded(content))
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(path.parent, path.name)
    handle, name = _locked_file(path)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(_encoded(content))
            stream.flush()
            os.fsync(stream.fileno())
            os.chmod(name, 0o644)  # mkstemp creates files that other users cannot read
            os.replace(name, path)
    except BaseException:  # even Ctrl-C must not leave a partial file behind
        Path(name).unlink(missing_ok=True)
        raise
    return path


def _encoded(content: str | bytes) -> bytes:
    """Encode a text; characters that cannot be encoded, such as half a surrogate pair, are escaped."""
    return content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content


def remove_leftovers(folder: Path, name: str = "*", *, nested: bool = False) -> None:
    """Remove partial files that killed processes left in a folder and, if ``nested`` is set, in the folder's
    subfolders.
    """
    pattern = f".{name if name == '*' else glob.escape(name)}-*{_ENDING}"
    for part in [*folder.glob(pattern), *(folder.glob(f"*/{pattern}") if nested else ())]:
        _remove_if_left(part)


class TemporaryFolder:
    """A temporary folder for this process; folders of killed processes with the same ``prefix`` are removed first."""

    def __init__(self, prefix: str) -> None:
        for other in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
            _remove_if_left(other)
        # Until this process has locked the folder, another process may consider the folder abandoned and remove it.
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
        """Remove the folder and its contents."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._handle)


def _locked_file(path: Path) -> tuple[int, str]:
    while True:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-", suffix=_ENDING)
        _lock(handle, wait=True)
        if os.path.exists(name):  # otherwise another process removed the file before it was locked
            return handle, name
        os.close(handle)


def _lock(handle: int, *, wait: bool) -> bool:
    """Try to lock the file, and return whether it was locked. If ``wait`` is false and the file is already locked,
    return False.
    """
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        return True
    except (OSError, AttributeError):
        return False


def _remove_if_left(path: Path) -> None:
    with suppress(OSError):  # removed by another process, or owned by another user
        if path.is_symlink() or path.stat().st_uid != os.getuid():
            return
        handle = os.open(path, os.O_RDONLY)
        try:
            if _lock(handle, wait=False):
                shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink()
        finally:
            os.close(handle)


def machine_lock(name: str, directory: Path | None = None) -> FileLock:
    """Return a lock that all processes on this machine share. The system releases the lock when the process that holds
    it exits.

    The lock file is in the temporary directory, so it does not clutter a user's files. All users of the machine may
    open the file, because they share the machine's devices.
    """
    from filelock import FileLock  # imported here because most sessions need no lock

    folder = directory or Path(tempfile.gettempdir())
    return FileLock(folder / f"pytest-torch-compile-{name}.lock", mode=0o666)


def is_locked(name: str) -> bool:
    """Return whether a process holds this machine-wide lock."""
    from filelock import Timeout

    try:
        with machine_lock(name).acquire(blocking=False):
            return False
    except Timeout:
        return True
    except PermissionError:  # the lock belongs to another user
        return False


@contextmanager
def first_free(names: Iterable[str], directory: Path | None = None) -> Iterator[str | None]:
    """Hold the first of these machine-wide locks that no other process holds, and yield its name. Yield None if all of
    them are held or belong to another user.
    """
    from filelock import Timeout

    for name in names:
        lock = machine_lock(name, directory)
        try:
            lock.acquire(blocking=False)
        except (Timeout, PermissionError):
            continue
        try:
            yield name
        finally:
            lock.release()
        return
    yield None
