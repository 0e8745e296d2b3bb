"""``--compile-cache=URL``: load artifacts before a process compiles, and upload new artifacts at the end of the run."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from pathlib import Path

from ..disk import TemporaryFolder
from .store import ArtifactsRefused, Staging, Store

VARIABLE = "PYTEST_TORCH_COMPILE_STAGING"


def is_url(choice: str) -> bool:
    """Return whether a value of ``--compile-cache`` is a URL rather than a local folder."""
    return "://" in choice


class ArtifactSession:
    """The compile cache artifacts of one process. ``leads`` is true in the main process, which starts the pytest-xdist
    workers and, at the end, uploads the artifacts of all processes.

    Problems with the storage never make a test fail: they are reported at the end of the run. If the artifacts cannot
    be loaded, compilation starts with an empty cache.

    Raises:
        ArtifactsRefused: If the URL cannot be used on this machine.
    """

    def __init__(self, url: str, *, leads: bool) -> None:
        self._store = Store(url)
        self._leads = leads
        shared = None if leads else os.environ.get(VARIABLE)  # the folder that the main process created
        self._own = None if shared else TemporaryFolder("torch-compile-staging-")
        folder = self._own.path if self._own else Path(str(shared))
        self._staging = Staging(folder)
        self._loaded: set[str] | None = None
        if leads:
            os.environ[VARIABLE] = str(folder)

    def load(self) -> None:
        """Load the stored artifacts into the compile caches of this process. Only the first call has an effect."""
        if self._loaded is not None:
            return None
        from .._torch import cache_artifacts as cache

        self._loaded = set()
        url = self._store.url
        if why := cache.unavailable():
            return self._staging.say(f"{url}: {why}: compilation starts with an empty cache")
        environment = cache.environment()
        try:
            parts = self._store.read(environment)
            for part in parts:
                self._loaded |= cache.load(part.content)
        except Exception as error:
            return self._say_problem(environment, error)
        if self._loaded:
            return self._staging.say(f"{url}: artifacts loaded: {len(self._loaded)}")
        if parts:
            return self._staging.say(f"{self._store.path(environment)}: ignored, because torch could not read it")
        others = self._store.others(environment)
        elsewhere = f" (artifacts for other environments: {', '.join(others)})" if others else ""
        return self._staging.say(
            f"{url}: no artifacts for this environment yet, so compilation starts with an empty cache{elsewhere}"
        )

    def save(self) -> None:
        """Pass this process's artifacts to the main process."""
        if self._loaded is None:
            return
        from .._torch import cache_artifacts as cache

        saved = None if cache.unavailable() else cache.save()
        if saved is None:
            return
        content, keys = saved
        if not keys <= self._loaded:  # otherwise all artifacts are already stored
            self._staging.add(content, cache.environment())

    def finish(self) -> list[str]:
        """In the main process, upload the artifacts of all processes. Return the lines to print in pytest's summary."""
        if not self._leads:
            return []
        for environment, parts in self._staging.parts(run=uuid.uuid4().hex):
            try:
                size = self._store.write(parts, environment)
                self._staging.say(f"{self._store.path(environment)}: {size / 1e6:.1f} MB stored")
            except Exception as error:
                self._say_problem(environment, error)
        return self._staging.lines()

    def close(self) -> None:
        """Remove temporary files."""
        if self._own is None:
            return
        if os.environ.get(VARIABLE) == str(self._own.path):
            del os.environ[VARIABLE]
        self._own.remove()

    def _say_problem(self, environment: Mapping[str, str], error: Exception) -> None:
        if isinstance(error, ArtifactsRefused):
            problem = f"ignored, because {error}; remove the file to allow new artifacts to be stored"
        else:
            problem = f"cannot be used: {type(error).__name__}: {' '.join(str(error).split())[:200]}"
        self._staging.say(f"{self._store.path(environment)}: {problem}")
