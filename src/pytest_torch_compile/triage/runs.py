"""Run the tests in an environment, in workers where pytest-xdist is there, and read how each test ended."""

from __future__ import annotations

import os
import subprocess
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

    ``options`` are pytest's and ours, by name.

    Raises:
        TriageError: pytest did not get to its end, or there was nothing to run.
    """
    job = Job(tests, {"continue_on_collection_errors": True, **_workers(environment), **options})
    child = Child(arguments, Path.cwd(), job, str(environment.python))

    def progress(reports: int) -> None:
        say(f"torch {environment.torch}: {reports // len(_PHASES)} tests ended")

    # Those of an environment that is activated here would lead the other one astray.
    ended = child.run({"VIRTUAL_ENV": None, "PYTHONHOME": None}, progress=progress)
    if ended.status not in _COMPLETE:
        raise TriageError(f"pytest did not finish under torch {environment.torch}: {ended.last_line}")
    results = runs_of(ended.results)
    if tests is None and not results:
        raise TriageError(f"no test ran under torch {environment.torch}: {ended.last_line}")
    return results


def _workers(environment: Environment) -> dict[str, object]:
    """The options for a worker on each core."""
    command = [str(environment.python), "-c", "import xdist"]
    there = subprocess.run(command, capture_output=True, check=False).returncode == 0
    return {"numprocesses": os.cpu_count(), "dist": "worksteal"} if there else {}
