"""``--compile-cache=URL``: artifacts loaded before a process compiles, saved when it ends, stored when the run ends."""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Mapping
from pathlib import Path

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
        handed = None if leads else os.environ.get(VARIABLE)
        folder = handed or tempfile.mkdtemp(prefix="torch-compile-artifacts-")
        self._own = None if handed else Path(folder)
        self._staging = Staging(Path(folder))
        self._loaded: set[str] | None = None
        if leads:
            os.environ[VARIABLE] = folder

    def load(self) -> None:
        """Fill this process's caches, once."""
        if self._loaded is not None:
            return
        from .._torch import cache_artifacts as cache

        self._loaded = set()
        if why := cache.unavailable():
            self._staging.say(f"{self._store.url}: {why}: every run starts cold")
            return
        environment = cache.environment()
        try:
            parts = self._store.read(environment)
            for part in parts:
                self._loaded |= cache.load(part.content)
        except Exception as error:
            self._staging.say(_line(self._store, environment, error))
            return
        self._staging.say(self._what_was_loaded(environment, bool(parts)))

    def _what_was_loaded(self, environment: Mapping[str, str], stored: bool) -> str:
        if self._loaded:
            return f"{self._store.url}: {len(self._loaded)} artifacts loaded"
        if stored:
            return f"{self._store.path(environment)}: torch could not read these artifacts: not used"
        others = self._store.others(environment)
        beside = f" (of other environments: {', '.join(others)})" if others else ""
        return f"{self._store.url}: nothing stored for this environment yet: started cold{beside}"

    def save(self) -> None:
        """Hand what this process compiled to the one that leads."""
        if self._loaded is None:
            return
        from .._torch import cache_artifacts as cache

        found = None if cache.unavailable() else cache.save()
        if found is not None and not found[1] <= self._loaded:
            self._staging.add(found[0], cache.environment())

    def finish(self) -> list[str]:
        """Where this process leads: store what all processes saved. What there is to say."""
        if not self._leads:
            return []
        for environment, parts in self._staging.parts(run=uuid.uuid4().hex):
            try:
                size = self._store.write(parts, environment)
            except Exception as error:
                self._staging.say(_line(self._store, environment, error))
            else:
                self._staging.say(f"{self._store.path(environment)}: {size / 1e6:.1f} MB stored")
        return self._staging.lines()

    def close(self) -> None:
        """Remove what was temporary."""
        if self._leads and os.environ.get(VARIABLE) == str(self._own):
            del os.environ[VARIABLE]
        if self._own is not None:
            shutil.rmtree(self._own, ignore_errors=True)


def _line(store: Store, environment: Mapping[str, str], error: Exception) -> str:
    place = store.path(environment)
    if isinstance(error, ArtifactsRefused):
        return f"{place}: not used, since {error}; kept as they are: remove the file to have new ones stored"
    return f"{place}: cannot be used: {type(error).__name__}: {' '.join(str(error).split())[:200]}"
