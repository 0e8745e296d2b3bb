"""How often a change is confirmed: in how many fresh processes, when another one is asked, and which of them count.

Plain data: neither torch nor pytest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..sample import Figures, SpeedSample, source_of

if TYPE_CHECKING:  # both use the constants below
    from .comparison import SpeedComparison
    from .verdict import Verdict

# A change is called from three processes on, the first one counted; where they scatter, up to eight are asked.
MIN_PROCESSES, MAX_PROCESSES = 3, 8
# Another process is asked where a change would be rarer than this by chance. A gain has to be rarer: it fails nothing.
P_OF_A_LOSS, P_OF_A_GAIN = 0.05, 0.01
# How many further processes may run a tuning that cannot confirm before the search for one that can is given up.
MAX_UNCOUNTED = 2
OTHER_CODE = "a change was seen, but the fresh process ran other compiled code: is the compile cache kept?"


class NoFigures(RuntimeError):
    """A further process gave none; the message says why in one line."""


@dataclass(frozen=True)
class Confirmation:
    """The processes that count, what they are compared with, why they prove nothing, and how many do not count."""

    comparison: SpeedComparison
    counted: list[SpeedSample]
    problems: list[str]
    uncounted: int = 0

    @property
    def figures(self) -> list[Figures]:
        """Those of the processes that count."""
        return [process.figures() for process in self.counted]

    def verdict(self) -> Verdict:
        """The verdict on all of them."""
        verdict = self.comparison.judge(self.figures, self.problems)
        if self.problems or not self.uncounted:
            return verdict
        processes = self.uncounted + len(self.counted)
        note = f"{self.uncounted} of {processes} processes do not count: no stored run has their tuning"
        return replace(verdict, reason="; ".join(filter(None, [verdict.reason, note])))


def confirm(
    compare: Callable[..., SpeedComparison],
    first: SpeedSample,
    another: Callable[[SpeedComparison], SpeedSample],
    problems: Sequence[str] = (),
) -> Confirmation:
    """Ask for further processes while those that count look changed, and are too few to say so.

    A process of the same source with a tuning that no stored run has confirms nothing, and another one is asked. Where
    the first is such a process, a further one takes its place. If that has a new tuning as well, or if all have the
    first's, the compile cache holds tunings of its own, and the rule for other compilations is left.

    Args:
        compare: ``SpeedComparison.of`` with what is stored; takes the code that ran, and ``by_source``.
        another: measures once more in a fresh process; raises NoFigures.
        problems: why nothing is gated, whatever is measured.
    """
    comparison, counted, uncounted = compare(first.code), [first], 0
    reasons = [*first.problems, *problems]
    while not reasons and comparison.needs_another([process.figures() for process in counted]):
        try:
            further = another(comparison)
        except NoFigures as error:
            reasons = [f"a change was seen, but {error}"]
            break
        if comparison.admits(further.code, [process.code for process in counted]):
            reasons = list(further.problems)
            if comparison.retuned:
                comparison, counted, uncounted = compare(further.code), [further], 1
            else:
                counted.append(further)
        elif comparison.retuned or (uncounted and further.code == counted[0].code):
            comparison, counted, uncounted = compare(first.code, by_source=False), [first], 0
        else:
            uncounted += 1
            if uncounted > MAX_UNCOUNTED or source_of(further.code) != source_of(first.code):
                reasons = [OTHER_CODE]
    return Confirmation(comparison, counted, reasons, uncounted)
