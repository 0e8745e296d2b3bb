"""Where Inductor keeps compiled code during a test run: ``--compile-cache``. No torch."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

VARIABLE = "TORCHINDUCTOR_CACHE_DIR"


class CacheFolder:
    """``fresh``: a new folder for each test; ``session``: one for the run; else a folder that is kept.

    Under pytest-xdist each worker has its own, so that workers never wait for each other's locks.
    """

    def __init__(self, choice: str, worker: str = "") -> None:
        self.choice = choice
        self._worker = worker
        self._before = os.environ.get(VARIABLE)
        self._temporary: Path | None = None
        self._used = False

    def enter_test(self) -> None:
        """Point Inductor to the folder for the test that starts."""
        if self.choice == "fresh":
            self._drop()
        if self.choice not in ("fresh", "session"):
            folder = Path(self.choice).expanduser().resolve() / self._worker
            folder.mkdir(parents=True, exist_ok=True)
        elif self._temporary is None:
            folder = self._temporary = Path(tempfile.mkdtemp(prefix="torch-compile-"))
        else:
            folder = self._temporary
        self._used = True
        os.environ[VARIABLE] = str(folder)

    def close(self) -> None:
        """Put the environment back and remove what was temporary."""
        self._drop()
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
