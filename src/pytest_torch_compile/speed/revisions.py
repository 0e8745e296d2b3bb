"""Compare the speed of this checkout with the speed of another revision. The speed tests run on the two revisions
alternately, each time with an empty compile cache. Each run uses all GPUs in parallel.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from ..baselines import structure
from ..child import Child, Job
from ..disk import TemporaryFolder
from ..report.failure_text import count
from . import fresh_process, gpus
from .deciding import exact, planned, times, wording
from .deciding.confirmation import Decision
from .deciding.constants import MAX_COMPILATIONS
from .deciding.times import Verdict
from .measuring.turns import needed_by_test
from .sample import SpeedSample

# The number of rounds before a test can be excluded from later rounds. In each round, the tests run once on each
# revision.
MIN_ROUNDS = 2
Samples = dict[str, list[SpeedSample]]
Say = Callable[[str], None]


class CompareError(RuntimeError):
    """Raised when the comparison is not possible; the message is one line."""


@dataclass(frozen=True)
class Compared:
    """One test's results on both revisions; ``base`` is empty if the base revision does not contain the test."""

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
    """One test's planned counts on both revisions: counts for generated code that was not run. ``change`` is None if
    only one revision has planned counts; in this case, ``summary`` states which revision has none. ``places`` maps this
    checkout's launches and graph breaks to lines of code.
    """

    test: str
    change: planned.PlannedChange | None
    summary: str
    places: Mapping[str, str] = field(default_factory=dict)

    @property
    def outcome(self) -> str:
        """The outcome: ``regressed`` if a planned count is worse; ``no-baseline`` if only one revision has counts."""
        return self.change.outcome if self.change else "no-baseline"


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare this checkout with another revision, and print each test's result. Return 1 if a test regressed, 2 if the
    comparison was not possible, and 0 otherwise.
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
        compared, plans = compare_with(options.against, rest, rounds=options.rounds, say=print)
    except CompareError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(*(report(compared) if compared else []), *report_plans(plans), sep="\n")
    outcomes = [*(one.outcome for one in compared), *(one.outcome for one in plans)]
    return int("regressed" in outcomes)


def compare_with(
    base: str, arguments: Sequence[str], *, rounds: int = MAX_COMPILATIONS, say: Say = print
) -> tuple[list[Compared], list[ComparedPlan]]:
    """Run the speed tests of this checkout and of the revision ``base`` alternately, and compare each test that exists
    in both.

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
            current folder, or no speed test ran.
    """
    if rounds < 1:
        raise CompareError(f"--rounds is {rounds}: it must be at least 1")
    root, here = Path(_git("rev-parse", "--show-toplevel")), _git("rev-parse", "--show-prefix")
    revision = _commit(base)
    taken: dict[str, Samples] = {"base": {}, "here": {}}
    plans: dict[str, dict[str, fresh_process.Left]] = {"base": {}, "here": {}}
    needed = {
        test: needed_by_test(memory) for test, memory in structure.memory_of_tests(root / here / "baselines").items()
    }
    with checkout(root, revision) as other:
        sides = {"base": other / here, "here": root / here}
        if not sides["base"].is_dir():
            raise CompareError(f"revision {base} does not contain the current folder, {here.rstrip('/')}")
        open_tests: list[str] | None = None
        for number in range(rounds):
            for side in ("base", "here") if number % 2 else ("here", "base"):
                which = f"round {number + 1} of up to {rounds}, {side}"
                say(f"{which}: {'all tests' if open_tests is None else f'{len(open_tests)} undecided'}")
                samples, summary = _run(sides[side], arguments, open_tests, plans[side], needed, say, which)
                say(f"{which}: {count(len(samples) or len(plans[side]), 'speed test')}; {summary}")
                needed |= {test: needed_by_test(one.memory.compiled) for test, one in samples.items() if one.memory}
                for test, sample in samples.items():
                    taken[side].setdefault(test, []).append(sample)
            if not any((*taken.values(), *plans.values())):
                raise CompareError(f"no test that uses compile_benchmark returned measurements: {summary}")
            compared = judged(taken["base"], taken["here"])
            if plans["here"] and not compared:
                break
            # A count that is worse already decides the result of a test.
            open_tests = [one.test for one in compared if one.decision.times.undecided and not one.decision.worse]
            if not open_tests and number + 1 >= MIN_ROUNDS:
                break
            open_tests = open_tests if number + 1 >= MIN_ROUNDS else None
    if not taken["here"] and not plans["here"]:
        raise CompareError("no test that uses compile_benchmark returned measurements in this checkout")
    return compared, compared_plans(plans["base"], plans["here"])


