"""``pytest-torch-compile torch``: run the tests of this checkout under two torch releases, and report new failures."""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from ..report.safe_text import terminal
from . import page
from .bisection import bisect
from .environments import Environment, TriageError, default_install, environment, releases_between
from .failed_tests import Result
from .groups import Group, Status, grouped, lost, reproduced, to_reproduce, unsure
from .page import Triage
from .runs import run_tests

Say = Callable[[str], None]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command; unknown options are passed to pytest."""
    either = "a release such as 2.13.0 (uv creates an environment for it), or the path to a Python interpreter"
    parser.add_argument("--old", required=True, metavar="TORCH", help=f"the old torch version: {either}")
    parser.add_argument(
        "--new", required=True, metavar="TORCH", help="the new torch version, in the same format as --old"
    )
    parser.add_argument(
        "--install",
        action="append",
        metavar="WORDS",
        help="packages for uv to install, such as '-e .[test]'; may be repeated (default: -e . in a project's folder)",
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("torch-triage"),
        help="folder for triage.md, triage.html and reproductions",
    )
    parser.add_argument(
        "--bisect", action="store_true", help="find the release in which each group of new failures first appeared"
    )
    parser.add_argument(
        "--releases",
        default="",
        metavar="LIST",
        help="comma-separated releases to test with --bisect (default: all releases that pip finds)",
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Return 0 if there are no new failures, 1 if there are new failures, and 2 if the releases could
    not be compared.
    """
    parser = argparse.ArgumentParser(prog="pytest-torch-compile torch", description=__doc__, allow_abbrev=False)
    add_options(parser)
    options, rest = parser.parse_known_args(arguments)
    install = default_install() if options.install is None else options.install
    named = [release for release in options.releases.split(",") if release]

    def say(line: str) -> None:
        print(terminal(line), flush=True)

    try:
        sides = [_environment(given, install, say) for given in (options.old, options.new)]
        between = releases_between(sides[0].torch, sides[1].torch, named) if options.bisect else []
        triage = compare(sides[0], sides[1], rest, reproductions=options.output.absolute() / "reproductions", say=say)
        written = page.write(triage, options.output)  # written before the bisection, which may fail
        if between:
            triage = replace(triage, groups=_bisected(triage.groups, between, rest, install, say))
            written = page.write(triage, options.output)
    except TriageError as error:
        print(terminal(f"error: {error}"), file=sys.stderr)
        return 2
    except Exception:  # Python's exit status for an uncaught exception, 1, would mean a new failure
        traceback.print_exc()
        return 2
    print(f"\n{page.text(triage)}")
    say(f"written: {written}")
    return int(any(group.status.is_worse for group in triage.groups))


def compare(
    old: Environment, new: Environment, arguments: Sequence[str], *, reproductions: Path, say: Say = print
) -> Triage:
    """Run the tests under both releases, repeat the tests that fail under only one release, and group the failures by
    cause.

    Args:
        arguments: The tests and options to pass to pytest.
        reproductions: The folder for scripts that reproduce failures.

    Raises:
        TriageError: If pytest did not finish in an environment.
    """
    sides = (old, new)
    runs = [_run(side, arguments, None, say) for side in sides]
    again: list[dict[str, Result]] = []
    for side, first in zip(sides, runs, strict=True):
        tests = [test for test in unsure(*runs) if test in first]
        again.append(_run(side, arguments, tests, say) if tests else {})
    groups = _reproduced(grouped(*runs, *again), sides, arguments, reproductions, say)
    return Triage(old.torch, new.torch, groups, len(runs[0]), len(runs[1]), old.differences(new), lost(*runs))


def _environment(given: str, install: Sequence[str], say: Say) -> Environment:
    say(f"preparing the environment for {given}")
    made = environment(given, install)
    say(f"torch {made.torch}: {made.python}")
    return made


def _run(
    side: Environment, arguments: Sequence[str], tests: Sequence[str] | None, say: Say, **options: object
) -> dict[str, Result]:
    say(f"torch {side.torch}: {'running the tests' if tests is None else f'tests to run again: {len(tests)}'}")
    runs = run_tests(side, arguments, tests, say, **options)
    say(f"torch {side.torch}: tests: {len(runs)}, failed: {sum(bool(run.failures) for run in runs.values())}")
    return runs


def _reproduced(
    groups: Sequence[Group], sides: Sequence[Environment], arguments: Sequence[str], folder: Path, say: Say
) -> list[Group]:
    """Return all groups, each with a script that reproduces its failure, if such a script can be written."""
    of_old = {Status.GONE, Status.NOT_ON_NEW}
    of_new = {Status.NEW, Status.KNOWN, Status.NOT_ON_OLD}
    for side, statuses, name in zip(sides, (of_old, of_new), ("old", "new"), strict=True):
        if tests := to_reproduce(groups, statuses):
            runs = _run(side, arguments, tests, say, compile_repro=str(folder / name))
            groups = [reproduced(group, runs) if group.status in statuses else group for group in groups]
    return list(groups)


def _bisected(
    groups: Sequence[Group], releases: Sequence[str], arguments: Sequence[str], install: Sequence[str], say: Say
) -> list[Group]:
    """Return all groups. Each group of new failures includes the release in which the failure first appeared."""

    def run_on(release: str, tests: Sequence[str]) -> dict[str, Result]:
        try:
            return _run(_environment(release, install, say), arguments, tests, say)
        except TriageError as error:  # the other releases may suffice for the bisection
            say(f"skipping torch {release}: {error}")
            return {}

    new = [group for group in groups if group.status is Status.NEW]
    return [*bisect(new, releases, run_on), *(group for group in groups if group.status is not Status.NEW)]
