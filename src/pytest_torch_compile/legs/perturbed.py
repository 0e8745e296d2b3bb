"""Eager legs with other rounding: how far rounding alone carries a model's results."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial

import torch

from .._torch.perturbed_rounding import PerturbedRounding
from ..numerics import CallRecord
from .leg import LazyLeg, Leg, Work
from .state import SharedState

# A gate that rounding may open or shut does so in one run of ten or so.
RUNS = 32
# Large models get fewer: after this much processor time, no further one is begun.
LEAST_RUNS = 4
SECONDS = 20.0


class PerturbedLeg(Leg):
    """Eager, with every op's rounding disturbed by its own random stream; the model's random numbers stay the same."""

    def __init__(self, work: Work, seed: int, shared: SharedState | None = None) -> None:
        super().__init__(work, shared)
        self._perturbed = PerturbedRounding(seed)

    def run(self, index: int) -> CallRecord:
        """Carry out call ``index`` and record what it did."""
        with self._perturbed:
            return super().run(index)

    def _cotangents(self, outputs: Sequence[torch.Tensor], index: int) -> list[torch.Tensor]:
        with self._perturbed.paused():
            return super()._cotangents(outputs, index)


def perturbed_records(work: Work, index: int, shared: SharedState | None = None) -> Iterator[CallRecord]:
    """What such legs do on call ``index``, one after the other; one that cannot run is left out.

    Nothing is kept between them: each has its own copy of the model.
    """
    started = time.process_time()
    for seed in range(1, RUNS + 1):
        record = LazyLeg(partial(PerturbedLeg, work, seed, shared)).record(index)
        if record is not None:
            yield record
        if seed >= LEAST_RUNS and time.process_time() - started > SECONDS:
            return
