"""Where Inductor keeps compiled code during a test run: ``--compile-cache``. It imports no torch."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from .._torch.reset import forget_cache_folder
from ..settings import below_root
from .session import ArtifactSession, is_url

VARIABLE = "TORCHINDUCTOR_CACHE_DIR"


class CacheFolder:
    """``fresh``: a new folder for each test; ``session``: one for the run; else a folder that is kept, below
    ``root`` where it is relative, or a URL.

    A folder that is kept is shared by the workers of pytest-xdist, as the next run hands out the tests otherwise, and
    Inductor writes whole files only. At a URL, artifacts are kept in place of a folder: the run starts from those, in
    a folder of its own.

    Raises:
        ArtifactsRefused: the URL cannot be used on this machine.
    """

    def __init__(self, choice: str, root: Path, *, leads: bool = True) -> None:
        self.choice = choice
        self._root = root
        self._before = os.environ.get(VARIABLE)
        self._temporary: Path | None = None
        self._used = False
        self._artifacts = ArtifactSession(choice, leads=leads) if is_url(choice) else None

    def enter_test(self) -> None:
        """Point Inductor to the folder for the test that starts."""
        if self.choice == "fresh":
            self._drop()
        if self.choice not in ("fresh", "session") and self._artifacts is None:
            folder = below_root(self._root, self.choice).resolve()
            folder.mkdir(parents=True, exist_ok=True)
        elif self._temporary is None:
            folder = self._temporary = Path(tempfile.mkdtemp(prefix="torch-compile-"))
        else:
            folder = self._temporary
        self._used = True
        os.environ[VARIABLE] = str(folder)
        if self._artifacts is not None:
            self._artifacts.load()

    def finish(self) -> list[str]:
        """At the end of the session, save and store artifacts where the choice is a URL; what there is to say."""
        if self._artifacts is None:
            return []
        self._artifacts.save()
        return self._artifacts.finish()

    def close(self) -> None:
        """Put the environment back and remove what was temporary."""
        self._drop()
        if self._artifacts is not None:
            self._artifacts.close()
        if not self._used:
            return
        if self._before is None:
            os.environ.pop(VARIABLE, None)
        else:
            os.environ[VARIABLE] = self._before

    def _drop(self) -> None:
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
            self._temporary = None
            forget_cache_folder()
