"""The results of one revision's speed tests, and the reasons why a test cannot be compared with the other revision."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ..child import Ended
from ..report.failure_text import cut
from ..report.safe_text import terminal
from .deciding.exact import AllowMore
from .fresh_process import Left, Ran
from .sample import SpeedSample

_LONGEST = 200  # an error message can contain the repr of an object


@dataclass
class Revision:
    """The results of all runs of one revision's tests. ``name`` describes the revision in messages.

    ``samples`` and ``plans`` contain the measurements and the planned counts of each test, and ``allowed`` the limits
    that tests set with ``allow_more``. ``failed`` maps each test that failed, and each file that could not be
    collected, to the first line of the error. ``busy`` maps each test that found its device busy to the reason.
    """

    name: str
    samples: dict[str, list[SpeedSample]] = field(default_factory=dict)
    plans: dict[str, Left] = field(default_factory=dict)
    allowed: dict[str, AllowMore] = field(default_factory=dict)
    collected: set[str] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)
    busy: dict[str, str] = field(default_factory=dict)

    def add(self, ran: Ran) -> None:
        """Add the results of one run."""
        for test, sample in ran.samples.items():
            self.samples.setdefault(test, []).append(sample)
        self.plans |= ran.plans
        self.allowed |= ran.allowed
        self.collected |= {*ran.ended.collected}
        self.failed |= _failures(ran.ended)
        self.busy |= _busy(ran.ended)

    @property
    def measured(self) -> set[str]:
        """The tests with measurements or planned counts."""
        return {*self.samples, *self.plans}

    def failure(self, test: str) -> str:
        """Return the first line of the error, if the test failed or its file could not be collected."""
        own = self.failed.get(test, "")
        return own or next((why for place, why in self.failed.items() if _is_within(test, place)), "")


@dataclass(frozen=True)
class NotCompared:
    """A test, or a file that could not be collected, without a comparison, and the reason.

    The outcome is ``failed`` if this checkout broke the test, ``no-baseline`` if the test is new in this checkout,
    ``removed`` if the test no longer exists in this checkout, and ``not-compared`` if a revision could not measure the
    test, and this checkout may not be the cause.
    """

    test: str
    outcome: Literal["failed", "no-baseline", "removed", "not-compared"]
    reason: str


def not_compared(base: Revision, here: Revision) -> list[NotCompared]:
    """Return the tests that are not compared, and the tests that only this checkout fails."""
    tests = {*base.measured, *here.measured, *here.failed}
    tests -= {place for place in here.failed if any(_is_within(test, place) for test in tests)}
    rows = (_not_compared(test, base, here) for test in sorted(tests))
    return [row for row in rows if row]


def _not_compared(test: str, base: Revision, here: Revision) -> NotCompared | None:
    before, now = base.failure(test), here.failure(test)
    if now and not before:
        return NotCompared(test, "failed", f"failed in {here.name}: {now}")
    if test in base.measured & here.measured:
        return None
    if now:
        return NotCompared(test, "not-compared", f"failed on both revisions: {now}")
    if test in here.measured:
        if why := f"failed in {base.name}: {before}" if before else base.busy.get(test):
            return NotCompared(test, "not-compared", why)
        skipped = f"in {base.name}, the test was skipped or was not a speed test"
        return NotCompared(test, "no-baseline", skipped if test in base.collected else f"new in {here.name}")
    if why := here.busy.get(test):
        return NotCompared(test, "not-compared", why)
    skipped = f"in {here.name}, the test is skipped or is not a speed test"
    return NotCompared(test, "removed", skipped if test in here.collected else f"removed in {here.name}")


def paths_in(arguments: Iterable[str], folder: Path) -> set[str]:
    """Return the arguments that select files or folders which exist in ``folder``."""
    return {
        argument
        for argument in arguments
        if not argument.startswith("-") and os.path.exists(folder / argument.partition("::")[0])
    }


def _is_within(test: str, place: str) -> bool:
    """Return whether the test is in this class, file or folder."""
    return test.startswith((f"{place}::", f"{place}/"))


def _failures(ended: Ended) -> dict[str, str]:
    """Return the first line of the error of each test that failed, and of each file that could not be collected. If the
    process ended too early, the tests that it did not finish count as failed.
    """
    failed = {
        str(report["nodeid"]): _first_line(report["longrepr"])
        for report in reversed(ended.results)  # the first error of a test is the cause of the others
        if report["outcome"] == "failed"
    }
    over = {report["nodeid"] for report in ended.results if report.get("when") == "teardown"}
    status = f"pytest ended with status {ended.status} before the test ended"
    why = ended.summary if ended.status is None else status
    return {test: why for test in ended.collected if test not in over} | failed


def _first_line(shown: Any) -> str:
    """Return the first line of an error, from pytest's serialized report. pytest marks the lines of an error with ``E``
    if there is a traceback before them.
    """
    crash = shown.get("reprcrash") if isinstance(shown, Mapping) else None
    lines = [line for line in str(crash["message"] if crash else shown).splitlines() if line.strip()]
    marked = [line[1:] for line in lines if line.startswith("E  ")]
    first = marked[-1:] or lines[:1] or ["no message"]
    return cut(terminal(first[0]).strip(), _LONGEST)


def _busy(ended: Ended) -> dict[str, str]:
    """Return the reason of each test that was not measured because its device was busy."""
    timings: Sequence[Mapping[str, Any]] = [
        timing for report in ended.results for timing in (report.get("torch_compile") or {}).get("timings", ())
    ]
    return {timing["test"]: timing["summary"] for timing in timings if "sample" not in timing}
