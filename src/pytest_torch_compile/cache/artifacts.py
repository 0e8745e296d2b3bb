"""``--compile-cache=URL``: artifacts loaded before a process compiles, saved when it ends, stored when the run ends."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from pathlib import Path

from ..disk import TemporaryFolder
from .store import ArtifactsRefused, Staging, Store

VARIABLE = "PYTEST_TORCH_COMPILE_STAGING"


def is_url(choice: str) -> bool:
    """Whether a value of ``--compile-cache`` names a place for artifacts and not a local folder."""
    return "://" in choice


class ArtifactSession:
    """One process's part; ``leads`` is true for the one that outlives the workers and stores what all have saved.

    Nothing that goes wrong with the storage fails a test: it is a line at the end of the run, and a cold start.

    Raises:
        ArtifactsRefused: the URL cannot be used on this machine.
    """

    def __init__(self, url: str, *, leads: bool) -> None:
        self._store = Store(url)
        self._leads = leads
        shared = None if leads else os.environ.get(VARIABLE)  # the folder of the leading process
        self._own = None if shared else TemporaryFolder("torch-compile-staging-")
        folder = self._own.path if self._own else Path(str(shared))
        self._staging = Staging(folder)
        self._loaded: set[str] | None = None
        if leads:
            os.environ[VARIABLE] = str(folder)

    def load(self) -> None:
        """Fill this process's caches, once."""
        if self._loaded is not None:
            return None
        from .._torch import cache_artifacts as cache

        self._loaded = set()
        url = self._store.url
        if why := cache.unavailable():
            return self._staging.say(f"{url}: {why}: every run starts cold")
        environment = cache.environment()
        try:
            parts = self._store.read(environment)
            for part in parts:
                self._loaded |= cache.load(part.content)
        except Exception as error:
            return self._say_problem(environment, error)
        if self._loaded:
            return self._staging.say(f"{url}: {len(self._loaded)} artifacts loaded")
        if parts:
            return self._staging.say(f"{self._store.path(environment)}: not used, since torch could not read them")
        others = self._store.others(environment)
        elsewhere = f" (of other environments: {', '.join(others)})" if others else ""
        return self._staging.say(f"{url}: nothing stored for this environment yet: started cold{elsewhere}")

    def save(self) -> None:
        """Give what this process compiled to the one that leads."""
        if self._loaded is None:
            return
        from .._torch import cache_artifacts as cache

        saved = None if cache.unavailable() else cache.save()
        if saved is None:
            return
        content, keys = saved
        if not keys <= self._loaded:  # otherwise it is stored already
            self._staging.add(content, cache.environment())

    def finish(self) -> list[str]:
        """In the leading process, store what all processes saved; gives lines for the summary."""
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
        """Remove what was temporary."""
        if self._own is None:
            return
        if os.environ.get(VARIABLE) == str(self._own.path):
            del os.environ[VARIABLE]
        self._own.remove()

    def _say_problem(self, environment: Mapping[str, str], error: Exception) -> None:
        if isinstance(error, ArtifactsRefused):
            problem = f"not used, since {error}; kept as they are: remove the file to have new ones stored"
        else:
            problem = f"cannot be used: {type(error).__name__}: {' '.join(str(error).split())[:200]}"
        self._staging.say(f"{self._store.path(environment)}: {problem}")