def compared_plans(
    base: Mapping[str, fresh_process.Left], here: Mapping[str, fresh_process.Left]
) -> list[ComparedPlan]:
    """Compare the planned counts (counts for generated code that was not run) of each test."""
    compared = []
    for test in sorted({*base, *here}):
        if test not in here:
            compared.append(
                ComparedPlan(test, None, "no planned counts in this checkout: the test was removed or failed")
            )
        elif test not in base:
            compared.append(
                ComparedPlan(
                    test,
                    None,
                    "the base revision has no planned counts: the test is new, or it failed on that revision",
                )
            )
        else:
            change = planned.compare(base[test]["entry"], here[test]["entry"])
            compared.append(ComparedPlan(test, change, change.summary, here[test]["places"]))
    return compared


def judged(base: Mapping[str, Sequence[SpeedSample]], here: Mapping[str, Sequence[SpeedSample]]) -> list[Compared]:
    """Compare the measurements of each test on both revisions, and return the results."""
    return [_one(test, base.get(test, ()), here[test], len(here)) for test in sorted(here)]


def _one(test: str, base: Sequence[SpeedSample], here: Sequence[SpeedSample], tests: int) -> Compared:
    if not base:
        return Compared(test, base, Decision(list(here), Verdict("no-baseline", reason="new in this revision")))
    verdict = times.compare([sample.run() for sample in base], [sample.run() for sample in here], tests=tests)
    if problems := sorted({problem for sample in (*base, *here) for problem in sample.problems}):
        verdict = Verdict("inconclusive", verdict.changes, "; ".join(problems))
    before = exact.merged({}, [sample.exact for sample in base], changed=True)
    return Compared(
        test, base, Decision(list(here), verdict, tuple(exact.differences(before, [sample.exact for sample in here])))
    )


def report(compared: Iterable[Compared]) -> list[str]:
    """Return the lines of the report: first the counts (such as the number of kernels) that differ between the
    revisions, and then the changes in each test's times, with confidence intervals.
    """
    compared = list(compared)
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
        lines.append(f"  {one.outcome:12} {one.test}  {one.summary}".rstrip())
        lines += [f"      {line}" for line in (one.change.lines(one.places) if one.change else ())]
    return lines


def _run(
    folder: Path,
    arguments: Sequence[str],
    tests: Sequence[str] | None,
    plans: dict[str, fresh_process.Left],
    memory: Mapping[str, int],
    say: Say,
    which: str,
) -> tuple[dict[str, SpeedSample], str]:
    """Run one revision's speed tests once, with an empty compile cache and with pytest-xdist workers that compile at
    the same time. ``memory`` maps tests to the bytes that they need on a GPU. Planned counts are added to ``plans``.
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
        path = os.pathsep.join(filter(None, [*_sources(folder), os.environ.get("PYTHONPATH")]))
        # By default, a child does not start pytest-xdist workers, so these options turn them on.
        kept = {"numprocesses": workers, "dist": "load"} if workers > 1 and find_spec("xdist") else {}
        child = Child([*ours, *arguments], folder, Job(tests, kept))
        environment = {"PYTHONPATH": path, fresh_process.CONFIRMS: None, fresh_process.MEMORY: json.dumps(memory)}
        told: set[int] = set()

        def say_how_many(tests: int) -> None:
            if tests not in told:
                say(f"{which}: {count(tests, 'test')} measured so far")
            told.add(tests)

        samples, ended = fresh_process.run(
            child,
            3600.0,
            environment,
            plans=plans,
            progress=say_how_many,
        )
    return samples, ended.summary


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
        _git("-C", str(root), "worktree", "add", "--detach", str(tree), revision)
        try:
            yield tree
        finally:
            _git("-C", str(root), "worktree", "remove", "--force", str(tree))


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(["git", *arguments], capture_output=True, text=True, check=True)
    except FileNotFoundError:
        raise CompareError("git is not installed") from None
    except subprocess.CalledProcessError as error:
        first = (error.stderr.strip().splitlines() or ["no output"])[0]
        raise CompareError(f"git {arguments[0]} failed: {first}") from None
    return done.stdout.strip()
