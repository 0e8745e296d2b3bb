"""A run of the calls that starts only when its records are needed."""

from __future__ import annotations

from collections.abc import Callable

from ..findings import CompileUsageError
from ..numerics import CallRecord
from .leg import Leg


class LazyLeg:
    """A run of the calls that starts only on demand, for example the fp64 reference run or a second eager run.

    ``why_not`` is the error that made the run impossible, or None.
    """

    def __init__(self, build: Callable[[], Leg]) -> None:
        self._build = build
        self._leg: Leg | None = None
        self._done = 0
        self._record: CallRecord | None = None
        self.why_not: BaseException | None = None

    def record(self, index: int) -> CallRecord | None:
        """Run the calls up to and including call ``index``, and return the record of call ``index``. Return None if a
        call fails.
        """
        while self.why_not is None and self._done <= index:
            self._advance()
        return None if self.why_not is not None else self._record

    def _advance(self) -> None:
        try:
            self._leg = self._leg or self._build()
            self._record = self._leg.run(self._done)
        except (RuntimeError, TypeError, CompileUsageError) as error:
            self.why_not = error
            return
        self._done += 1
        raised = self._record.error
        if raised is not None and not isinstance(raised, self._record.exceptions):
            self.why_not = raised
