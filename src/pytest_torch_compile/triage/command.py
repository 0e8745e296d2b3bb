"""``pytest-torch-compile torch``: the tests of this checkout under two releases of torch, and what fails since."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from ..report.safe_text import terminal
from . import page
from .bisection import bisect
from .environments import Environment, TriageError, default_install, environment, releases_between
from .failures import Result
from .groups import Group, Status, grouped, reproduced, to_reproduce, unsure
from .page import Triage
from .runs import run_tests

Say = Callable[[str], None]


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of the command; what is not known goes to pytest."""
    either = "a release such as 2.13.0, for which an environment is made with uv, or the path of a Python interpreter"
    parser.add_argument("--old", required=True, metavar="TORCH", help=f"the torch that is known: {either}")
    parser.add_argument("--new", required=True, metavar="TORCH", help="the torch to look at, in the same form")
    parser.add_argument(
        "--install",
        action="append",
        metavar="WORDS",
        help="what else uv installs, such as '-e .[test]'; may be repeated (default: -e .)",
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("torch-triage"),
        help="folder for triage.md, triage.html and a reproduction of each group",
    )
    parser.add_argument("--bisect", action="store_true", help="find the release in which each new group began")
    parser.add_argument(
        "--releases",
        default="",
        metavar="LIST",
        help="the releases between for --bisect, separated by commas (default: all that pip can see)",
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; exit status 0 where nothing new fails, 1 where something does, 2 where it cannot be said."""
    parser = argparse.ArgumentParser(prog="pytest-torch-compile torch", description=__doc__)
    add_options(parser)
    options, rest = parser.parse_known_args(arguments)
    install = default_install() if options.install is None else options.install
    try:
        triage = compare(
            options.old,
            options.new,
            rest,
            reproductions=options.output.absolute() / "reproductions",
            install=install,
            releases=[release for release in options.releases.split(",") if release],
            bisecting=options.bisect,
            say=lambda line: print(terminal(line), flush=True),
        )
    except TriageError as error:
        print(terminal(f"error: {error}"), file=sys.stderr)
        return 2
    print(f"\n{page.text(triage)}")
    print(terminal(f"written: {page.write(triage, options.output)}"))
    return int(any(group.status is Status.NEW for group in triage.groups))


def compare(
    old: str,
    new: str,
    arguments: Sequence[str],
    *,
    reproductions: Path,
    install: Sequence[str] = (),
    releases: Sequence[str] = (),
    bisecting: bool = False,
    say: Say = print,
) -> Triage:
    """Run the tests under both, run again what only one of them shows, and group what fails by its cause.

    Args:
        old: A release of torch or the path of an interpreter; so is ``new``.
        arguments: What goes to pytest: tests, and its own options.
        reproductions: The folder for a file of each group.
        install: What uv installs beside torch and this plugin.
        releases: Those between for a bisection; empty for all that pip can see.

    Raises:
        TriageError: an environment cannot be made or used, or pytest did not finish in one.
    """
    sides = [_environment(given, install, say) for given in (old, new)]
    if bisecting and sides[0].torch == sides[1].torch:
        raise TriageError(f"both sides have torch {sides[0].torch}: there is nothing to bisect")
    runs = [_run(side, arguments, None, say) for side in sides]
    again = [
        _run(side, arguments, tests, say) if tests else {} for side, tests in zip(sides, unsure(*runs), strict=True)
    ]
    groups = _reproduced(grouped(*runs, *again), sides, arguments, reproductions, say)
    if bisecting:
        groups = _bisected(groups, sides, arguments, install, releases, say)
    return Triage(sides[0].torch, sides[1].torch, groups, len(runs[0]), len(runs[1]))


def _environment(given: str, install: Sequence[str], say: Say) -> Environment:
    say(f"environment for {given}")
    return environment(given, install)


def _run(
    side: Environment, arguments: Sequence[str], tests: Sequence[str] | None, say: Say, **options: object
) -> dict[str, Result]:
    say(f"torch {side.torch}: running {'the tests' if tests is None else f'{len(tests)} of them once more'}")
    runs = run_tests(side, arguments, tests, say, **options)
    say(f"torch {side.torch}: {len(runs)} tests, {sum(bool(run.failures) for run in runs.values())} fail")
    return runs


def _reproduced(
    groups: Sequence[Group], sides: Sequence[Environment], arguments: Sequence[str], folder: Path, say: Say
) -> list[Group]:
    """All groups, each with a file that shows its failure, where one can be written."""
    old, new = sides
    for side, statuses in ((old, {Status.GONE}), (new, {Status.NEW, Status.KNOWN})):
        if tests := to_reproduce(groups, statuses):
            runs = _run(side, arguments, tests, say, compile_repro=str(folder))
            groups = [reproduced(group, runs) if group.status in statuses else group for group in groups]
    return list(groups)


def _bisected(
    groups: Sequence[Group],
    sides: Sequence[Environment],
    arguments: Sequence[str],
    install: Sequence[str],
    releases: Sequence[str],
    say: Say,
) -> list[Group]:
    """All groups, the new ones with the release in which they began."""
    between = releases_between(sides[0].torch, sides[1].torch, releases)
    new = [group for group in groups if group.status is Status.NEW]
    placed = bisect(
        new, between, lambda release, tests: _run(_environment(release, install, say), arguments, tests, say)
    )
    return [*placed, *(group for group in groups if group.status is not Status.NEW)]
