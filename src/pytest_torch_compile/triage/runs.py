"""Run the tests in an environment, in parallel if pytest-xdist is installed, and read the results."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ..child import Child, Job
from .environments import Environment, TriageError
from .failed_tests import Result, runs_of

_PHASES = ("setup", "call", "teardown")  # pytest creates one report for each of these phases
_COMPLETE = (0, 1, 5)  # pytest exit statuses: all passed, some failed, no tests collected
# Compilation may take minutes, but if no test finishes for this long, the run is hanging.
STUCK_SECONDS = 3600.0


class _Stuck(Exception):
    """Raised when no test has finished for ``STUCK_SECONDS``."""


class _Progress:
    """A progress callback that reports the number of finished tests from time to time, and raises ``_Stuck`` if no test
    finishes for ``STUCK_SECONDS``.
    """

    def __init__(self, torch: str, say: Callable[[str], None]) -> None:
        self._torch, self._say = torch, say
        self._reports, self._since = 0, time.monotonic()

    def __call__(self, reports: int) -> None:
        if reports > self._reports:
            self._reports, self._since = reports, time.monotonic()
        elif time.monotonic() - self._since > STUCK_SECONDS:
            raise _Stuck
        self._say(f"torch {self._torch}: tests finished: {reports // len(_PHASES)}")


def run_tests(
    environment: Environment,
    arguments: Sequence[str],
    tests: Sequence[str] | None = None,
    say: Callable[[str], None] = print,
    **options: object,
) -> dict[str, Result]:
    """Run the tests. ``arguments`` are passed to pytest. If ``tests`` is set, it replaces the selection of tests in
    ``arguments``.

    ``options`` maps the names of pytest and plugin options to their values. If ``arguments`` does not set the number of
    pytest-xdist workers, there is one worker for each core.

    Raises:
        TriageError: If pytest does not finish, a test hangs, no tests are collected, a collected test does not run, or
            all tests are skipped.
    """
    # -x would skip all tests after the first failure.
    all_tests = {"continue_on_collection_errors": True, "maxfail": 0}
    job = Job(tests, {**all_tests, **_workers(environment, arguments), **options})
    child = Child(arguments, Path.cwd(), job, str(environment.python))

    progress = _Progress(environment.torch, say)
    # With this process's values of these variables, the other interpreter would use the wrong environment.
    ended = child.run({"VIRTUAL_ENV": None, "PYTHONHOME": None}, too_long=(_Stuck,), progress=progress)
    results = runs_of(ended.results)
    left = [test for test in ended.collected if test not in results]
    if ended.status is None:
        over = {report["nodeid"] for report in ended.results if report.get("when") == _PHASES[-1]}
        hanging = [test for test in results if test not in over] or left
        raise TriageError(
            f"no test finished for {STUCK_SECONDS / 60:.0f} minutes under torch {environment.torch}, after "
            f"{len(over)} of {len(ended.collected)} tests. Still running: "
            f"{', '.join(hanging[:3]) or 'the collection'}. To stop a check that hangs, use "
            "--compile-timeout=SECONDS; to stop a test, use pytest-timeout"
        )
    if ended.collected and not ended.finished:
        last = ended.results[-1]["nodeid"] if ended.results else ended.collected[0]
        raise TriageError(
            f"pytest ended with status {ended.status} under torch {environment.torch}, during {last} or the next "
            "test. If pytest-xdist is installed in that environment, a test that crashes does not stop other tests"
        )
    if ended.status not in _COMPLETE or not ended.finished:
        raise TriageError(f"pytest did not finish under torch {environment.torch}: {ended.summary}")
    if left:
        raise TriageError(f"tests that did not run under torch {environment.torch}: {len(left)}, such as {left[0]}")
    if tests is None and all(result.outcome == "skipped" for result in results.values()):
        raise TriageError(f"no test ran under torch {environment.torch}: {ended.summary}")
    return results


def _workers(environment: Environment, arguments: Sequence[str]) -> dict[str, object]:
    """Return the pytest-xdist options: one worker per core, or the number of workers that ``arguments`` sets."""
    if "pytest-xdist" not in environment.packages:
        return {}
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("-n", "--numprocesses", default="auto")
    asked = parser.parse_known_args(arguments)[0].numprocesses
    return {"numprocesses": int(asked) if asked.isdigit() else os.cpu_count()}
