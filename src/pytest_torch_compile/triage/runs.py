"""Run the tests in an environment, in workers where pytest-xdist is there, and read how each test ended."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from ..child import Child, Job
from .environments import Environment, TriageError
from .failures import Result, runs_of

_PHASES = ("setup", "call", "teardown")  # a report each
_COMPLETE = (0, 1, 5)  # pytest's: all passed, some failed, no test was chosen


def run_tests(
    environment: Environment,
    arguments: Sequence[str],
    tests: Sequence[str] | None = None,
    say: Callable[[str], None] = print,
    **options: object,
) -> dict[str, Result]:
    """How each test ended. ``arguments`` go to pytest; ``tests``, where given, are run in place of those they choose.

    ``options`` are pytest's and ours, by name. Workers are as many as ``arguments`` say, else one for each core.

    Raises:
        TriageError: pytest did not get to its end, or there was nothing to run.
    """
    # After the first failure, -x would leave out all others.
    all_tests = {"continue_on_collection_errors": True, "maxfail": 0}
    job = Job(tests, {**all_tests, **_workers(environment, arguments), **options})
    child = Child(arguments, Path.cwd(), job, str(environment.python))

    def progress(reports: int) -> None:
        say(f"torch {environment.torch}: {reports // len(_PHASES)} tests ended")

    # Those of an environment that is activated here would lead the other one astray.
    ended = child.run({"VIRTUAL_ENV": None, "PYTHONHOME": None}, progress=progress)
    results = runs_of(ended.results)
    left = [test for test in ended.collected if test not in results]
    if ended.collected and not ended.finished:
        last = ended.results[-1]["nodeid"] if ended.results else ended.collected[0]
        raise TriageError(
            f"pytest ended with status {ended.status} under torch {environment.torch}, in {last} or the test after it: "
            "with pytest-xdist installed there, a test that ends its process costs only itself"
        )
    if ended.status not in _COMPLETE or not ended.finished:
        raise TriageError(f"pytest did not finish under torch {environment.torch}: {ended.last_line}")
    if left:
        raise TriageError(f"{len(left)} tests did not run under torch {environment.torch}, such as {left[0]}")
    if tests is None and all(result.outcome == "skipped" for result in results.values()):
        raise TriageError(f"no test ran under torch {environment.torch}: {ended.last_line}")
    return results


def _workers(environment: Environment, arguments: Sequence[str]) -> dict[str, object]:
    """The options for a worker on each core, or for as many as pytest was asked for."""
    if "pytest-xdist" not in environment.packages:
        return {}
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("-n", "--numprocesses", default="auto")
    asked = parser.parse_known_args(arguments)[0].numprocesses
    return {"numprocesses": int(asked) if asked.isdigit() else os.cpu_count()}
