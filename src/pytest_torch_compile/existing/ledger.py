"""Records the calls of each target, decides which calls are still worth checking, and tracks the remaining time."""

from __future__ import annotations

import time
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from ..legs.calls import Call
from .checking import Checked, Line
from .copies import MOST_BYTES_IN_ALL, Copied, NotCopied
from .signature import AutomaticDynamic, Signature

# Rare calls have priority. The first call of a target is always checked. A call that executes new lines of the package,
# or is the first call with gradients, is checked if the remaining time is still sufficient for the first calls of later
# targets, estimated from the targets so far. Any other call is checked only if the time spent is less than this share
# of the time available up to this point of the run. The index is the number of the target's checks so far; after the
# last entry, the share decreases with each further check.
_SHARES = (1.0, 0.7, 0.6, 0.5)
# The number of times that a check is attempted, because a call that cannot be checked in one test may be checkable in
# another.
MOST_TRIES = 3
OUT_OF_TIME = "the time limit was reached (raise it with --compile-existing-minutes)"
LIKE_OTHERS = "the call executes no new lines, and other targets have priority"
KEPT = (
    "the call executes new lines, but the remaining time is reserved for other targets (see --compile-existing-minutes)"
)
TOO_MANY_SHAPES = "there are more shapes than --compile-existing-shapes allows"


@dataclass
class Family:
    """The calls of one target that differ only in sizes.

    ``confirmed``: sizes that an existing graph covers were also checked, because code may depend on sizes.
    """

    dynamic: AutomaticDynamic = field(default_factory=AutomaticDynamic)
    earlier: list[Copied] = field(default_factory=list)
    shapes: int = 0
    tries: int = 0
    confirmed: bool = False
    seen: set[tuple[int, ...]] = field(default_factory=set)
    written: list[str] = field(default_factory=list)


@dataclass
class Noticed:
    """One target: the number of calls from outside the package, its families and its checks."""

    calls: int = 0
    checks: int = 0
    lines: set[Line] = field(default_factory=set)
    trained: bool = False
    families: dict[Any, Family] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)


@dataclass
class Ledger:
    """All targets of a run."""

    seconds: float
    most_shapes: int
    targets: dict[str, Noticed] = field(default_factory=dict)
    results: list[Checked] = field(default_factory=list)
    spent: float = 0.0
    progress: float = 1.0  # the fraction of tests that have started
    _on_first_checks: float = 0.0
    _copied: int = 0

    @property
    def left(self) -> float:
        """The seconds that remain for checks."""
        return max(0.0, self.seconds - self.spent)

    def wants(self, name: str, seen: Signature) -> Family | None:
        """The family of a call that is worth checking; None if the call is like earlier calls or exceeds a limit."""
        target = self.targets.setdefault(name, Noticed())
        target.calls += 1
        family = target.families.setdefault(seen.family, Family())
        if family.tries >= MOST_TRIES or seen.sizes in family.seen:
            return None
        if family.dynamic.covers(seen.sizes) and (family.shapes < 2 or family.confirmed):
            return None
        if self.spent >= self.seconds:
            self._leave_out(target, OUT_OF_TIME)
            return None
        if family.shapes >= self.most_shapes:
            self._leave_out(target, TOO_MANY_SHAPES)
            return None
        return family

    def why_not(self, name: str, lines: set[Line], trains: bool) -> str:
        """The reason why a call is not checked now; empty if it is checked."""
        target = self.targets[name]
        is_new = not lines <= target.lines or (trains and not target.trained)
        due = not target.checks or self.spent < self._allowed(target.checks)
        if not due and not (is_new and self.left > self._kept_for_others):
            return KEPT if is_new else LIKE_OTHERS
        target.lines |= lines
        target.trained = target.trained or trains
        return ""

    @property
    def _kept_for_others(self) -> float:
        """The estimated seconds needed for the first calls of other targets, if the rest of the run is like the run so
        far.
        """
        return self._on_first_checks * (1.0 - self.progress) / self.progress

    def _allowed(self, checks: int) -> float:
        """The time limit, in seconds, for giving another check to a target that already has this many checks."""
        share = _SHARES[checks] if checks < len(_SHARES) else _SHARES[-1] * len(_SHARES) / (checks + 1)
        return self.seconds * self.progress * share

    def sequence(self, family: Family, seen: Signature) -> tuple[list[Call], int]:
        """The earlier calls of a family, and the recompiles that their sizes and the sizes of the next call require."""
        earlier = [copied.call() for copied in family.earlier]
        if len(earlier) < family.shapes:  # an earlier call could not be copied, so the recompiles are unknown
            return [], 0
        family.confirmed = family.confirmed or family.dynamic.covers(seen.sizes)
        with_next = deepcopy(family.dynamic)
        with_next.add(seen.sizes)
        return earlier, with_next.recompiles

    def note(self, family: Family, done: Checked, args: Any, kwargs: Mapping[str, Any], seen: Signature) -> None:
        """Record the result of a check."""
        self.spent += done.seconds
        if done.report is not None and not self.targets[done.target].checks:
            self._on_first_checks += done.seconds
        if done.passed_over == KEPT:  # another test may have time for it
            family.tries += 1
        elif not done.refused:
            family.seen.add(seen.sizes)
        if done.passed_over:
            self._leave_out(self.targets[done.target], done.passed_over)
            return
        if not done.computes:
            family.tries = MOST_TRIES
            self.results.append(done)
            return
        if done.refused:
            family.tries += 1
        else:
            self.targets[done.target].checks += 1
            family.shapes += 1
            family.dynamic.add(seen.sizes)
            self._keep(family, args, kwargs)
        self.results.append(done)

    def fail(self, name: str, test: str, error: Exception) -> None:
        """Record that the plugin failed before it could check a call."""
        self.targets.setdefault(name, Noticed())
        self.results.append(Checked(name, test, refused=f"the plugin failed: {type(error).__name__}: {error}"))

    def _keep(self, family: Family, args: Any, kwargs: Mapping[str, Any]) -> None:
        try:
            copied = Copied.of(args, kwargs)
        except NotCopied:
            return
        if self._copied + copied.size <= MOST_BYTES_IN_ALL:
            self._copied += copied.size
            family.earlier.append(copied)

    def _leave_out(self, target: Noticed, why: str) -> None:
        target.left_out[why] = target.left_out.get(why, 0) + 1


def minutes(seconds: float) -> str:
    """The time in the form ``7:05``."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def now() -> float:
    """The clock for all time limits."""
    return time.monotonic()
