"""The command-line and ini options of the plugin, and the settings read from them."""

from __future__ import annotations

import difflib
import math
import os
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from ..plan.cards import CARDS, known_name
from ..settings import Settings, below_root

PREFIX = "compile_"
OPTIONS: dict[str, str] = {
    "backend": "default backend for checks: eager, aot_eager, inductor or another backend",
    "device": "device to move targets and inputs to, such as cpu, cuda or cuda:1 (default: do not move them)",
    "cache": "compile cache: fresh (a new one for each test), session (one for each pytest-xdist worker), "
    "a persistent folder (relative to the root directory), or an fsspec URL such as "
    "s3://bucket/folder for loading and saving artifacts",
    "report": "folder for report.json, report.html and summary.md, relative to the root directory",
    "diagnose": "diagnosis of failed checks: off, auto or full; auto finds the compile stage that causes the failure, "
    "and tries out fixes (time limit: twice the duration of the check, but at least 3 s and at most 60 s); full also "
    "finds the smallest module that fails (time limit: 10 minutes)",
    "repro": (
        "folder for scripts that reproduce failed checks, relative to the root directory: one script for each check, "
        "kept only if the script fails in the same way as the check"
    ),
    "perf": "speed tests: off (only pytest-benchmark times them), track (report "
    "regressions without failing) or gate (fail on regressions)",
    "plan": "GPU to plan for, such as H100; on a machine without a CUDA device, speed tests are then not timed; "
    "instead, and for checks with plan=True, Inductor generates code for this GPU, and a test fails if the number of "
    "kernels or another count of this code is worse than in the baseline (with --compile-perf=track, the test only "
    "reports the change)",
    "baselines": "folder for baselines, relative to the root directory (default: baselines)",
    "timeout": "time limit for each check in seconds, or for the whole test under --compile-isolate (default: none, "
    "or 30 minutes under --compile-isolate); a check that exceeds the limit fails and reports the line where it hung",
    "existing": "public functions, methods and modules to check when ordinary tests call them: a package, or "
    "comma-separated patterns of names in a package, such as mypackage or mypackage.layers,mypackage.ops.*",
    "existing-minutes": "time limit in minutes for a run with --compile-existing (default: 10); the "
    "limit is never shorter than 3 times the duration of a run without --compile-existing",
    "existing-shapes": "maximum number of shapes that --compile-existing checks if calls to a target differ only in "
    "shape (default: 4)",
    "write-tests": "folder for generated test files, relative to the root directory: one file for each module of "
    "the package given to --compile-existing, with one check for each target",
}
FLAGS: dict[str, str] = {
    "isolate": "run each test that uses the plugin in a separate process",
    "update-baselines": "write changed values to the baselines, and list the changes",
    "fast": "use backend aot_eager in checks that do not set a backend, for quick runs during development; this "
    "checks everything except the code that Inductor generates, and cannot be combined with --compile-perf or "
    "--compile-update-baselines",
    "accept": "write this run's graph breaks and recompiles to compile-accepted.json, so that later runs fail only on "
    "new graph breaks and recompiles; entries that are no longer needed are removed",
}
# The options that write to the project, other than the report, once the results of all tests are known.
WRITING = ("accept", "update-baselines", "write-tests")
# The options that can change the results of checks. The command that reruns a failed test repeats them.
RERUN = ("backend", "device", "timeout", "fast")
CHOICES = {"perf": ("off", "track", "gate"), "diagnose": ("off", "auto", "full")}


def add_options(parser: pytest.Parser) -> None:
    """Declare each command-line option and its ini option."""
    group = parser.getgroup("torch-compile", "torch.compile checks")
    for name, text in OPTIONS.items():
        group.addoption(f"--compile-{name}", default=None, metavar=name.upper(), help=text)
        parser.addini(_key(name), text, default=None)
    for name, text in FLAGS.items():
        group.addoption(f"--compile-{name}", action="store_true", default=None, help=text)
        parser.addini(_key(name), text, type="bool", default=False)


