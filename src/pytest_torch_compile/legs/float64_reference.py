"""The fp64 leg: eager in double precision, with the random numbers that the eager leg draws."""

from __future__ import annotations

import torch

from .._torch.randomness import Recording, Replaying, Tape
from ..numerics import CallRecord
from .leg import Leg, Work


class ReferenceLeg(Leg):
    """Runs the calls in fp64. Where eager draws random numbers, a twin in eager's dtypes runs first and hands them on.

    A call whose random numbers cannot be handed on (dropout inside a fused attention kernel) has an error in its
    record, so that it is no reference.
    """

    def __init__(self, work: Work, eager: Leg) -> None:
        super().__init__(work, eager.shared, cast=torch.float64)
        self._twin = Leg(work, eager.shared) if eager.has_drawn else None

    def run(self, index: int) -> CallRecord:
        """Carry out call ``index`` and record what it did."""
        if self._twin is None:
            return super().run(index)
        tape = Tape()
        with Recording(tape):
            self._twin.run(index)
        with Replaying(tape):
            return super().run(index)
