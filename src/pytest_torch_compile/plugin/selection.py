"""Which part of the tests a run was asked for, as a short text, empty for all. Only like runs share a history."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest


def selection(config: pytest.Config) -> str:
    """Such as ``-k attention tests/test_a.py``: what narrows the tests, with paths relative to the root directory."""
    option = config.option
    parts = [
        f"{flag} {value}" for flag, name in (("-k", "keyword"), ("-m", "markexpr")) if (value := _of(option, name))
    ]
    parts += [f"--deselect {test}" for test in sorted(_of(option, "deselect") or ())]
    parts += [flag for flag, name in (("--lf", "lf"), ("--sw", "stepwise")) if _of(option, name)]
    return " ".join([*parts, *_paths(config)])


def stopped_early(session: pytest.Session, exit_status: int) -> bool:
    """Whether the run ended before all of its tests: ``-x``, an interrupt, an error of pytest's own."""
    return bool(session.shouldfail or session.shouldstop) or exit_status in (2, 3, 4)


def _of(option: Any, name: str) -> Any:
    return getattr(option, name, None)


def _paths(config: pytest.Config) -> list[str]:
    """The paths that were named; none where they are those of the ini file, or the root directory."""
    if config.args_source is config.ArgsSource.TESTPATHS:
        return []
    given = sorted({_relative(argument, config) for argument in config.args} - {"."})
    usual = sorted({_relative(path, config, config.rootpath) for path in config.getini("testpaths")})
    return [] if given == usual else given


def _relative(argument: str, config: pytest.Config, base: Path | None = None) -> str:
    path, separator, inner = argument.partition("::")
    start = base or config.invocation_params.dir
    return os.path.relpath(start / path, config.rootpath).replace(os.sep, "/") + separator + inner
