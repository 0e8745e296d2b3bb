"""Record the outputs of a target and of its modules in several calls that all start from the same state."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from .._torch.compiled import uncompiled
from .._torch.object_text import text_of_error
from .._torch.sandbox import sandbox
from .._torch.trace import TraceObserver
from ..findings import Finding
from ..legs.calls import Call
from ..legs.compiling import Compiling
from ..legs.leg import Leg
from ..legs.work import Work
from ..legs.world import World
from ..numerics import CallRecord
from ..observation import Observation
from .outputs import Values, values_of
from .process import run_fresh

RUNS = 3  # with CUDA graphs, the first run is a warm-up, the second is recorded, and the third is a replay


@dataclass
class Observed:
    """Copies of the values that one call returned. ``modules`` lists the output of each module in execution order."""

    output: Values = field(default_factory=Values)
    modules: list[tuple[str, Values]] = field(default_factory=list)


@dataclass
class Runs:
    """The observed calls of one target, and what torch compiled for them (nothing in eager)."""

    calls: list[Observed] = field(default_factory=list)
    seen: Observation = field(default_factory=Observation)


class RaisedInCall(Exception):
    """Raised when a call to the target raises an exception; ``number`` is the number of the call, counted from 1."""

    def __init__(self, number: int, error: BaseException) -> None:
        super().__init__(text_of_error(error))
        self.number, self.error = number, error


class _SameStart(Leg):
    """A run in which every call starts with the initial state of the target and with the same random seed."""

    def __init__(self, work: Work, wrap: Callable[[Any], Any] | None, world: World, *, inspects_modules: bool) -> None:
        super().__init__(work, world, wrap)
        self._first = dict(self._contents.held)
        self._first_host_rng = self._host_rng
        self._inspects_modules = inspects_modules
        self.observed = Observed()

    def run(self, index: int) -> CallRecord:
        """Run call ``index`` and record its outputs."""
        self._contents.held = dict(self._first)
        self._rng, self._host_rng = self._seeded, self._first_host_rng
        return super().run(index)

    def _steps(self, call: Call, index: int, record: CallRecord) -> None:
        super()._steps(call, index, record)
        # The values are copied now, because the state, to which they may belong, is restored after the call.
        output, parts = record.output if self._inspects_modules else (record.output, [])
        self.observed = Observed(values_of(output), [(name, values_of(part)) for name, part in parts])


@dataclass(frozen=True)
class Subject:
    """The target, its call, and a call for each row to check, keyed by row index. ``compiling`` contains the compile
    options (None for eager), and ``timeout`` is the time limit for a fresh process, in seconds.
    """

    target: Any
    call: Call
    rows: Mapping[int, Call]
    compiling: Compiling | None
    seed: int
    timeout: float

    def observe(self, *, modules: bool = False) -> Runs:
        """Run the call ``RUNS`` times, and then each row."""
        calls = [*([self.call] * RUNS), *self.rows.values()]
        return observe(self.target, calls, self.compiling, self.seed, modules=modules)

    def observe_in_fresh_process(self, *, modules: bool = False) -> Runs | Finding:
        """Run the call in a fresh process, without the compile cache. If there is no result, return a finding."""
        job = (self.target, [self.call], self.compiling, self.seed)
        ended = run_fresh(partial(observe, modules=modules), *job, seconds=self.timeout, empty_cache=True)
        failed = ended.failure("the fresh process", "raises {}, but this process does not")
        if failed is not None:
            return failed
        runs: Runs = ended.value
        return runs


def observe(
    target: Any, calls: Sequence[Call], compiling: Compiling | None, seed: int, *, modules: bool = False
) -> Runs:
    """Run the calls with compiled code, or eagerly if ``compiling`` is None. Return copies of the outputs of each call.
    If ``modules`` is set, also record the outputs of all modules.

    Raises:
        RaisedInCall: If a call raises an exception.
    """
    # A method that its class decorates with torch.compile is sent to another process by its name.
    work = Work(uncompiled(target), calls, seed=seed)
    with sandbox() as box:
        wrap: Callable[[Any], Any] | None = compiling
        if modules:
            wrap = _inspecting(compiling.relaxed() if compiling is not None else None)
        eager = Leg(work)
        eager.mode = box.watching(eager.world.names)
        eager.run(0)
        box.forget()
        leg = _SameStart(work, wrap, eager.world, inspects_modules=modules)
        observer, runs = TraceObserver(), Runs()
        with observer if compiling is not None else nullcontext():
            for index in range(len(calls)):
                record = leg.run(index)
                if record.error is not None:
                    raise RaisedInCall(index + 1, record.error) from record.error
                runs.calls.append(leg.observed)
        runs.seen = observer.seen
        return runs


def _inspecting(compiling: Compiling | None) -> Callable[[Any], Any]:
    def wrap(target: Any) -> Any:
        inspected = _with_parts(target)
        if compiling is not None:
            return compiling(inspected)

        def run(*args: Any, **kwargs: Any) -> Any:
            with torch.compiler.set_stance("force_eager"):
                return inspected(*args, **kwargs)

        return run

    return wrap


def _with_parts(module: torch.nn.Module) -> Callable[..., Any]:
    """Return a function that calls the module and returns a pair: the module's output, and a list of the outputs of the
    module and all its submodules. The list is in the order in which the calls finish.
    """
    parts: list[tuple[str, list[Any]]] = []

    def hook_of(name: str) -> Callable[..., None]:
        def hook(part: torch.nn.Module, args: Any, output: Any) -> None:
            parts.append((name, _copies(output)))

        return hook

    for name, part in module.named_modules():
        kind = type(part).__name__
        part.register_forward_hook(hook_of(f"{name} ({kind})" if name else f"{kind} itself"))

    def run(*args: Any, **kwargs: Any) -> Any:
        parts.clear()
        output = module(*args, **kwargs)
        return output, list(parts)

    return run


def _copies(output: Any) -> list[Any]:
    if isinstance(output, torch.Tensor):
        return [output.clone()]  # a later op may modify the output in place
    if isinstance(output, (bool, int, float, complex, str)):
        return [output]
    if isinstance(output, dict):
        output = list(output.values())
    if not isinstance(output, (list, tuple)):
        return []
    copies = []
    for part in output:
        copies += _copies(part)
    return copies
