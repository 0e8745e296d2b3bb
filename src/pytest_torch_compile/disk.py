"""Files that several processes use: written whole or not at all, and one holder of a lock at a time."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from filelock import FileLock


def write_atomically(path: Path, content: str | bytes) -> Path:
    """Write a file so that a reader sees the old one or the new one, never a part; returns its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content.encode() if isinstance(content, str) else content)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(name, 0o644)  # mkstemp makes it readable for nobody else
        os.replace(name, path)
    except BaseException:  # Ctrl-C too must leave no part behind
        Path(name).unlink(missing_ok=True)
        raise
    return path


def machine_lock(name: str, directory: Path | None = None) -> FileLock:
    """A lock between the processes of this machine, which the system releases when its holder ends.

    It lies in the temporary directory, so that none is left among a user's files. Every user of the machine may open
    it, as they share its devices.
    """
    from filelock import FileLock  # not at the top: most sessions store nothing and time nothing

    folder = directory or Path(tempfile.gettempdir())
    return FileLock(folder / f"pytest-torch-compile-{name}.lock", mode=0o666)
