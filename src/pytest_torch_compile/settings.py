"""What the command line and the ini file say about checks, for code that cannot ask for a fixture."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

PREFIX = "compile_"
OPTIONS: dict[str, str] = {
    "backend": "backend of every check made through a fixture or CompileSuite: eager, aot_eager, inductor or a name",
    "device": "device that targets and inputs are moved to: cpu, cuda, cuda:1 (default: where they are)",
    "cache": "compile cache: fresh (a new one for each test), session (one for each worker), a folder to keep (a "
    "relative one is below the root directory), or an fsspec URL such as s3://bucket/folder, from which artifacts are "
    "loaded and to which they are saved",
    "report": "folder to write report.json, report.html and summary.md to; a relative one is below the root directory",
    "diagnose": "on a failed check: off, auto (the stage at fault and advice that was tried, for 30 s at most) or full "
    "(the smallest module too, for 10 minutes at most)",
    "perf": "speed tests: off (pytest-benchmark times them), track (verdicts that never fail) or gate (they do)",
    "baselines": "folder of the stored baselines (default: baselines in the root directory)",
}
FLAGS: dict[str, str] = {
    "isolate": "run each test that uses the plugin in a process of its own",
    "update-baselines": "write what changed to the baselines, and show it",
}
CHOICES = {"perf": ("off", "track", "gate"), "diagnose": ("off", "auto", "full")}


@dataclass(frozen=True)
class Settings:
    """The options in force."""

    backend: str = "inductor"
    device: str | None = None
    cache: str = "session"
    report: str | None = None
    diagnose: str = "auto"
    perf: str = "off"
    baselines: str = "baselines"
    isolate: bool = False
    update_baselines: bool = False


current = Settings()


@contextmanager
def undiagnosed() -> Iterator[None]:
    """Look into no failure inside the body: it is expected."""
    global current
    before, current = current, replace(current, diagnose="off")
    try:
        yield
    finally:
        current = before


def add_options(parser: pytest.Parser) -> None:
    """Declare each option and its ini twin."""
    group = parser.getgroup("torch-compile", "torch.compile checks")
    for name, text in OPTIONS.items():
        group.addoption(f"--compile-{name}", default=None, metavar=name.upper(), help=text)
        parser.addini(PREFIX + name, text, default=None)
    for name, text in FLAGS.items():
        group.addoption(f"--compile-{name}", action="store_true", default=None, help=text)
        parser.addini(_key(name), text, type="bool", default=False)


def read(config: pytest.Config) -> Settings:
    """The settings from the command line, then the ini file, then the defaults.

    Raises:
        pytest.UsageError: an ini key that is almost one of ours.
    """
    _refuse_typos(_ini_keys(config), {_key(name) for name in (*OPTIONS, *FLAGS)})
    chosen = {name: config.getoption(f"--compile-{name}") or config.getini(PREFIX + name) for name in OPTIONS}
    flags = {name: bool(config.getoption(f"--compile-{name}") or config.getini(_key(name))) for name in FLAGS}
    for name, known in CHOICES.items():
        if chosen[name] and chosen[name] not in known:
            raise pytest.UsageError(f"--compile-{name}={chosen[name]}: it is one of {', '.join(known)}")
    return Settings(
        isolate=flags["isolate"],
        update_baselines=flags["update-baselines"],
        **{name: value for name, value in chosen.items() if value},
    )


def below_root(root: Path, folder: str) -> Path:
    """A folder that a setting names: a relative one is below the root directory, wherever pytest was started."""
    return root / Path(folder).expanduser()


def _key(name: str) -> str:
    return PREFIX + name.replace("-", "_")


def _ini_keys(config: pytest.Config) -> list[str]:
    """The keys of the ini file; pytest's own view of them is deprecated from 9.1 on, and only it knows the dialects."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return list(getattr(config, "inicfg", ()))


def _refuse_typos(keys: Iterable[str], known: set[str]) -> None:
    for key in keys:
        near = difflib.get_close_matches(key, known, n=1, cutoff=0.8) if key not in known else []
        if key.startswith("compile") and near:
            raise pytest.UsageError(f"unknown ini option {key!r}: did you mean {near[0]!r}?")
