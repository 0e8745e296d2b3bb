"""The options of the plugin: their declaration, their ini twins, and the settings that are read from them."""

from __future__ import annotations

import difflib
import math
import warnings
from typing import Any

import pytest

from ..settings import Settings, below_root

PREFIX = "compile_"
OPTIONS: dict[str, str] = {
    "backend": "backend of every check that names none: eager, aot_eager, inductor or a name",
    "device": "device that targets and inputs are moved to: cpu, cuda, cuda:1 (default: where they are)",
    "cache": "compile cache: fresh (a new one for each test), session (one for each worker), a folder to keep (a "
    "relative one is below the root directory), or an fsspec URL such as s3://bucket/folder, from which artifacts are "
    "loaded and to which they are saved",
    "report": "folder to write report.json, report.html and summary.md to; a relative one is below the root directory",
    "diagnose": "on a failed check: off, auto (the stage at fault and advice that was tried, for twice the time of the "
    "check and 60 s at most) or full (the smallest module too, for 10 minutes at most)",
    "repro": "folder to write a file to for each failed check, which shows the failure again, and was run to prove it; "
    "a relative one is below the root directory",
    "perf": "speed tests: off (pytest-benchmark times them), track (verdicts that never fail) or gate (they do)",
    "baselines": "folder of the stored baselines (default: baselines in the root directory)",
    "timeout": "seconds that a check may take, and under --compile-isolate a whole test (30 minutes by default); one "
    "that takes longer fails with the line at which it hangs",
    "existing": "package whose public functions, methods and modules are checked when ordinary tests call them, or "
    "patterns of names in it: mypackage, mypackage.layers, mypackage.ops.*",
    "existing-minutes": "minutes that the checks of --compile-existing may take in all (default: 10)",
    "existing-shapes": "how many shapes of calls that are otherwise alike --compile-existing checks (default: 4)",
    "write-tests": "folder to write a test file to for each module of the package that --compile-existing names, with "
    "a check of each target; a relative one is below the root directory",
}
FLAGS: dict[str, str] = {
    "isolate": "run each test that uses the plugin in a process of its own",
    "update-baselines": "write what changed into the baselines, and show it",
    "fast": "for quick runs while you develop: backend aot_eager for every check that names none, so that "
    "everything is checked except the code that Inductor generates; not together with speed baselines",
    "accept": "write the graph breaks and recompiles that this run finds to compile-accepted.json, so that from then "
    "on only new ones fail, and remove those that are gone",
}
CHOICES = {"perf": ("off", "track", "gate"), "diagnose": ("off", "auto", "full")}


def add_options(parser: pytest.Parser) -> None:
    """Declare each option and its ini twin."""
    group = parser.getgroup("torch-compile", "torch.compile checks")
    for name, text in OPTIONS.items():
        group.addoption(f"--compile-{name}", default=None, metavar=name.upper(), help=text)
        parser.addini(_key(name), text, default=None)
    for name, text in FLAGS.items():
        group.addoption(f"--compile-{name}", action="store_true", default=None, help=text)
        parser.addini(_key(name), text, type="bool", default=False)


def read(config: pytest.Config) -> Settings:
    """The settings from the command line, then the ini file, then the defaults.

    Raises:
        pytest.UsageError: an ini key that is almost one of ours, a value that is not among its choices, or two options
            that exclude each other.
    """
    _refuse_typos(config)
    chosen: dict[str, Any] = {}
    for name in (*OPTIONS, *FLAGS):
        given = config.getoption(f"--compile-{name}")
        # A process that we start may switch a flag off that the ini file sets.
        value = config.getini(_key(name)) if given in (None, "") else given
        if value not in (None, ""):
            chosen[name.replace("-", "_")] = value
    for name, known in CHOICES.items():
        if name in chosen and chosen[name] not in known:
            raise pytest.UsageError(f"--compile-{name}={chosen[name]}: it is one of {', '.join(known)}")
    if "timeout" in chosen:
        chosen["timeout"] = _seconds(chosen["timeout"])
    if "existing_minutes" in chosen:
        chosen["existing_minutes"] = _number("existing-minutes", chosen["existing_minutes"], "minutes")
    if "existing_shapes" in chosen:
        chosen["existing_shapes"] = int(_number("existing-shapes", chosen["existing_shapes"], "shapes"))
    if "repro" in chosen:
        chosen["repro"] = str(below_root(config.rootpath, chosen["repro"]))
    settings = Settings(**chosen)
    if settings.existing and settings.isolate:
        raise pytest.UsageError(
            "--compile-existing checks calls in the process of the test that makes them: leave out --compile-isolate"
        )
    if settings.write_tests and not settings.existing:
        raise pytest.UsageError("--compile-write-tests writes what --compile-existing=PACKAGE checks: give it too")
    # Figures of aot_eager must never be taken for those of compiled code.
    if settings.fast and (settings.perf != "off" or settings.update_baselines):
        raise pytest.UsageError("--compile-fast generates no code, so that it cannot time any: leave out one of them")
    if settings.fast and config.getoption("--compile-backend") == "inductor":
        raise pytest.UsageError("--compile-fast and --compile-backend=inductor exclude each other: give one of them")
    return settings


def _seconds(text: str) -> float | None:
    """A time limit; 0 switches it off, so that a command line can switch off that of the ini file."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise pytest.UsageError(f"--compile-timeout={text}: give a number of seconds, 0 for no limit")
    return seconds or None


def _number(option: str, text: str, what: str) -> float:
    """A number above 0."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise pytest.UsageError(f"--compile-{option}={text}: give a number of {what}")
    return number


def backend_asked_for(config: pytest.Config) -> str | None:
    """The backend that the command line or the ini file names."""
    return config.getoption("--compile-backend") or config.getini(_key("backend")) or None


def _key(name: str) -> str:
    return PREFIX + name.replace("-", "_")


def _refuse_typos(config: pytest.Config) -> None:
    known = {_key(name) for name in (*OPTIONS, *FLAGS)}
    with warnings.catch_warnings():
        # pytest's own view of the ini file is deprecated from 9.1 on, and only it knows all forms of that file.
        warnings.simplefilter("ignore")
        keys = list(getattr(config, "inicfg", ()))
    for key in keys:
        near = difflib.get_close_matches(key, known, n=1, cutoff=0.8) if key not in known else []
        if key.startswith("compile") and near:
            raise pytest.UsageError(f"unknown ini option {key!r}: did you mean {near[0]!r}?")
