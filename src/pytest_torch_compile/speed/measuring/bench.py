"""Measure the eager and the compiled version of a target side by side in one process."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from ..._torch import code, support
from ..._torch.compiled import uncompiled
from ..._torch.warning_filters import calm
from ...findings import CompileUsageError
from ...legs.calls import Call
from ...legs.compiling import Compiling
from ...legs.keywords import clear_keywords, keyword_options
from ...legs.targets import DynamicDims, device_of, runs_backward
from ..sample import PRECISION, SECONDS, Paired, SpeedSample
from . import kernels, timing
from .device import device_problems
from .device_and_versions import environment_of, state_of
from .interleaved import interleaved
from .warm_legs import Measurable, warm_legs


class Bench:
    """Two warmed-up versions (legs) of ``target(*args, **kwargs)``: eager and compiled.

    Each leg has a separate copy of the target and the inputs. ``train=True`` adds the backward pass from every output
    that requires gradients. If ``train`` is a callable, it is the loss function. ``optimizer`` is a function that
    creates an optimizer from the parameters; if it is set, a whole training step is measured. ``compile`` is any
    ``callable(target) -> compiled``; if ``compile`` is not set, ``torch.compile`` is called with ``mode``, ``backend``,
    ``options``, ``dynamic`` and ``fullgraph``. Before compilation, the dimensions in ``dynamic_dims`` are marked as
    dynamic, as in ``check_compile``.

    Raises:
        CompileUsageError: If the target cannot be copied, the backend or mode is unknown, or ``compile`` is combined
            with an option of ``torch.compile``.
    """

    def __init__(
        self,
        target: Any,
        /,
        *args: Any,
        kwargs: Mapping[str, Any] | None = None,
        train: bool | Callable[[Any], Any] = False,
        optimizer: Callable[[Iterable[Any]], Any] | None = None,
        mode: str | None = None,
        backend: str | Callable[..., Any] | None = None,
        options: Mapping[str, Any] | None = None,
        dynamic: bool | None = None,
        fullgraph: bool = False,
        compile: Callable[[Any], Any] | None = None,
        dynamic_dims: DynamicDims | None = None,
    ) -> None:
        own = {"mode": mode, "backend": backend, "options": options, "dynamic": dynamic, "fullgraph": fullgraph or None}
        for name in (name for name, value in own.items() if compile is not None and value is not None):
            raise CompileUsageError(
                f"{name} is an option of torch.compile, but compile= replaces torch.compile: apply the option in "
                "the function that you pass as compile="
            )
        chosen = dict(options) if options is not None else None
        compiling = Compiling("inductor" if backend is None else backend, mode, chosen, dynamic, fullgraph, compile)
        measurable = Measurable(uncompiled(target), Call(args, dict(kwargs or {})), train, optimizer, dynamic_dims)
        step = "forward and backward" if runs_backward(train) else "forward"
        self.what = step if optimizer is None else "train step"
        self.mode = mode or "default"
        self.device = device_of(measurable.target, args, kwargs)
        self.timer = timing.Timer(self.device)
        if self.timer.cuda:
            kernels.start_profiler()
        self._before = state_of(self.device)
        self._loaded = code.loaded()
        self.legs, self._observer = warm_legs(measurable, compiling, self.timer)
        self.observation = self._observer.seen

    @calm()
    def measure(self, *, seconds: float = SECONDS, precision: float = PRECISION, raw: bool = False) -> SpeedSample:
        """Measure eager and compiled code in interleaved rounds. For the arguments, see ``measure_compile``."""
        measured = interleaved(self.legs, self.timer, seconds=seconds, precision=precision)
        state = {"before": self._before, "after": state_of(self.device)}
        problems = device_problems(state["before"], state["after"])
        if not self.timer.cuda:
            problems = (
                f"times on {self.device.type.upper()} are shown, but neither stored nor compared with a baseline",
            )
        eager, compiled, pairs = self.legs["eager"], self.legs["compiled"], measured.pairs()
        memory = None
        if eager.memory > 0 and compiled.memory > 0:
            memory = Paired(eager.memory, compiled.memory, math.log(compiled.memory / eager.memory))
        exact = measured.exact(self.observation, compiled.memory or None)
        if self._observer.generated_products and not exact.cuda_graphs:
            # Autotuning may choose a Triton kernel or a library for each matrix product, and each Triton kernel adds
            # about fifteen Python calls. In unchanged code, their number was between 1,903 and 2,093.
            exact = replace(exact, python_calls=None)
        return SpeedSample(
            wall=pairs["wall"],
            host=pairs.get("host"),
            device=pairs.get("device"),
            memory=memory,
            kernels=measured.kernels_per_call,
            python_calls=measured.python_calls,
            exact=exact,
            breaks=tuple(one.shown() for one in self.observation.graph_breaks),
            cold_start=(eager.cold_start, compiled.cold_start),
            what=self.what,
            mode=self.mode,
            code=code.identity(self._loaded),
            compile_processes=support.compile_processes(),
            rounds=measured.rounds,
            calls_per_round=(measured.calls["eager"], measured.calls["compiled"]),
            environment=environment_of(self.device),
            state=state,
            problems=problems,
            raw=measured.times if raw else {},
        )

    def synchronize(self) -> None:
        """Wait until the device is idle."""
        self.timer.synchronize()


BENCH_OPTIONS = keyword_options(Bench)
# Options of torch.compile, which must not be combined with a custom compile function.
TORCH_COMPILE_OPTIONS = frozenset({"mode", "backend", "options", "dynamic", "fullgraph"})


@clear_keywords("kwargs", also=BENCH_OPTIONS)
def measure_compile(
    target: Any,
    /,
    *args: Any,
    seconds: float = SECONDS,
    precision: float = PRECISION,
    raw: bool = False,
    **options: Any,
) -> SpeedSample:
    """Measure ``target(*args)`` in eager and in compiled code, in interleaved rounds.

    The measurement stops after ``seconds``. It stops earlier if the ratio of compiled to eager time is precise enough:
    half the width of the ratio's 95% confidence interval is at most ``precision``. The times exclude compilation,
    autotuning and CUDA graph recording, which are reported as the cold start. With ``raw=True``, the result also
    contains the times of every round. The other options are passed to ``Bench``.
    """
    return Bench(target, *args, **options).measure(seconds=seconds, precision=precision, raw=raw)
