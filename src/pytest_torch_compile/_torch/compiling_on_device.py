"""When a compilation uses the device.

Most of a compilation runs on the CPU: tracing, lowering, and compiling kernels. But Inductor times alternatives on the
device, such as whether a matrix product is faster if its operands are padded. The result of this choice can depend on
what else the host and the device do, and it changes the number of kernels.

This module uses these private torch names, checked with torch 2.11 and 2.15:

- ``torch._dynamo.callback.callback_handler``, which reports the start and the end of a compilation;
- ``torch._inductor.runtime.benchmarking.benchmarker``, whose method ``benchmark_gpu`` times one alternative;
- ``torch._inductor.fx_passes.pad_mm.get_do_bench``, which returns the function that times padding.

Without these names, the functions that need them have no effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

# A callback handler also reports the recording of CUDA graphs, which runs kernels.
ON_THE_CPU = ("DYNAMO", "LAZY_BACKWARD")


@contextmanager
def timing_in(turn: Callable[[], AbstractContextManager[None]]) -> Iterator[None]:
    """Inside the ``with`` block, enter ``turn()`` whenever Inductor times whether to pad a matrix product."""
    try:
        from torch._inductor.fx_passes import pad_mm

        original = pad_mm.get_do_bench
    except (ImportError, AttributeError):
        yield
        return

    def in_turn() -> Callable[..., Any]:
        measure = original()

        def measured(*args: Any, **kwargs: Any) -> Any:
            with turn():
                return measure(*args, **kwargs)

        return measured

    pad_mm.get_do_bench = in_turn
    try:
        yield
    finally:
        pad_mm.get_do_bench = original


@contextmanager
def reporting_use(stop_using: Callable[[], None], use_again: Callable[[], None]) -> Iterator[None]:
    """Inside the ``with`` block, call ``stop_using()`` when a compilation starts, and ``use_again()`` when it ends.
    The device is also in use while Inductor times an alternative.
    """
    try:
        from torch._dynamo.callback import callback_handler
        from torch._inductor.runtime.benchmarking import benchmarker

        time_on_device = benchmarker.benchmark_gpu
    except (ImportError, AttributeError):
        yield
        return
    compiling = False

    def start(*args: Any) -> None:
        nonlocal compiling
        # Older versions of torch pass no argument, so it is unknown what starts.
        if args and getattr(getattr(args[0], "callback_trigger", None), "name", "") in ON_THE_CPU:
            compiling = True
            stop_using()

    def end(*_: Any) -> None:
        nonlocal compiling
        if compiling:
            compiling = False
            use_again()

    def timed(*args: Any, **kwargs: Any) -> Any:
        if not compiling:
            return time_on_device(*args, **kwargs)
        use_again()
        try:
            return time_on_device(*args, **kwargs)
        finally:
            stop_using()

    callback_handler.register_start_callback(start)
    callback_handler.register_end_callback(end)
    benchmarker.benchmark_gpu = timed
    try:
        yield
    finally:
        benchmarker.benchmark_gpu = time_on_device
        with suppress(ValueError):  # torch.compiler.reset() removes all callbacks
            callback_handler.remove_start_callback(start)
            callback_handler.remove_end_callback(end)
        end()
