"""From the first process to all that a verdict takes. Plain data: neither torch nor pytest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

from ..sample import Figures
from .comparison import Held, akin_to
from .verdict import Verdict

# How many further processes may run a tuning that cannot confirm before the search for one that can is given up.
STRAYS = 2
OTHER_CODE = "a change was seen, but the fresh process ran other compiled code: is the compile cache kept?"


class NoFigures(RuntimeError):
    """A further process gave none; the message says why in one line."""


class Process(Protocol):
    """What one process measured: its figures, the code that it ran, and why it must not be gated."""

    @property
    def code(self) -> str:
        """The identity of the compiled code."""

    @property
    def problems(self) -> Sequence[str]:
        """One line each."""

    def figures(self) -> Figures:
        """What a baseline stores of it."""


P = TypeVar("P", bound=Process)


@dataclass(frozen=True)
class Settled(Generic[P]):
    """The processes that count, what they were held against, what stood in the way, and how many do not count."""

    held: Held
    counted: list[P]
    problems: list[str]
    strays: int = 0

    @property
    def figures(self) -> list[Figures]:
        """Those of the processes that count."""
        return [process.figures() for process in self.counted]

    def verdict(self) -> Verdict:
        """What they come to."""
        found = self.held.judge(self.figures, self.problems)
        if self.problems or not self.strays:
            return found
        tuned = (
            f"{self.strays} of {self.strays + len(self.counted)} processes, tuned as no stored one was, do not count"
        )
        return replace(found, reason="; ".join(filter(None, [found.reason, tuned])))


def settle(
    against: Callable[..., Held], first: P, another: Callable[[Held], P], problems: Sequence[str] = ()
) -> Settled[P]:
    """Ask for further processes while those that count are odd, and not enough to call a change.

    A process of the same source that was tuned as none that is stored confirms nothing, and another one is asked. Where
    it is the first that was, and odd, a further one takes its place. If that was tuned anew as well, or if none but the
    first's new tuning comes, the cache holds a tuning of its own, and the rule for other compilations is left.

    Args:
        against: ``Held.of`` with what is stored; takes the code that ran, and ``by_source``.
        another: measures once more in a fresh process; raises NoFigures.
        problems: why nothing is gated, whatever is measured.
    """
    held, counted, strays = against(first.code), [first], 0
    found = [*first.problems, *problems]
    while not found and held.needs_another([process.figures() for process in counted]):
        try:
            again = another(held)
        except NoFigures as error:
            found = [f"a change was seen, but {error}"]
            break
        if held.admits(again.code, [process.code for process in counted]):
            found = list(again.problems)
            if held.retuned:
                held, counted, strays = against(again.code), [again], 1
            else:
                counted.append(again)
        elif held.retuned or (strays and again.code == counted[0].code):
            held, counted, strays = against(first.code, by_source=False), [first], 0
        else:
            strays += 1
            found = [OTHER_CODE] if strays > STRAYS or not akin_to(again.code, first.code) else found
    return Settled(held, counted, found, strays)
