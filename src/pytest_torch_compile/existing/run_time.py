"""Measure how long the tests and the checks of a run take, and determine how much time the checks may take."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

# Some work remains after the last test, and the time that observing takes is an estimate. So the first fraction is
# subtracted from the time for the whole run, and the second fraction from the time that two additional runs without
# checks would take.
_ROOM_AT_THE_END = 0.05
_ROOM_FOR_OBSERVING = 0.2


def now() -> float:
    """Return the time on the clock that all time limits use."""
    return time.perf_counter()


@dataclass
class RunTime:
    """The duration of a run, and the time that its checks may take.

    The limit for a run with checks is ``seconds`` or three times the duration of a run without checks, whichever is
    longer. The checks alone take at most ``seconds``. All the time that the plugin uses while a test runs counts as
    time for checks.

    ``began`` is the time at which the run began, and ``progress`` is the fraction of tests that have begun.
    ``observing`` is the number of seconds by which observing calls has slowed the tests down, and ``on_checks`` is the
    number of seconds that the checks took.
    """

    seconds: float
    began: float = field(default_factory=now)
    observing: float = 0.0
    progress: float = 1.0
    on_checks: float = 0.0
    _before_tests: float | None = None

    def note_progress(self, progress: float) -> None:
        """Record that a test begins, and record the fraction of tests that have begun."""
        if self._before_tests is None:
            self._before_tests = now() - self.began
        self.progress = progress

    @contextmanager
    def spending(self) -> Iterator[None]:
        """Count the time inside the ``with`` block as spent on checks."""
        began = now()
        try:
            yield
        finally:
            self.on_checks += now() - began

    @property
    def spent(self) -> float:
        """The number of seconds that the plugin has used so far."""
        return self.on_checks + self.observing

    @property
    def plain(self) -> float:
        """The estimated duration in seconds of the whole run without checks, assuming that the remaining tests are like
        the tests so far.
        """
        before = self._before_tests or 0.0
        return before + (now() - self.began - self.spent - before) / self.progress

    @property
    def limit(self) -> float:
        """The number of seconds that all checks together may take."""
        plain = self.plain
        by_time = self.seconds * (1 - _ROOM_AT_THE_END) - plain
        by_plain_run = 2 * plain * (1 - _ROOM_FOR_OBSERVING)
        return min(self.seconds, max(by_time, by_plain_run))

    @property
    def left(self) -> float:
        """The number of seconds that remain for checks, assuming that observing the calls takes the same time per test
        as it has so far.
        """
        observing = self.observing * (1.0 - self.progress) / self.progress
        return max(0.0, self.limit - self.spent - observing)


def minutes(seconds: float) -> str:
    """Format a number of seconds as minutes and seconds, such as ``7:05``."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
