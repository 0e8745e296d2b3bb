"""Settings from the command line and the ini file, for code that cannot use fixtures."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path


@dataclass(frozen=True)
class Settings:
    """The options of this session."""

    backend: str = "inductor"
    device: str | None = None
    cache: str = "session"
    report: str | None = None
    diagnose: str = "auto"
    repro: str | None = None
    perf: str = "off"
    plan: str | None = None
    baselines: str = "baselines"
    timeout: float | None = None
    isolate: bool = False
    update_baselines: bool = False
    fast: bool = False
    accept: bool = False
    existing: str | None = None
    existing_minutes: float = 10.0
    existing_shapes: int = 4
    write_tests: str | None = None
    # The path from the folder in which pytest was started to pytest's root folder, to which test ids are relative.
    root: str = "."
    # The options on the command line that can change the results of checks, for the command that reruns a test.
    rerun_options: tuple[str, ...] = ()

    @property
    def check_backend(self) -> str:
        """The default backend of checks. With ``--compile-fast``, it is aot_eager instead of inductor, to skip code
        generation.
        """
        return "aot_eager" if self.fast and self.backend == "inductor" else self.backend

    @property
    def gates(self) -> bool:
        """Whether a regression against a measured baseline fails its test."""
        return self.perf == "gate" and not self.update_baselines


current = Settings()


@contextmanager
def undiagnosed() -> Iterator[None]:
    """Inside the ``with`` block, do not diagnose failed checks (for tests that are expected to fail)."""
    with replaced(replace(current, diagnose="off")):
        yield


@contextmanager
def replaced(chosen: Settings) -> Iterator[None]:
    """Use other settings inside the ``with`` block."""
    global current
    before, current = current, chosen
    try:
        yield
    finally:
        current = before


def below_root(root: Path, folder: str) -> Path:
    """Return the path of ``folder``, which comes from a setting. A relative path is resolved against pytest's root
    directory, regardless of the current folder.
    """
    return root / Path(folder).expanduser()
