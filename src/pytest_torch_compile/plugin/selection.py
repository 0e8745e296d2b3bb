"""Which part of the tests a run was asked for, as a short text, empty for all. Only like runs share a history."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def selection(config: pytest.Config) -> str:
    """Such as ``-k attention tests/test_a.py``: what narrows the tests, with paths relative to the root directory."""
    option = vars(config.option)
    parts = [f"{flag} {option[name]}" for flag, name in (("-k", "keyword"), ("-m", "markexpr")) if option.get(name)]
    parts += [f"--deselect {test}" for test in sorted(option.get("deselect") or ())]
    parts += [flag for flag, name in (("--lf", "lf"), ("--sw", "stepwise")) if option.get(name)]
    if config.args_source is not config.ArgsSource.TESTPATHS:
        named = sorted({_relative(path, config.invocation_params.dir, config.rootpath) for path in config.args} - {"."})
        usual = sorted({_relative(path, config.rootpath, config.rootpath) for path in config.getini("testpaths")})
        parts += [] if named == usual else named  # to name what pytest runs by itself narrows nothing
    return " ".join(parts)


def stopped_early(session: pytest.Session, exit_status: int) -> bool:
    """Whether the run ended before all of its tests: ``-x``, an interrupt, an error of pytest's own."""
    return bool(session.shouldfail or session.shouldstop) or exit_status in (2, 3, 4)


def _relative(argument: str, start: Path, root: Path) -> str:
    path, separator, inner = argument.partition("::")
    return os.path.relpath(start / path, root).replace(os.sep, "/") + separator + inner
