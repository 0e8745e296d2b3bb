"""How often a change is confirmed: when a further compilation is asked, and what all of them say. Plain data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..sample import SpeedSample
from . import exact, times
from .constants import MAX_COMPILATIONS
from .exact import AllowMore, Difference
from .stored_runs import StoredTest
from .times import Verdict

# Asks for so many further compilations, and returns what it could get.
Another = Callable[[int], Sequence[SpeedSample]]


class NoFigures(RuntimeError):
    """A further process gave none; the message says why in one line."""


@dataclass(frozen=True)
class Decision:
    """What all compilations of a test say: of its times, and of what is counted.

    ``differences`` are certain; ``varying`` were seen in one compilation, and may be the compiler's tuning.
    """

    samples: list[SpeedSample]
    times: Verdict
    differences: tuple[Difference, ...] = ()
    varying: tuple[Difference, ...] = ()

    @property
    def worse(self) -> list[Difference]:
        """The differences that are a loss."""
        return [difference for difference in self.differences if difference.worse]

    @property
    def changed(self) -> bool:
        """Whether the stored runs are of something else than what runs now."""
        return bool(self.differences) or self.times.outcome in ("regressed", "improved")


def decide(
    stored: StoredTest,
    first: SpeedSample,
    another: Another | None,
    *,
    tests: int,
    allow_more: AllowMore | None = None,
    problems: Sequence[str] = (),
) -> Decision:
    """Ask for further compilations while the times look changed and are too few to say so.

    A count that the compiler's tuning may choose takes a second compilation too.

    Args:
        another: measures once more in fresh processes, raising NoFigures; None where nothing is to be confirmed.
        problems: why no time is judged, whatever is measured.
    """
    samples, reasons = [first], list(problems)
    while True:
        verdict = times.judge(stored.runs, [sample.run() for sample in samples], tests=tests)
        if why := [*reasons, *dict.fromkeys(problem for sample in samples for problem in sample.problems)]:
            verdict = Verdict("inconclusive", verdict.changes, "; ".join(why))
        shown = exact.differences(stored.counts, [sample.exact for sample in samples], allow_more)
        uncertain = not all(exact.is_certain(difference, len(samples)) for difference in shown)
        if another is None or not (verdict.undecided or uncertain) or len(samples) >= MAX_COMPILATIONS:
            break
        try:
            samples += another(MAX_COMPILATIONS - len(samples) if verdict.undecided else 1)
        except NoFigures as error:
            reasons.append(f"a change was seen, but {error}")
            another = None
    certain = tuple(difference for difference in shown if exact.is_certain(difference, len(samples)))
    names = {difference.quantity.name for difference in certain}
    at_first = exact.differences(stored.counts, [first.exact], allow_more)
    return Decision(samples, verdict, certain, tuple(d for d in at_first if d.quantity.name not in names))
