"""One model's mutants and honest checks, on captured graphs or on Inductor."""

from __future__ import annotations

import random
from typing import Any

import torch

from tests.mutants.captured import Captured
from tests.mutants.judged import Judged, equal_legs, judged, signal
from tests.mutants.models import enliven, make_inputs, make_model, trained_arguments
from tests.mutants.run import Job, Row

FRESH_INPUTS = 3
# A mutant that moves no leaf by more than eager's own rounding error there.
BELOW_ROUNDING = 1.0


class Bench:
    """Runs checks of one job."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.dtype = getattr(torch, job.dtype)
        self.module = make_model(job.model, self.dtype, train=job.train, device=job.device)
        self.captured = Captured(self.module, self._inputs(0), train=job.train) if job.backend == "captured" else None

    def honest(self, seed: int) -> Row:
        """New weights, new inputs, another honest way to run: nothing may be found."""
        torch.manual_seed(seed)
        enliven(self.module)
        row, found = Row(self.job.model, self.job.dtype, self.job.train, seed), self._check(seed, None)
        _fill(row, found)
        row.verdict = "false alarm" if found.findings or found.crashed else "passed"
        row.findings += [found.crashed] if found.crashed else []
        return row

    def mutant(self, seed: int) -> Row:
        """One thing changed; a change that cannot run is replaced by the next."""
        for attempt in range(10):
            mutation = self._mutation(seed + 1000 * attempt)
            found = self._check(seed, mutation)
            if not found.crashed:
                break
        row = Row(self.job.model, self.job.dtype, self.job.train, seed)
        row.mutation, row.kind = str(mutation), mutation.kind
        _fill(row, found)
        row.verdict = "killed" if found.findings else self._classified(row, found, seed, mutation)
        if found.crashed:
            row.verdict = "does not run"
        return row

    def _classified(self, row: Row, found: Judged, seed: int, mutation: Any) -> str:
        differs = False
        for offset in range(FRESH_INPUTS):
            one, two = (self._check(seed + 5000 * (offset + 1), m, style=seed) for m in (mutation, None))
            if one.crashed or two.crashed or not equal_legs(one.compiled, two.compiled):
                differs = True
                break
        original = self._check(seed, None)
        row.signal = signal(found.compiled, original.compiled, found.eager, found.reference)
        if not differs:
            return "equivalent"
        return "below rounding" if row.signal < BELOW_ROUNDING else "survived"

    def _inputs(self, seed: int) -> dict[str, Any]:
        inputs = make_inputs(self.job.model, self.dtype, seed, self.job.device)
        return trained_arguments(inputs, self.job.train)

    def _mutation(self, seed: int) -> Any:
        if self.captured is not None:
            return self.captured.mutation(seed * 7919 + hash_of(self.job))
        from tests.mutants.inductor import InductorMutation

        return InductorMutation(seed * 7919 + hash_of(self.job), self.job.train)

    def _check(self, seed: int, mutation: Any, style: int | None = None) -> Judged:
        inputs = self._inputs(seed)
        if self.captured is None:
            from tests.mutants.inductor import backend

            return judged(self.module, inputs, self.job.train, backend=backend(mutation), fullgraph=True)
        with self.captured.changed(mutation, seed if style is None else style):
            return judged(self.module, inputs, self.job.train, compile=self.captured.compile)


def hash_of(job: Job) -> int:
    """A number of the job's own that is the same in every process."""
    return random.Random(f"{job.model} {job.dtype} {job.train}").randrange(1 << 30)


def _fill(row: Row, found: Judged) -> None:
    row.findings, row.ratio = found.findings[:4], found.ratio
    row.seconds, row.comparing, row.measured = found.seconds, found.comparing, found.measured
    passed = {"checker": not found.findings, "assert_close": found.assert_close, "same": found.same}
    row.passed_by = [name for name, ok in passed.items() if ok]
