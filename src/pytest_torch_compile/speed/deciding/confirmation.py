"""Confirm a change in a speed test by compiling and measuring the test again, and combine the results."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace

from ..sample import SpeedSample
from . import exact, times
from .constants import MAX_COMPILATIONS
from .exact import AllowMore, Difference
from .stored_runs import StoredTest
from .times import METRICS, Verdict

# A function that compiles and measures a test again in fresh processes, and yields each process's measurements as soon
# as they are available. Its argument is the maximum number of processes.
Another = Callable[[int], Generator[SpeedSample, None, None]]


class NoFigures(RuntimeError):
    """Raised when an attempt to measure a test again yields no measurements; the message is one line."""


@dataclass(frozen=True)
class Decision:
    """The result of one speed test, from the times and counts of all its compilations.

    ``differences`` contains the counts that are confirmed to differ from the stored counts. ``varying`` contains the
    other counts that differed in the first compilation; these differences are not confirmed, and autotuning may have
    caused them. ``unconfirmed`` is the reason, if any, why no other compilation could be measured.
    """

    samples: list[SpeedSample]
    times: Verdict
    differences: tuple[Difference, ...] = ()
    varying: tuple[Difference, ...] = ()
    unconfirmed: str = ""

    @property
    def worse(self) -> list[Difference]:
        """The differences that are regressions."""
        return [difference for difference in self.differences if difference.worse]

    @property
    def changed(self) -> bool:
        """Whether the test's counts or times have changed since the stored runs."""
        return bool(self.differences) or self.times.outcome in ("regressed", "improved")


def decide(
    stored: StoredTest,
    first: SpeedSample,
    another: Another | None,
    *,
    tests: int,
    allow_more: AllowMore | None = None,
    gates: bool = False,
    recording: bool = False,
) -> Decision:
    """Decide the result of a speed test. As long as the times seem to have changed and there are too few compilations
    to be sure, request more compilations.

    A second compilation is also requested if a count that may depend on autotuning has changed.

    Args:
        another: a function that measures again in fresh processes and may raise NoFigures; None to skip the
            confirmation.
        tests: the number of speed tests in the suite.
        recording: whether runs are only recorded, because too few are stored to compare times. Then confirm only
            counts that have improved: without the earlier counts in the baseline, the improvement is kept.
        gates: whether a regression fails the test. Then stop as soon as it is certain whether the test fails: if a
            count is worse than in the baseline, do not confirm the times, and do not confirm improvements.
    """
    samples, unconfirmed = [first], ""
    further: Iterator[SpeedSample] = iter(())
    with ExitStack() as running:  # on exit, ends the processes whose compilations are no longer needed
        while True:
            verdict = _times(stored, samples, unconfirmed, tests=tests, gates=gates)
            shown = exact.differences(stored.counts, [sample.exact for sample in samples], allow_more)
            worse = gates and any(difference.worse for difference in shown)
            times_open = not (worse or recording) and any(c.effect > 0 or not gates for c in verdict.undecided)
            counts_open = any(
                (difference.worse if gates else not (difference.worse and recording))
                and not exact.is_certain(difference, len(samples))
                for difference in shown
            )
            if another is None or not (times_open or counts_open) or len(samples) >= MAX_COMPILATIONS:
                break
            try:
                if (sample := next(further, None)) is None:
                    wanted = MAX_COMPILATIONS - len(samples) if times_open else 1
                    further = running.enter_context(closing(another(wanted)))
                    sample = next(further)
                samples.append(sample)
            except NoFigures as error:
                unconfirmed, another = str(error), None
    faster = [METRICS[change.metric][0] for change in verdict.undecided if change.effect < 0]
    if gates and faster and verdict.outcome == "pass":
        reason = f"{' and '.join(faster)} may have improved: confirm with --compile-perf=track"
        verdict = replace(verdict, reason=reason)
    certain = tuple(difference for difference in shown if exact.is_certain(difference, len(samples)))
    names = {difference.quantity.name for difference in certain}
    at_first = exact.differences(stored.counts, [first.exact], allow_more)
    varying = tuple(difference for difference in at_first if difference.quantity.name not in names)
    return Decision(samples, verdict, certain, varying, unconfirmed)


def _times(stored: StoredTest, samples: Sequence[SpeedSample], unconfirmed: str, *, tests: int, gates: bool) -> Verdict:
    """Return the result for the times, or the reason why the times or the counts cannot be compared."""
    verdict = times.judge(stored.runs, [sample.run() for sample in samples], tests=tests, gates=gates)
    if not (stored.runs or stored.counts):
        return Verdict("no-baseline", reason=stored.missing)
    why = [f"a change was measured, but not confirmed: {unconfirmed}"] if unconfirmed else []
    why = [*stored.problems, *why, *dict.fromkeys(problem for sample in samples for problem in sample.problems)]
    if why:
        return Verdict("inconclusive", verdict.changes, "; ".join(why))
    if not stored.runs:
        return Verdict("no-baseline", reason=stored.missing)
    if not stored.counts and verdict.outcome != "regressed":
        uncounted = "counts were not compared, because structure.json has no counts of this test"
        return replace(verdict, outcome="inconclusive", reason="; ".join(filter(None, [verdict.reason, uncounted])))
    return verdict
