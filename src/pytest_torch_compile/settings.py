"""What the command line and the ini file say about checks, for code that cannot ask for a fixture."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Iterable
from dataclasses import dataclass

import pytest

PREFIX = "compile_"
OPTIONS: dict[str, str] = {
    "backend": "backend of every check made through a fixture or CompileSuite: eager, aot_eager, inductor or a name",
    "device": "device that targets and inputs are moved to: cpu, cuda, cuda:1 (default: where they are)",
    "cache": "compile cache: fresh (a new one for each test), session (one for each worker), or a folder to keep",
    "report": "folder to write report.json, report.html and summary.md to",
}


@dataclass(frozen=True)
class Settings:
    """The options in force."""

    backend: str = "inductor"
    device: str | None = None
    cache: str = "session"
    report: str | None = None
    isolate: bool = False


current = Settings()


def add_options(parser: pytest.Parser) -> None:
    """Declare each option and its ini twin."""
    group = parser.getgroup("torch-compile", "torch.compile checks")
    for name, text in OPTIONS.items():
        group.addoption(f"--compile-{name}", default=None, metavar=name.upper(), help=text)
        parser.addini(PREFIX + name, text, default=None)
    isolate = "run each test that uses the plugin in a process of its own"
    group.addoption("--compile-isolate", action="store_true", default=None, help=isolate)
    parser.addini(PREFIX + "isolate", isolate, type="bool", default=False)


def read(config: pytest.Config) -> Settings:
    """The settings from the command line, then the ini file, then the defaults.

    Raises:
        pytest.UsageError: an ini key that is almost one of ours.
    """
    known = {PREFIX + name for name in (*OPTIONS, "isolate")}
    _refuse_typos(_ini_keys(config), known)
    chosen = {name: config.getoption(f"--compile-{name}") or config.getini(PREFIX + name) for name in OPTIONS}
    isolate = config.getoption("--compile-isolate") or config.getini(PREFIX + "isolate")
    return Settings(isolate=bool(isolate), **{name: value for name, value in chosen.items() if value})


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
