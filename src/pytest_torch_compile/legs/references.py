"""The legs that a wrong leaf is judged by: eager in float64, and eager with its rounding perturbed."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

import torch

from .._torch.perturbed_rounding import PerturbedRounding
from .._torch.randomness import Recording, Replaying, Tape
from .._torch.widening import Widening
from ..numerics import CallRecord
from .converted import to_float64
from .leg import LazyLeg, Leg, Work, World

# A gate that rounding may open or shut does so in one run of ten or so.
RUNS = 32
# Large models get fewer: after this much processor time, no further one is begun.
LEAST_RUNS = 4
SECONDS = 20.0


class ReferenceLeg(Leg):
    """Runs the calls in fp64, and so do casts and factories in them that name another float type.

    Where eager draws random numbers, a twin in eager's dtypes runs first and hands them on.

    A call whose random numbers cannot be handed on (dropout inside a fused attention kernel) has an error in its
    record, so that it is no reference.
    """

    def __init__(self, work: Work, eager: Leg) -> None:
        super().__init__(work, eager.world, change=to_float64)
        self._twin = Leg(work, eager.world) if eager.has_drawn else None
        self.mode = self._widening = Widening()

    def run(self, index: int) -> CallRecord:
        """Carry out call ``index`` and record what it did."""
        with ExitStack() as modes:
            if self._twin is not None:
                tape = Tape()
                self._twin.mode = Recording(tape)
                self._twin.run(index)
                modes.enter_context(Replaying(tape))
            return super().run(index)

    def _cotangents(self, outputs: Sequence[torch.Tensor], index: int) -> list[torch.Tensor]:
        with self._widening.paused():
            return super()._cotangents(outputs, index)


class PerturbedLeg(Leg):
    """Eager, with every op's rounding disturbed by its own random stream; the model's random numbers stay the same."""

    def __init__(self, work: Work, seed: int, world: World | None = None) -> None:
        super().__init__(work, world)
        self.mode = self._perturbed = PerturbedRounding(seed)

    def _cotangents(self, outputs: Sequence[torch.Tensor], index: int) -> list[torch.Tensor]:
        with self._perturbed.paused():
            return super()._cotangents(outputs, index)


@dataclass
class PerturbedLegs:
    """Eager legs with perturbed rounding, made as they are asked for. ``why_not`` is an error that kept one from it."""

    work: Work
    world: World | None = None
    why_not: BaseException | None = None

    def records(self, index: int) -> Iterator[CallRecord]:
        """What such legs do on call ``index``, one after the other; one that cannot run is left out."""
        started = time.process_time()
        for seed in range(1, RUNS + 1):
            leg = LazyLeg(partial(PerturbedLeg, self.work, seed, self.world))
            record = leg.record(index)
            self.why_not = self.why_not or leg.why_not
            if record is not None:
                yield record
            if seed >= LEAST_RUNS and time.process_time() - started > SECONDS:
                return
