"""Compare the speed of this checkout with a revision: two checkouts, alternating fresh processes, one device."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from ..child import Child
from . import fresh_process as confirm
from .deciding import wording as message
from .deciding.comparison import SpeedComparison
from .deciding.confirmation import MIN_PROCESSES
from .deciding.verdict import Verdict
from .sample import Figures, SpeedSample

ROUNDS = 5
REMEDY = "compile again in every process, with --anew"
NO_REMEDY = "only over 10 %, in three rounds or more, can be"
Samples = Mapping[str, Sequence[SpeedSample]]
Say = Callable[[str], None]


class CompareError(RuntimeError):
    """The comparison could not be made; the message is one clear line."""


@dataclass(frozen=True)
class Compared:
    """One test on both sides."""

    test: str
    verdict: Verdict
    text: str


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the verdict of each test; exit status 1 for a regression, 2 when nothing could be compared."""
    parser = argparse.ArgumentParser(prog="pytest-torch-compile compare --against", description=__doc__)
    parser.add_argument("base", help="the revision to compare with, such as main or HEAD~1")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="fresh processes on each side")
    parser.add_argument("--anew", action="store_true", help="compile again in every process: for a change of the graph")
    options, rest = parser.parse_known_args(arguments)
    try:
        compared = compare_with(options.base, rest or ["."], rounds=options.rounds, anew=options.anew, say=print)
    except CompareError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for found in compared:
        print(found.text)
    return int(any(found.verdict.outcome == "regressed" for found in compared))


def compare_with(
    base: str, arguments: Sequence[str], *, rounds: int = ROUNDS, anew: bool = False, say: Say = print
) -> list[Compared]:
    """Run the speed tests of this checkout and of ``base`` in turn, and judge each test that both have.

    ``arguments`` go to pytest. Each side runs its own tests against its own sources: the checkout, and its ``src``
    folder if it has one, come first on the path. ``anew`` compiles in every process: a change of the graph needs that
    to be distinguished from the tuning of the compiler.

    Raises:
        CompareError: this is no git checkout, ``base`` is unknown, or no speed test ran.
    """
    root = Path(_git("rev-parse", "--show-toplevel"))
    revision = _git("rev-parse", "--verify", f"{base}^{{commit}}")
    with checkout(root, revision) as other, tempfile.TemporaryDirectory() as cache:
        sides = {"base": other, "here": root}
        taken = alternate(sides, arguments, rounds, Path(cache), say, anew)
    if not taken["here"]:
        raise CompareError("no test that uses compile_benchmark left any figures; see the output above")
    return judged(taken["base"], taken["here"], NO_REMEDY if anew else REMEDY)


def judged(base: Samples, here: Samples, remedy: str = REMEDY) -> list[Compared]:
    """The verdict of each test, the runs of ``base`` being its baseline; ``remedy`` as in ``SpeedComparison``."""
    return [_one(test, base.get(test, ()), here[test], len(here), remedy) for test in sorted(here)]


def _one(test: str, base: Sequence[SpeedSample], here: Sequence[SpeedSample], tests: int, remedy: str) -> Compared:
    if not base:
        missing = Verdict("no-baseline", reason="the base revision has no such test")
        return Compared(test, missing, f"{missing.outcome:12} {test}  {message.summary(missing)}")
    stored = [sample.figures() for sample in base]
    problems = sorted({problem for sample in (*base, *here) for problem in sample.problems})
    comparison, counted = _compared_with([sample.code for sample in base], stored, here, tests)
    comparison = replace(comparison, remedy=remedy)
    new = [sample.figures() for sample in counted]
    verdict = comparison.judge(new, problems, compilations=len({sample.code for sample in here}))
    lines = [f"{verdict.outcome:12} {test}  {message.summary(verdict)}".rstrip()]
    if left := len(here) - len(counted):
        lines.append(f"    {left} of {len(here)} processes ran other compiled code and do not count")
    if verdict.outcome in ("regressed", "improved"):
        details = "\n".join(
            filter(None, [message.table(comparison.runs, new), message.where(verdict, comparison.runs, new)])
        )
        lines += [f"    {line}" for line in details.splitlines()]
    return Compared(test, verdict, "\n".join(lines))


def _compared_with(
    codes: Sequence[str], stored: Sequence[Figures], here: Sequence[SpeedSample], tests: int
) -> tuple[SpeedComparison, list[SpeedSample]]:
    """What this side is compared with, and the samples of it that count: those of one code, if enough are, or all."""
    ran = [sample.code for sample in here]
    most = max(ran, key=lambda code: (code in codes, ran.count(code)))
    comparison = SpeedComparison.of(stored, codes, most, tests=tests, priors={})
    counted = [sample for index, sample in enumerate(here) if comparison.admits(sample.code, ran[:index])]
    if len(counted) >= min(MIN_PROCESSES, len(here)):
        return comparison, counted
    return SpeedComparison(stored, codes, tests, other=True), list(here)


def alternate(
    sides: Mapping[str, Path], arguments: Sequence[str], rounds: int, cache: Path, say: Say, anew: bool = False
) -> dict[str, dict[str, list[SpeedSample]]]:
    """Run both sides ``rounds`` times in fresh processes, the first to go changing each time.

    One compile cache serves both sides, so that what they have in common runs the same kernels, and a first run of
    each, not counted, fills it; with ``anew`` every run has an empty one.
    """
    taken: dict[str, dict[str, list[SpeedSample]]] = {side: {} for side in sides}
    for number in range(1 if anew else 0, rounds + 1):
        for side in list(sides) if number % 2 else list(sides)[::-1]:
            place = cache / f"{number}{side}" if anew else cache
            # As arguments, not as options of the job: the plugin of an older revision may know none.
            ours = ["--compile-perf=track", f"--compile-cache={place}", "--benchmark-only", "-q"]
            # Each side imports its own sources, also where another checkout is installed.
            sources = [str(path) for path in (sides[side] / "src", sides[side]) if path.is_dir()]
            path = os.pathsep.join(filter(None, [*sources, os.environ.get("PYTHONPATH")]))
            child = Child([*ours, *arguments], sides[side])
            samples, ended = confirm.run(child, 3600.0, {"PYTHONPATH": path, confirm.CONFIRMS: None})
            title = f"round {number}" if number else "warm-up"
            say(f"{title} {side}: {len(samples)} speed tests; {ended.last_line}")
            for test, sample in samples.items() if number else ():
                taken[side].setdefault(test, []).append(sample)
    return taken


@contextmanager
def checkout(root: Path, revision: str) -> Iterator[Path]:
    """A work tree of a revision, removed afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "base"
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
