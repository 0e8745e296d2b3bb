"""Compare the speed of this checkout with the speed of another revision. The speed tests run on the two revisions
alternately, each time with an empty compile cache. Each run uses all GPUs in parallel.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from ..baselines import structure
from ..child import Child, Ended, Job
from ..disk import TemporaryFolder
from ..report.failure_text import count
from ..report.safe_text import terminal
from . import fresh_process, gpus
from .deciding import exact, planned, times, wording
from .deciding.confirmation import Decision
from .deciding.constants import MAX_COMPILATIONS
from .deciding.times import Verdict
from .measuring.turns import needed_by_test
from .one_revision import NotCompared, Revision, not_compared, paths_in
from .sample import SpeedSample

# The number of rounds before a test can be excluded from later rounds. In each round, the tests run once on each
# revision.
MIN_ROUNDS = 2
# The exit statuses of pytest after a complete run: all tests passed, some failed, no tests were collected.
COMPLETE = (0, 1, 5)
USAGE_ERROR = 4  # pytest's exit status if, for example, a selected test does not exist
Say = Callable[[str], None]


class CompareError(RuntimeError):
    """Raised when the comparison is not possible; the message is one line."""


@dataclass(frozen=True)
class Compared:
    """One test's results on both revisions. ``base`` contains the measurements of the base revision."""

    test: str
    base: Sequence[SpeedSample]
    decision: Decision

    @property
    def outcome(self) -> times.Outcome:
        """The outcome: ``regressed`` if a count, such as the number of kernels, is worse than on the base revision;
        otherwise, the outcome of the times.
        """
        return "regressed" if self.decision.worse else self.decision.times.outcome


@dataclass(frozen=True)
class ComparedPlan:
    """One test's planned counts on both revisions: counts for generated code that was not run. ``places`` maps this
    checkout's launches and graph breaks to lines of code.
    """

    test: str
    change: planned.PlannedChange
    places: Mapping[str, str] = field(default_factory=dict)

    @property
    def outcome(self) -> str:
        """The outcome: ``regressed`` if a planned count is worse."""
        return self.change.outcome


@dataclass(frozen=True)
class Comparison:
    """The results of all tests: measured tests, planned tests, and tests that could not be compared."""

    compared: Sequence[Compared] = ()
    plans: Sequence[ComparedPlan] = ()
    others: Sequence[NotCompared] = ()

    @property
    def is_worse(self) -> bool:
        """Whether this checkout made a test slower, or broke it."""
        outcomes = [*(one.outcome for one in self.compared), *(one.outcome for one in self.plans)]
        return "regressed" in outcomes or any(one.outcome == "failed" for one in self.others)

    def text(self) -> str:
        """Return the report, with a section for each kind of result."""
        return "\n".join([*report(self.compared), *report_plans(self.plans), *report_others(self.others)])