def read(config: pytest.Config) -> Settings:
    """Return the settings. The command line takes precedence over the ini file, and the ini file over the defaults.

    Raises:
        pytest.UsageError: If an ini option is misspelled, a value is invalid, or two options cannot be combined.
    """
    _refuse_typos(config)
    chosen: dict[str, Any] = {}
    for name in (*OPTIONS, *FLAGS):
        given = config.getoption(f"--compile-{name}")
        # A child process can turn off a flag that the ini file sets.
        value = config.getini(_key(name)) if given in (None, "") else given
        if value not in (None, ""):
            chosen[name.replace("-", "_")] = value
    for name, known in CHOICES.items():
        if name in chosen and chosen[name] not in known:
            raise pytest.UsageError(f"--compile-{name}={chosen[name]}: choose one of {', '.join(known)}")
    for name, convert in CONVERTED.items():
        if (field := name.replace("-", "_")) in chosen:
            chosen[field] = convert(name, chosen[field])
    if "repro" in chosen:
        chosen["repro"] = str(below_root(config.rootpath, chosen["repro"]))
    root = os.path.relpath(config.rootpath, config.invocation_params.dir)
    settings = Settings(**chosen, root=root, rerun_options=_rerun_options(config))
    if settings.existing and settings.isolate:
        raise pytest.UsageError(
            "--compile-existing checks each call in the same process as its test: remove --compile-isolate"
        )
    if settings.write_tests and not settings.existing:
        raise pytest.UsageError("--compile-write-tests requires --compile-existing=PACKAGE")
    # Times measured with aot_eager must never be mistaken for times of compiled code.
    if settings.fast and (settings.perf != "off" or settings.update_baselines):
        raise pytest.UsageError(
            "--compile-fast does not generate code that can be timed: remove either --compile-fast, or both "
            "--compile-perf and --compile-update-baselines"
        )
    if settings.plan and (settings.fast or settings.backend != "inductor"):
        other = "--compile-fast" if settings.fast else f"--compile-backend={settings.backend}"
        raise pytest.UsageError(f"--compile-plan requires backend inductor: remove {other}")
    writing = [name for name in WRITING if getattr(settings, name.replace("-", "_"))]
    # pytest-xdist starts its workers with -p no:terminal; their controller writes.
    if writing and (off := _turns_summary_off(config)) and not hasattr(config, "workerinput"):
        raise pytest.UsageError(f"--compile-{writing[0]} writes when pytest shows its summary: remove {off}")
    if settings.fast and config.getoption("--compile-backend") == "inductor":
        raise pytest.UsageError("--compile-fast cannot be combined with --compile-backend=inductor: remove one of them")
    return settings


def _rerun_options(config: pytest.Config) -> tuple[str, ...]:
    """Return the options on the command line that a rerun of a test must repeat. Those in the ini file apply anyway."""
    given = {name: config.getoption(f"--compile-{name}") for name in RERUN}
    return tuple(
        f"--compile-{name}" if value is True else f"--compile-{name}={value}" for name, value in given.items() if value
    )


def _turns_summary_off(config: pytest.Config) -> str:
    """Return the option because of which pytest shows no summary, or an empty string."""
    if not config.pluginmanager.has_plugin("terminal"):
        return "-p no:terminal"
    return "--no-summary" if config.getoption("no_summary", False) else ""


def _seconds(option: str, text: str) -> float | None:
    """Parse a time limit. 0 means no limit, so the command line can turn off a limit that the ini file sets."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise pytest.UsageError(f"--compile-{option}={text}: must be a number of seconds, or 0 for no limit")
    return seconds or None


def _number(option: str, text: str) -> float:
    """Parse a number greater than 0."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise pytest.UsageError(f"--compile-{option}={text}: must be a number of {option.rpartition('-')[2]} above 0")
    return number


def _whole_number(option: str, text: str) -> int:
    """Parse a whole number greater than 0."""
    number = _number(option, text)
    if number != int(number):
        raise pytest.UsageError(f"--compile-{option}={text}: must be a whole number")
    return int(number)


def _card(option: str, text: str) -> str:
    """Return the name of a GPU as ``CARDS`` spells it, which is also its spelling in the names of baselines folders."""
    name = known_name(text)
    if not name:
        raise pytest.UsageError(f"--compile-{option}={text}: choose one of {', '.join(CARDS)}")
    return name


# Values that are not strings, or not every string.
CONVERTED: dict[str, Callable[[str, str], Any]] = {
    "timeout": _seconds,
    "existing-minutes": _number,
    "existing-shapes": _whole_number,
    "plan": _card,
}


def backend_asked_for(config: pytest.Config) -> str | None:
    """Return the backend that is set on the command line or in the ini file, or None."""
    return config.getoption("--compile-backend") or config.getini(_key("backend")) or None


def _key(name: str) -> str:
    return PREFIX + name.replace("-", "_")


def _refuse_typos(config: pytest.Config) -> None:
    known = {_key(name) for name in (*OPTIONS, *FLAGS)}
    with warnings.catch_warnings():
        # ``inicfg`` has been deprecated since pytest 9.1, but nothing else supports all formats of the ini file.
        warnings.simplefilter("ignore")
        keys = list(getattr(config, "inicfg", ()))
    for key in keys:
        near = difflib.get_close_matches(key, known, n=1, cutoff=0.8) if key not in known else []
        if key.startswith("compile") and near:
            raise pytest.UsageError(f"unknown ini option {key!r}: did you mean {near[0]!r}?")
