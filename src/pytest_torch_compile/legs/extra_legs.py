"""Extra eager runs for judging whether a compiled result is accurate: eager in float64, a second eager run, and eager
with perturbed rounding.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

import torch

from .._torch.error_text import error_summary
from .._torch.filled_memory import FilledMemory
from .._torch.perturbed_rounding import PerturbedRounding
from .._torch.randomness import Recording, Replaying, Tape
from .._torch.widening import Widening
from ..findings import CompileUsageError
from ..numerics import CallRecord, ExtraRuns
from .converted import to_float64
from .lazy_leg import LazyLeg
from .leg import Leg
from .work import Work
from .world import World

# The largest number of perturbed runs; ``PATIENCE`` in ``numerics/rule.py`` can end them earlier. Perturbed rounding
# flips a sensitive gate, such as a ReLU, in only about one in ten runs.
RUNS = 32
# The number of runs with larger perturbations, and the factor. These runs flip gates that few of the other runs flip.
STRONG_RUNS = 16
STRENGTH = 2.0
# After the first ``LEAST_RUNS`` runs, no run is started once ``SECONDS`` of processor time have passed, so large models
# get fewer runs.
LEAST_RUNS = 4
SECONDS = 20.0


class Float64Leg(Leg):
    """A run of the calls in fp64. Casts and tensor factories that specify another float dtype also use fp64.

    If the eager run draws random numbers, an additional run with the original dtypes records them, and the fp64 run
    replays them.

    If the random numbers cannot be replayed (for example, the random numbers for dropout inside a fused attention
    kernel), the record has an error, and the call has no reference.
    """

    records_start = False

    def __init__(self, work: Work, eager: Leg) -> None:
        super().__init__(work, eager.world, change=to_float64)
        self._twin = Leg(work, eager.world) if eager.has_drawn else None
        self.mode = self._widening = Widening()

    def run(self, index: int) -> CallRecord:
        """Run call ``index`` and record its results."""
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


class RepeatLeg(Leg):
    """A second eager run of the calls, in which uninitialized memory is filled."""

    def __init__(self, work: Work, world: World) -> None:
        super().__init__(work, world)
        self.mode = FilledMemory()


class PerturbedLeg(Leg):
    """An eager run of the calls that perturbs the rounding in every op. The perturbations use a random stream that is
    separate from the model's stream.
    """

    records_start = False

    def __init__(
        self, work: Work, seed: int, world: World | None = None, strength: float = 1.0, *, may_truncate: bool = True
    ) -> None:
        super().__init__(work, world)
        self.mode = self._perturbed = PerturbedRounding(seed, strength, may_truncate=may_truncate)

    def _cotangents(self, outputs: Sequence[torch.Tensor], index: int) -> list[torch.Tensor]:
        with self._perturbed.paused():
            return super()._cotangents(outputs, index)


@dataclass
class PerturbedLegs:
    """Eager runs with perturbed rounding, started on demand. ``why_not`` is the error of the first run that failed, or
    None. ``may_truncate`` is described in ``ExtraLegs``.
    """

    work: Work
    world: World | None = None
    may_truncate: Callable[[], bool] = lambda: True
    why_not: BaseException | None = None

    def records(self, index: int, *, strong: bool) -> Iterator[CallRecord]:
        """Yield the record of call ``index`` from each perturbed run, skipping runs that fail. If ``strong`` is true,
        the perturbations are ``STRENGTH`` times larger.
        """
        started, may_truncate = time.process_time(), self.may_truncate()
        for seed in range(1, (STRONG_RUNS if strong else RUNS) + 1):
            strength = STRENGTH if strong else 1.0
            leg = LazyLeg(partial(PerturbedLeg, self.work, seed, self.world, strength, may_truncate=may_truncate))
            record = leg.record(index)
            self.why_not = self.why_not or leg.why_not
            if record is not None:
                yield record
            if seed >= LEAST_RUNS and time.process_time() - started > SECONDS:
                return


class ExtraLegs:
    """All extra runs of the calls of ``work``; each run starts only when a comparison needs it.

    ``eager`` returns the eager run of the calls, with whose state the extra runs start. If ``eager`` raises a
    ``CompileUsageError``, there are no extra runs. ``may_truncate`` returns whether the compiled code may truncate
    operands to TF32; in the perturbed runs, all products then do so.
    """

    def __init__(self, work: Work, eager: Callable[[], Leg], may_truncate: Callable[[], bool] = lambda: True) -> None:
        self._eager = eager
        self._in_float64 = LazyLeg(lambda: Float64Leg(work, eager()))
        self._repeat = LazyLeg(lambda: RepeatLeg(work, eager().world))
        self._plain_repeat = LazyLeg(lambda: Leg(work, eager().world))
        self._perturbed = PerturbedLegs(work, may_truncate=may_truncate)

    def of_call(self, index: int) -> ExtraRuns:
        """Return the extra runs of call ``index``. Calls are compared in order."""
        return ExtraRuns(
            float64=partial(self._in_float64.record, index),
            # The plain repeat is for code that does not run under a dispatch mode.
            repeat=lambda: self._repeat.record(index) or self._plain_repeat.record(index),
            perturbed=partial(self._perturbed_records, index, strong=False),
            strongly_perturbed=partial(self._perturbed_records, index, strong=True),
        )

    def _perturbed_records(self, index: int, *, strong: bool) -> Iterator[CallRecord]:
        try:
            self._perturbed.world = self._eager().world
        except CompileUsageError as error:
            self._perturbed.why_not = error
            return
        yield from self._perturbed.records(index, strong=strong)

    def not_judged(self) -> list[str]:
        """Return a line for each measurement that could not be taken because its reference run raised an exception."""
        failed = {
            "errors relative to float64, because the eager run in float64 raises": self._in_float64.why_not,
            "sensitivity to rounding, because the eager run with perturbed rounding raises": self._perturbed.why_not,
        }
        return [f"{what} {' '.join(error_summary(e).splitlines())}" for what, e in failed.items() if e is not None]
