"""Record the calls to each target, and decide which calls are worth checking in the remaining time."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from .._torch.object_text import text_of_error
from ..legs.calls import Call
from .checking import Checked
from .copied_arguments import MOST_BYTES_IN_ALL, Copied, NotCopied
from .recipes import WrittenCall
from .run_time import RunTime
from .signature import AutomaticDynamic, Signature
from .trial import Line
from .verdicts import LIKE_OTHERS

# Rare calls have priority. The first call to a target is checked while time is left. A call that executes new lines of
# the package, or is the target's first call with gradients, is checked if enough time would remain for the first calls
# to later targets, estimated from the targets so far. Any other call is checked only if the time spent on checks is
# below a share of the time available up to this point in the run. For a target that has had n checks, the share is
# ``_SHARES[n]``; beyond the last entry, the share decreases with each further check.
_SHARES = (1.0, 0.7, 0.6, 0.5)
# An eager run determines whether a call computes anything and executes new lines. Many of these runs do not lead to a
# check. Together, the runs that lead to no check may take at most this share of the time available so far, unless there
# is time to spare; the first few runs of each target are always allowed.
_SHARE_IN_VAIN = 0.15
# The expected duration of the first check in a test run, in seconds. A later check is expected to take as long as the
# average check so far.
_FIRST_CHECK = 10.0
# The maximum number of attempts to check calls of the same family (calls that differ only in sizes). A call that cannot
# be checked in one test may be checkable in another test.
MOST_TRIES = 3
OUT_OF_TIME = "the time limit was reached (raise it with --compile-existing-minutes)"
KEPT = (
    "the call executes lines or computes gradients that no earlier check of this target covers, but the remaining time "
    "is reserved for other targets (see --compile-existing-minutes)"
)
NOT_LOOKED_AT = "other targets have priority (see --compile-existing-minutes)"
TOO_MANY_SHAPES = "there are more shapes than --compile-existing-shapes allows"


@dataclass
class Family:
    """The calls to one target that differ from each other only in sizes.

    ``confirmed`` is true after the plugin has checked a call for which torch can reuse an existing graph although the
    sizes differ. The plugin checks one call that can reuse a graph, because Python code may depend on sizes.
    """

    dynamic: AutomaticDynamic = field(default_factory=AutomaticDynamic)
    earlier: list[Copied] = field(default_factory=list)
    shapes: int = 0
    tries: int = 0
    confirmed: bool = False
    seen: set[tuple[int, ...]] = field(default_factory=set)
    written: list[WrittenCall] = field(default_factory=list)
    skipped: dict[tuple[int, ...], list[str]] = field(default_factory=dict)  # the reasons, by sizes


@dataclass
class Noticed:
    """The information about one target: the number of calls from outside the package, the groups of calls that differ
    only in sizes (families), and the checks.
    """

    calls: int = 0
    checks: int = 0
    lines: set[Line] = field(default_factory=set)
    trained: bool = False
    in_vain: int = 0
    too_long: str = ""  # the reason why no further call is checked, if one check took too long; otherwise empty
    families: dict[Any, Family] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)


@dataclass
class Ledger:
    """All targets in a run, the calls to each target, and the checks of each target."""

    time: RunTime
    most_shapes: int
    targets: dict[str, Noticed] = field(default_factory=dict)
    results: list[Checked] = field(default_factory=list)
    _in_vain: float = 0.0
    _on_checks: float = 0.0
    _on_first_checks: float = 0.0
    _checks: int = 0
    _copied: int = 0

    @property
    def usual(self) -> float:
        """The expected duration of a check in seconds."""
        return self._on_checks / self._checks if self._checks else _FIRST_CHECK

    @property
    def is_out_of_time(self) -> bool:
        """Whether another check would exceed the time limit. The first attempt to check a call in a run may exceed the
        limit.
        """
        has_tried = bool(self._checks or self._in_vain)
        return has_tried and self.time.left <= (self.usual if self._checks else 0.0)

    def wants(self, name: str, seen: Signature) -> Family | None:
        """Count a call, and return its family if the call is worth checking. Return None if the call is like earlier
        calls, or if its check would exceed a limit.
        """
        target = self.targets.setdefault(name, Noticed())
        target.calls += 1
        family = target.families.setdefault(seen.family, Family())
        if family.tries >= MOST_TRIES or seen.sizes in family.seen:
            return None
        if family.dynamic.covers(seen.sizes) and (family.shapes < 2 or family.confirmed):
            return None
        if target.too_long:
            self._leave_out(target, family, seen, target.too_long)
            return None
        if self.is_out_of_time:
            self._leave_out(target, family, seen, OUT_OF_TIME)
            return None
        if family.shapes >= self.most_shapes:
            self._leave_out(target, family, seen, TOO_MANY_SHAPES)
            return None
        had_its_chance = target.checks or target.in_vain >= MOST_TRIES
        if had_its_chance and not self._may_look_further:
            self._leave_out(target, family, seen, NOT_LOOKED_AT)
            return None
        return family

    def why_not(self, name: str, lines: set[Line], trains: bool) -> str:
        """Return the reason not to check a call now, or an empty string if the call should be checked."""
        target = self.targets[name]
        is_new = not lines <= target.lines or (trains and not target.trained)
        checks = target.checks
        # A call that covers nothing new is checked only if all checks so far took less than this share of the time.
        share = _SHARES[checks] if checks < len(_SHARES) else _SHARES[-1] * len(_SHARES) / (checks + 1)
        due = not checks or self.time.spent < self.time.limit * self.time.progress * share
        if not due and not (is_new and self.time.left > self._kept_for_others):
            return KEPT if is_new else LIKE_OTHERS
        target.lines |= lines
        target.trained = target.trained or trains
        return ""

    @property
    def _may_look_further(self) -> bool:
        """Whether a target that has already been run in eager may be run again. Another eager run is allowed while the
        eager runs that led to no check have taken less than a fixed share of the time. Another eager run is also
        allowed if there is time to spare: the checks so far have taken less time than was available, and the remaining
        time is more than twice the time that other targets need.
        """
        available = self.time.limit * self.time.progress
        spare = self.time.spent < available and self.time.left > 2 * self._kept_for_others
        return spare or self._in_vain <= available * _SHARE_IN_VAIN

    @property
    def _kept_for_others(self) -> float:
        """The estimated number of seconds needed to check the first calls to other targets, assuming that the rest of
        the run is like the run so far.
        """
        progress = self.time.progress
        return self._on_first_checks * (1.0 - progress) / progress

    def sequence(self, family: Family, seen: Signature) -> tuple[list[Call], int]:
        """Return new copies of a family's earlier calls, and the number of recompiles needed to run the earlier calls
        and then the call with the signature ``seen``. Return no calls if some of the earlier calls were not copied.
        """
        earlier = [copied.call() for copied in family.earlier]
        if len(earlier) < family.shapes:  # not all earlier calls were copied, so the number of recompiles is unknown
            return [], 0
        family.confirmed = family.confirmed or family.dynamic.covers(seen.sizes)
        with_next = deepcopy(family.dynamic)
        with_next.add(seen.sizes)
        return earlier, with_next.recompiles

    def note(self, family: Family, done: Checked, args: Any, kwargs: Mapping[str, Any], seen: Signature) -> None:
        """Record the result of a check."""
        if done.took_too_long:
            self.targets[done.target].too_long = done.refused
        if done.report is None:
            self._in_vain += done.seconds
            self.targets[done.target].in_vain += 1
        else:
            self._on_checks += done.seconds
            self._checks += 1
        if done.report is not None and not self.targets[done.target].checks:
            self._on_first_checks += done.seconds
        if done.passed_over == KEPT:  # there may be time for this target in another test
            family.tries += 1
        elif not done.refused:
            family.seen.add(seen.sizes)
        if done.passed_over:
            self._leave_out(self.targets[done.target], family, seen, done.passed_over)
            return
        if not done.computes:
            family.tries = MOST_TRIES
            self.results.append(done)
            return
        if done.refused:
            family.tries += 1
        else:
            self.targets[done.target].checks += 1
            self._no_longer_left_out(self.targets[done.target], family, seen)
            family.shapes += 1
            family.dynamic.add(seen.sizes)
            self._keep(family, args, kwargs)
        self.results.append(done)

    def fail(self, name: str, test: str, error: Exception) -> None:
        """Record that the plugin itself failed before it could check a call."""
        self.targets.setdefault(name, Noticed())
        said = text_of_error(error)
        self.results.append(Checked(name, test, refused=f"the plugin failed: {said}"))

    def _keep(self, family: Family, args: Any, kwargs: Mapping[str, Any]) -> None:
        try:
            copied = Copied.of(args, kwargs)
        except NotCopied:
            return
        if self._copied + copied.size <= MOST_BYTES_IN_ALL:
            self._copied += copied.size
            family.earlier.append(copied)

    def _leave_out(self, target: Noticed, family: Family, seen: Signature, why: str) -> None:
        target.left_out[why] = target.left_out.get(why, 0) + 1
        family.skipped.setdefault(seen.sizes, []).append(why)

    def _no_longer_left_out(self, target: Noticed, family: Family, seen: Signature) -> None:
        """Forget that calls with these sizes were skipped, because a call with the same sizes has now been checked."""
        for why in family.skipped.pop(seen.sizes, []):
            target.left_out[why] -= 1
            if not target.left_out[why]:
                del target.left_out[why]
