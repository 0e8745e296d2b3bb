"""The eager run of a check's calls, with which another run of the calls is compared."""

from __future__ import annotations

from dataclasses import dataclass, field

from .._torch.sandbox import Sandbox
from ..numerics import CallRecord
from .leg import Leg
from .outcome import not_restorable
from .work import Work


@dataclass
class Eager:
    """The finished eager run, with its record of each call."""

    leg: Leg
    work: Work
    records: list[CallRecord] = field(default_factory=list)

    def not_restorable(self) -> list[str]:
        """List the target's objects and the last call's arguments whose state cannot be restored after a run."""
        return not_restorable(self.records[-1], self.work.calls[len(self.records) - 1])


def eager_run(work: Work, box: Sandbox, *, beyond_errors: bool = False) -> Eager:
    """Run the calls eagerly, up to the first unexpected exception. If ``beyond_errors`` is true, run all calls."""
    eager = Eager(Leg(work, holds_records=True), work)
    for index, call in enumerate(work.calls):
        # Only the call is watched: reading the state before and after it would take three times as long.
        eager.leg.mode = box.watching(eager.leg.world.names)
        eager.records.append(eager.leg.run(index))
        if eager.records[-1].error is not None and not call.exceptions and not beyond_errors:
            break
    return eager
