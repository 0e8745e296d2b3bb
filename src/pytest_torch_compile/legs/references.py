"""The legs that a wrong leaf is judged by: eager in float64, and eager with its rounding perturbed."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial

import torch

from .._torch.perturbed_rounding import PerturbedRounding
from .._torch.randomness import Recording, Replaying, Tape
from ..numerics import CallRecord
from .converted import to_float64
from .leg import LazyLeg, Leg, Work, World

# A gate that rounding may open or shut does so in one run of ten or so.
RUNS = 32
# Large models get fewer: after this much processor time, no further one is begun.
LEAST_RUNS = 4
SECONDS = 20.0


class ReferenceLeg(Leg):
    """Runs the calls in fp64. Where eager draws random numbers, a twin in eager's dtypes runs first and hands them on.

    A call whose random numbers cannot be handed on (dropout inside a fused attention kernel) has an error in its
    record, so that it is no reference.
    """

    def __init__(self, work: Work, eager: Leg) -> None:
        super().__init__(work, eager.world, change=to_float64)
        self._twin = Leg(work, eager.world) if eager.has_drawn else None

    def run(self, index: int) -> CallRecord:
        """Carry out call ``index`` and record what it did."""
        if self._twin is None:
            return super().run(index)
        tape = Tape()
        self._twin.mode, self.mode = Recording(tape), Replaying(tape)
        self._twin.run(index)
        return super().run(index)


class PerturbedLeg(Leg):
    """Eager, with every op's rounding disturbed by its own random stream; the model's random numbers stay the same."""

    def __init__(self, work: Work, seed: int, world: World | None = None) -> None:
        super().__init__(work, world)
        self.mode = self._perturbed = PerturbedRounding(seed)

    def _cotangents(self, outputs: Sequence[torch.Tensor], index: int) -> list[torch.Tensor]:
        with self._perturbed.paused():
            return super()._cotangents(outputs, index)


def perturbed_records(work: Work, index: int, world: World | None = None) -> Iterator[CallRecord]:
    """What such legs do on call ``index``, one after the other; one that cannot run is left out."""
    started = time.process_time()
    for seed in range(1, RUNS + 1):
        record = LazyLeg(partial(PerturbedLeg, work, seed, world)).record(index)
        if record is not None:
            yield record
        if seed >= LEAST_RUNS and time.process_time() - started > SECONDS:
            return
