"""One model's mutants and honest checks, on captured graphs or on Inductor."""

from __future__ import annotations

import random
from contextlib import nullcontext
from typing import Any

import torch

from pytest_torch_compile import call
from pytest_torch_compile.legs.converted import to_float64
from pytest_torch_compile.legs.extra_legs import Float64Leg
from pytest_torch_compile.legs.leg import Leg
from pytest_torch_compile.legs.work import Work
from pytest_torch_compile.numerics import CallRecord
from tests.mutants.captured import Captured
from tests.mutants.judged import Judged, equal_legs, judged
from tests.mutants.models import enliven, make_inputs, make_model, trained_arguments
from tests.mutants.run import Job, Row
from tests.mutants.signal import signal

FRESH_INPUTS = 3
# A mutant that, computed in fp64, moves no leaf by as much as eager's own rounding error there.
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
        self._new_weights(seed)
        row, found = Row(self.job.model, self.job.dtype, self.job.train, seed), self._check(seed, None)
        _fill(row, found)
        row.verdict = "false alarm" if found.findings or found.crashed else "passed"
        row.findings += [found.crashed] if found.crashed else []
        return row

    def mutant(self, seed: int) -> Row:
        """New weights, new inputs, one thing changed; a change that cannot run is replaced by the next."""
        self._new_weights(seed)
        seeds = [seed, *(seed + 5_000_000 * (offset + 1) for offset in range(FRESH_INPUTS))]
        for attempt in range(10):
            mutation = self._mutation(seed + 1_000_000 * attempt)
            found = self._checked(seed, mutation)
            if not found.crashed:
                break
        row = Row(self.job.model, self.job.dtype, self.job.train, seed)
        row.mutation, row.kind = str(mutation), mutation.kind
        _fill(row, found)
        if found.crashed:
            row.verdict = "does not run"
            return row
        if row.passed_by:
            self._check_again(row, seeds[1:], mutation)
        if row.findings:
            row.verdict = "killed"
        else:
            self._classify(row, seeds, mutation)
        return row

    def _check_again(self, row: Row, seeds: list[int], mutation: Any) -> None:
        """The same change on other inputs, as in a test of several calls, for the checker and its rivals alike."""
        for seed in seeds:
            found = self._check(seed, mutation, style=row.seed)
            row.ratio = max(row.ratio, found.ratio)
            row.passed_by = [name for name in row.passed_by if name in passed_by(found)]
            row.measured += found.measured
            row.findings = row.findings or found.findings[:4]
            if not row.passed_by:
                return

    def _classify(self, row: Row, seeds: list[int], mutation: Any) -> None:
        """Equivalent if the bits are the same on fresh inputs; below rounding if fp64 says so on all of them."""
        seed = seeds[0]
        changed, original = (self._legs(seeds, m, seed) for m in (mutation, None))
        runs = list(zip(changed, original, strict=True))
        if all(one.error is None and two.error is None and equal_legs(one, two) for one, two in runs):
            row.verdict = "equivalent"
            return
        if self.captured is not None:
            changed, original = (self._legs(seeds, m, seed, exact=True) for m in (mutation, None))
        row.signal = max(map(self._signal, seeds, changed, original))
        row.verdict = "below rounding" if row.signal < BELOW_ROUNDING else "survived"

    def _signal(self, seed: int, changed: CallRecord, original: CallRecord) -> float:
        work = self._work(seed)
        eager = Leg(work)
        plain = eager.run(0)
        return signal(changed, original, plain, Float64Leg(work, eager).run(0))

    def _new_weights(self, seed: int) -> None:
        torch.manual_seed(seed)
        enliven(self.module)

    def _inputs(self, seed: int) -> dict[str, Any]:
        inputs = make_inputs(self.job.model, self.dtype, seed, self.job.device)
        return trained_arguments(inputs, self.job.train)

    def _mutation(self, seed: int) -> Any:
        if self.captured is not None:
            return self.captured.mutation(seed * 7919 + hash_of(self.job))
        from tests.mutants.inductor import InductorMutation

        return InductorMutation(seed * 7919 + hash_of(self.job), self.job.train)

    def _check(self, seed: int, mutation: Any, style: int | None = None) -> Judged:
        with self._running(mutation, seed if style is None else style) as how:
            return judged(self.module, self._inputs(seed), self.job.train, record=self.job.record, **how)

    def _checked(self, seed: int, mutation: Any) -> Judged:
        try:
            return self._check(seed, mutation)
        except Exception as error:  # a change may be one that no graph can be built or compiled with
            return Judged(crashed=repr(error)[:300])

    def _running(self, mutation: Any, style: int, exact: bool = False) -> Any:
        """A context in which the options for the check run the changed graph."""
        if self.captured is not None:
            return self.captured.changed(mutation, style, exact=exact)
        from tests.mutants.inductor import backend

        return nullcontext({"backend": backend(mutation), "fullgraph": True})

    def _work(self, seed: int) -> Work:
        item = call(**self._inputs(seed))
        return Work(self.module, [item if self.job.train else item.under(torch.no_grad)], train=self.job.train)

    def _legs(self, seeds: list[int], mutation: Any, style: int, exact: bool = False) -> list[CallRecord]:
        """What the changed graph alone does on each seed's inputs; in fp64 if it is to be exact."""
        with self._running(mutation, style, exact) as how:
            if self.captured is None:
                torch._dynamo.reset()
            compile_ = how.get("compile") or (lambda module: torch.compile(module, **how))
            change = to_float64 if exact else None
            return [Leg(self._work(seed), wrap=compile_, change=change).run(0) for seed in seeds]


def hash_of(job: Job) -> int:
    """A number of the job's own that is the same in every process."""
    return random.Random(f"{job.model} {job.dtype} {job.train}").randrange(1 << 30)


def _fill(row: Row, found: Judged) -> None:
    row.findings, row.ratio = found.findings[:4], found.ratio
    row.seconds, row.comparing, row.measured = found.seconds, found.comparing, found.measured
    row.passed_by = passed_by(found)


def passed_by(found: Judged) -> list[str]:
    """Who let it pass."""
    passed = {"checker": not found.findings, "assert_close": found.assert_close, "same": found.same}
    return [name for name, ok in passed.items() if ok]
