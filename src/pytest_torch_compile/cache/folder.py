"""The folder that stores Inductor's compiled code during a test run (``--compile-cache``). This module does not import
torch.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .._torch.reset import forget_cache_folder
from ..disk import TemporaryFolder
from ..findings import CompileUsageError
from ..settings import below_root
from .artifacts import ArtifactSession, is_url

INDUCTOR, TRITON = "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"


def variables(folder: Path | str) -> dict[str, str]:
    """Return the environment variables that make Inductor and Triton store compiled code in a folder.

    If ``TRITON_CACHE_DIR`` were not set, Inductor would set this variable when compiling the first kernel, and would
    not change it later. After a switch to another folder, Triton would still write to the old folder, which may have
    been removed.
    """
    return {INDUCTOR: str(folder), TRITON: str(Path(folder, "triton"))}


def _environment() -> dict[str, str | None]:
    return {name: os.environ.get(name) for name in (INDUCTOR, TRITON)}


def _put_back(before: dict[str, str | None]) -> None:
    for name, value in before.items():
        os.environ.pop(name, None)
        os.environ.update({} if value is None else {name: value})


def is_kept(choice: str) -> bool:
    """Return whether compiled code is kept for the next run. ``choice`` is the value of ``--compile-cache``."""
    return choice not in ("fresh", "session")


@contextmanager
def empty_cache() -> Iterator[None]:
    """Inside the ``with`` block, compile with an empty temporary cache."""
    before = _environment()
    forget_cache_folder()
    with TemporaryFolder("torch-compile-cache-") as folder:
        os.environ.update(variables(folder))
        try:
            yield
        finally:
            _put_back(before)
            forget_cache_folder()


class CacheFolder:
    """The cache folder of a session. ``choice`` is the value of ``--compile-cache``.

    ``fresh`` creates a new folder for each test, and ``session`` one folder for the whole session. A path selects a
    persistent folder; a relative path is relative to ``root``. All pytest-xdist workers share a persistent folder,
    because the next run may distribute the tests differently. Sharing the folder is safe, because Inductor writes files
    atomically. With a URL, artifacts are loaded from the URL into a temporary folder, and new artifacts are uploaded at
    the end.

    Raises:
        ArtifactsRefused: If the URL cannot be used on this machine.
        CompileUsageError: If the folder is not writable.
    """

    def __init__(self, choice: str, root: Path, *, leads: bool = True) -> None:
        self._new_for_each_test = choice == "fresh"
        self._artifacts = ArtifactSession(choice, leads=leads) if is_url(choice) else None
        keeps = is_kept(choice) and self._artifacts is None
        self._kept = below_root(root, choice).resolve() if keeps else None
        self._temporary: TemporaryFolder | None = None
        self._before = _environment()
        self._used = False

    def enter_test(self) -> None:
        """Set the folder in which Inductor stores compiled code during the next test."""
        if self._new_for_each_test:
            self._drop()
        folder = self._kept
        if folder is None:
            self._temporary = self._temporary or TemporaryFolder("torch-compile-cache-")
            folder = self._temporary.path
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CompileUsageError(f"the compile cache folder {folder} cannot be created: {error.strerror}") from None
        if not os.access(folder, os.W_OK):  # torch cannot even be imported in this case
            raise CompileUsageError(
                f"the compile cache folder {folder} is not writable: choose another folder with --compile-cache"
            )
        self._used = True
        os.environ.update(variables(folder))
        if self._artifacts is not None:
            self._artifacts.load()

    def finish(self) -> list[str]:
        """At the end of the session, upload the artifacts if ``--compile-cache`` is a URL. Return the lines to print in
        pytest's summary.
        """
        if self._artifacts is None:
            return []
        self._artifacts.save()
        return self._artifacts.finish()

    def close(self) -> None:
        """Restore the environment variables, and remove temporary files."""
        self._drop()
        if self._artifacts is not None:
            self._artifacts.close()
        if self._used:
            _put_back(self._before)

    def _drop(self) -> None:
        if self._temporary is not None:
            self._temporary.remove()
            self._temporary = None
            forget_cache_folder()