@dataclass(frozen=True)
class _Side:
    """A revision, its ``label`` in progress messages, and the folder and the arguments of its runs."""

    revision: Revision
    label: str
    folder: Path
    arguments: Sequence[str]


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare this checkout with another revision, and print each test's result. Return 1 if a test regressed or fails
    only in this checkout, 2 if the comparison was not possible, and 0 otherwise.
    """
    parser = argparse.ArgumentParser(
        prog="pytest-torch-compile compare",
        usage="%(prog)s --against REF [--rounds N] [pytest arguments]",
        description=__doc__,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--against", required=True, metavar="REF", help="revision to compare with, such as main or HEAD~1"
    )
    rounds = f"maximum number of compilations of each revision (default: {MAX_COMPILATIONS})"
    parser.add_argument("--rounds", type=int, metavar="N", default=MAX_COMPILATIONS, help=rounds)
    options, rest = parser.parse_known_args(arguments)
    try:
        comparison = compare_with(options.against, rest, rounds=options.rounds, say=print)
    except CompareError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(comparison.text())
    return int(comparison.is_worse)


def compare_with(
    base: str, arguments: Sequence[str], *, rounds: int = MAX_COMPILATIONS, say: Say = print
) -> Comparison:
    """Run the speed tests of this checkout and of the revision ``base`` alternately, and compare each test that both
    revisions measured.

    If ``arguments`` contains ``--compile-plan`` and the machine has no CUDA device, nothing is measured: Inductor
    generates code without running it, and the counts for this code, such as the number of kernels, are compared. The
    counts are deterministic, so one round is enough.

    ``arguments`` are passed to pytest, which runs in the current folder of this checkout, and in the same folder of the
    other revision. Each revision runs its own tests against its own sources: this folder, the folders that contain it,
    and their ``src`` folders come first on ``PYTHONPATH``. Every run starts with an
    empty compile cache, so unchanged graphs are compiled again as well. A test that looks unchanged after two rounds,
    or whose counts are worse, is excluded from later rounds.

    Raises:
        CompareError: If the current folder is not in a git checkout, ``base`` is unknown or does not contain the
            current folder, a revision could not run its tests, or no test was compared for another reason than that
            all tests are new.
    """
    if rounds < 1:
        raise CompareError(f"--rounds is {rounds}: it must be at least 1")
    root, prefix = Path(_git("rev-parse", "--show-toplevel")), _git("rev-parse", "--show-prefix")
    revision = _commit(base)
    memory = structure.memory_of_tests(root / prefix / "baselines")
    needed = {test: needed_by_test(peak) for test, peak in memory.items()}
    before, now = Revision(base), Revision("this checkout")
    with checkout(root, revision) as other:
        here = _Side(now, "here", root / prefix, arguments)
        if not (other / prefix).is_dir():
            raise CompareError(f"revision {base} does not contain the current folder, {prefix.rstrip('/')}")
        sides = [here, *_base_sides(before, other / prefix, here)]
        open_tests: list[str] | None = None
        for number in range(rounds):
            for side in reversed(sides) if number % 2 else sides:
                which = f"round {number + 1} of up to {rounds}, {side.label}"
                say(f"{which}: {'all tests' if open_tests is None else f'{len(open_tests)} undecided'}")
                ran = _run(side, open_tests, needed, say, which)
                say(f"{which}: {count(len(ran.samples) or len(ran.plans), 'speed test')}; {ran.ended.summary}")
                side.revision.add(ran)
                needed |= {test: needed_by_test(one.memory.compiled) for test, one in ran.samples.items() if one.memory}
            others = not_compared(before, now)
            left_out = {one.test for one in others}
            compared = judged(before, now, left_out)
            if not compared:  # the counts in a plan are deterministic
                break
            # A count that is worse already decides the result of a test.
            open_tests = [one.test for one in compared if one.decision.times.undecided and not one.decision.worse]
            if not open_tests and number + 1 >= MIN_ROUNDS:
                break
            open_tests = open_tests if number + 1 >= MIN_ROUNDS else None
    comparison = Comparison(compared, compared_plans(before, now, left_out), others)
    _require_results(comparison, now, ran.ended)
    return comparison


def _base_sides(revision: Revision, folder: Path, here: _Side) -> list[_Side]:
    """Return the base revision's side. The list is empty if the base revision contains no selected path: then pytest
    would run all tests. If it contains only some of the paths, the others are not passed to pytest, which would run
    nothing.
    """
    selected, known = paths_in(here.arguments, here.folder), paths_in(here.arguments, folder)
    if selected and not known:
        return []
    arguments = [argument for argument in here.arguments if argument in known or argument not in selected]
    return [_Side(revision, "base", folder, arguments)]


def _require_results(comparison: Comparison, here: Revision, last: Ended) -> None:
    """Raise CompareError if nothing was compared, unless all tests are new, or this checkout broke a test."""
    if comparison.compared or comparison.plans or comparison.is_worse:
        return
    if failed := [one for one in comparison.others if one.outcome == "not-compared"]:
        more = f" ({len(failed) - 1} more could not be compared)" if len(failed) > 1 else ""
        raise CompareError(f"no test was compared: {failed[0].test} {failed[0].reason}{more}")
    if not here.measured:
        raise CompareError(
            f"no test that uses compile_benchmark returned measurements in this checkout: {last.summary}"
        )


def compared_plans(base: Revision, here: Revision, left_out: Iterable[str] = ()) -> list[ComparedPlan]:
    """Compare the planned counts (counts for generated code that was not run) of each test that has planned counts on
    both revisions.
    """
    compared = []
    for test in sorted({*base.plans} & {*here.plans} - {*left_out}):
        before, now = base.plans[test]["entry"], here.plans[test]["entry"]
        change = planned.compare(before, now, here.allowed.get(test))
        compared.append(ComparedPlan(test, change, here.plans[test]["places"]))
    return compared


def judged(base: Revision, here: Revision, left_out: Iterable[str] = ()) -> list[Compared]:
    """Compare the measurements of each test that both revisions measured, and return the results."""
    tests = sorted({*base.samples} & {*here.samples} - {*left_out})
    return [_judged(test, base.samples[test], here.samples[test], here.allowed.get(test), len(tests)) for test in tests]


def _judged(
    test: str,
    base: Sequence[SpeedSample],
    here: Sequence[SpeedSample],
    allow_more: exact.AllowMore | None,
    tests: int,
) -> Compared:
    verdict = times.compare([sample.run() for sample in base], [sample.run() for sample in here], tests=tests)
    if problems := sorted({problem for sample in (*base, *here) for problem in sample.problems}):
        verdict = Verdict("inconclusive", verdict.changes, "; ".join(problems))
    before = exact.merged({}, [sample.exact for sample in base], changed=True)
    differences = exact.differences(before, [sample.exact for sample in here], allow_more)
    return Compared(test, base, Decision(list(here), verdict, tuple(differences)))


def report(compared: Iterable[Compared]) -> list[str]:
    """Return the lines of the report: first the counts (such as the number of kernels) that differ between the
    revisions, and then the changes in each test's times, with confidence intervals.
    """
    compared = list(compared)
    if not compared:
        return []
    rows = [(one.test, difference) for one in compared for difference in one.decision.differences]
    lines = ["counts: the same on both revisions" if not rows else "counts:"]
    width = max((len(test) for test, _ in rows), default=0)
    lines += [f"  {test:{width}}  {'worse ' if found.worse else 'better'}  {found}" for test, found in rows]
    lines += ["", "times relative to eager, with both revisions compiled from scratch:"]
    for one in compared:
        verdict = one.decision.times
        changes = [wording.interval(change) for change in verdict.changes]
        lines.append(
            f"  {one.outcome:12} {one.test}  {', '.join([*changes, *filter(None, [verdict.reason])])}".rstrip()
        )
        if verdict.outcome in ("regressed", "improved"):
            stored = [sample.run() for sample in one.base]
            details = [wording.table(stored, one.decision.samples), wording.where(one.decision, stored)]
            lines += [f"      {line}" for text in details for line in text.splitlines()]
    return lines


def report_plans(compared: Sequence[ComparedPlan]) -> list[str]:
    """Return a line for each test with planned counts, followed by the kernels and graph breaks that changed in the
    test.
    """
    lines = ["", "planned counts (nothing was measured):"] if compared else []
    for one in compared:
        lines.append(f"  {one.outcome:12} {one.test}  {one.change.summary}".rstrip())
        lines += [f"      {line}" for line in one.change.lines(one.places)]
    return lines


def report_others(others: Sequence[NotCompared]) -> list[str]:
    """Return a line for each test that was not compared."""
    lines = ["", "tests that were not compared:"] if others else []
    return [*lines, *(f"  {one.outcome:12} {one.test}  {one.reason}" for one in others)]


def _run(
    side: _Side, tests: Sequence[str] | None, memory: Mapping[str, int], say: Say, which: str
) -> fresh_process.Ran:
    """Run one revision's speed tests once, with an empty compile cache and with pytest-xdist workers that compile at
    the same time. ``memory`` maps tests to the bytes that they need on a GPU.

    Raises:
        CompareError: If pytest could not run, for example because it could not import a conftest file.
    """
    with TemporaryFolder("torch-compile-cache-") as cache:
        # Pass these options on the command line, because an older revision's plugin may not support the options of a
        # ``Job``.
        ours = ["--compile-perf=track", f"--compile-cache={cache}", f"--compile-baselines={cache}/none", "-q"]
        if (workers := gpus.workers() or 1) > 1 and find_spec("xdist"):
            ours += ["-n", str(workers)]
        else:
            ours.append("--benchmark-only")
        # Each revision imports its own sources, even if another checkout is installed.
        path = os.pathsep.join(filter(None, [*_sources(side.folder), os.environ.get("PYTHONPATH")]))
        # A failed test, or a file that cannot be collected, must not prevent the other tests from running.
        kept: dict[str, object] = {"continue_on_collection_errors": True, "maxfail": 0}
        # By default, a child does not start pytest-xdist workers, so these options turn them on.
        kept |= {"numprocesses": workers, "dist": "load"} if workers > 1 and find_spec("xdist") else {}
        child = Child([*ours, *side.arguments], side.folder, Job(tests, kept))
        environment = {"PYTHONPATH": path, fresh_process.CONFIRMS: None, fresh_process.MEMORY: json.dumps(memory)}
        told: set[int] = set()

        def say_how_many(tests: int) -> None:
            if tests not in told:
                say(f"{which}: {count(tests, 'test')} measured so far")
            told.add(tests)

        ran = fresh_process.results_of(child, 3600.0, environment, progress=say_how_many)
    if not ran.ended.collected and ran.ended.status not in COMPLETE and not _lacks_the_test(ran.ended, side):
        raise CompareError(f"the tests of {side.revision.name} could not run: {terminal(ran.ended.summary)}")
    return ran


def _lacks_the_test(ended: Ended, side: _Side) -> bool:
    """Return whether only one test was selected, such as ``test_a.py::test_new``, and its file does not contain it."""
    missing = re.search(r"^ERROR: not found: ", ended.output, re.MULTILINE)
    return bool(missing) and ended.status == USAGE_ERROR and len(paths_in(side.arguments, side.folder)) == 1


def _sources(folder: Path) -> Iterator[str]:
    """Yield the folders from which a revision's code is imported: the ``src`` folder of ``folder``, ``folder`` itself,
    and the same for the folders that contain it, up to the top of the checkout.
    """
    for place in (folder, *folder.parents):
        yield from (str(path) for path in (place / "src", place) if path.is_dir())
        if (place / ".git").exists():
            return


def _commit(revision: str) -> str:
    try:
        return _git("rev-parse", "--verify", f"{revision}^{{commit}}")
    except CompareError:
        raise CompareError(f"--against {revision}: git finds no such revision in this repository") from None


@contextmanager
def checkout(root: Path, revision: str) -> Iterator[Path]:
    """Create a temporary worktree for a revision, for use inside the ``with`` block."""
    with TemporaryFolder("torch-compile-revision-") as folder:
        tree = folder / "base"
        try:
            _git("-C", str(root), "worktree", "add", "--detach", str(tree), revision)
            yield tree
        finally:
            # git locks a worktree while it creates it, and removes a locked worktree only if forced twice. There may be
            # no worktree, because it could not be created.
            with suppress(CompareError):
                _git("-C", str(root), "worktree", "remove", "--force", "--force", str(tree))


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(["git", *arguments], capture_output=True, text=True, check=True)
    except FileNotFoundError:
        raise CompareError("git is not installed") from None
    except subprocess.CalledProcessError as error:
        first = (error.stderr.strip().splitlines() or ["no output"])[0]
        raise CompareError(f"git {arguments[0]} failed: {first}") from None
    return done.stdout.strip()
