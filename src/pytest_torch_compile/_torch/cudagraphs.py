"""Observe CUDA graphs while code runs: warm-ups, recordings, replays, and runs that silently use no CUDA graph.

torch counts a skipped CUDA graph in two cases: when torch decides during compilation to use no CUDA graph, and when
torch stops using CUDA graphs for a function. torch does not count later calls of such a function, or partitioned graphs
in which no part can become a CUDA graph. torch also does not count calls whose sizes are excluded by
``cudagraph_capture_sizes`` or, since torch 2.15, by ``cudagraph_dynamic_shape_rerecord_limit``. So this module wraps
the torch functions that decide whether a call uses a CUDA graph.

This module uses these private names from ``torch._inductor``, checked with torch 2.6, 2.8, 2.11, 2.13 and 2.15:
``cudagraph_trees.CUDAGraphTreeManager`` (``_run``, ``run_eager``, ``record_function``, ``execute_node``),
``cudagraph_trees.is_cudagraph_capture_sizes`` (since 2.8; called in each run, returns False if the run uses no CUDA
graph), ``output_code.cudagraph_partition_post_compile`` (since 2.8), and the attributes ``cudagraph_info`` and
``partition_maps`` of the graph that ``cudagraph_partition_post_compile`` receives. Backends that capture CUDA graphs
themselves, and Inductor with ``cudagraph_trees=False``, are not observed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

OUTSIDE_SIZES = "the size {size} is not in torch._inductor.config.triton.cudagraph_capture_sizes"
PAST_LIMIT = (
    "the calls have more distinct sizes than "
    "torch._inductor.config.triton.cudagraph_dynamic_shape_rerecord_limit allows"
)
GIVEN_UP = (
    "torch stopped using CUDA graphs for the function, because the function mutates an input in place or was "
    "re-recorded too often"
)
NO_PARTITION = "torch partitioned the graph, but no partition can become a CUDA graph"


def cuda_is_there() -> bool:
    """Return whether this process can use CUDA graphs."""
    import torch

    return bool(torch.cuda.is_available())


@dataclass
class CudagraphCounts:
    """Counts of CUDA graph events. ``asked`` is the number of calls that should have used a CUDA graph."""

    warmed_up: int = 0
    recorded: int = 0
    replayed: int = 0
    asked: int = 0
    managed: int = 0
    limited: bool = False
    without: list[str] = field(default_factory=list)
    not_used: list[str] = field(default_factory=list)

    def reasons(self) -> list[str]:
        """Return a reason for each run that should have used a CUDA graph but did not."""
        past_limit = max(0, self.asked - self.managed) if self.limited else 0
        return [*self.without, *[PAST_LIMIT] * past_limit]


@contextmanager
def watching(counts: CudagraphCounts) -> Iterator[None]:
    """Count CUDA graph events inside the ``with`` block, in any thread."""
    from torch._inductor import config, cudagraph_trees, output_code

    manager = cudagraph_trees.CUDAGraphTreeManager
    # ``running`` is about the current call, and several threads may call compiled functions at the same time.
    lock, running = threading.Lock(), threading.local()

    def add(name: str) -> None:
        with lock:
            setattr(counts, name, getattr(counts, name) + 1)
        running.used = True

    def counted(name: str) -> Callable[[Any], Any]:
        def wrap(inner: Any) -> Any:
            def wrapper(*args: Any, **kwargs: Any) -> Any:
                add(name)
                return inner(*args, **kwargs)

            return wrapper

        return wrap

    def watched_run(inner: Any) -> Any:
        def run(*args: Any, **kwargs: Any) -> Any:
            if getattr(running, "inside", False):  # the function calls itself recursively when it starts a new tree
                return inner(*args, **kwargs)
            add("managed")
            running.inside, running.used = True, False
            try:
                out = inner(*args, **kwargs)
            finally:
                running.inside = False
            if not running.used:  # the run neither warmed up, recorded nor replayed a CUDA graph
                with lock:
                    counts.without.append(GIVEN_UP)
            return out

        return run

    def watched_sizes(inner: Any) -> Any:
        def is_cudagraph_capture_sizes(size: Any) -> Any:
            captured = inner(size)
            limit = getattr(config.triton, "cudagraph_dynamic_shape_rerecord_limit", None)
            with lock:
                counts.limited |= limit is not None
                if captured:
                    counts.asked += 1
                else:
                    counts.without.append(OUTSIDE_SIZES.format(size=size))
            return captured

        return is_cudagraph_capture_sizes

    def watched_partition(inner: Any) -> Any:
        def post_compile(inputs: Any, graph: Any, cudagraphs: Any, *args: Any, **kwargs: Any) -> Any:
            failed = list(graph.cudagraph_info.cudagraph_fail_reasons) if graph.cudagraph_info else []
            if cudagraphs and (failed or not graph.partition_maps):
                with lock:
                    counts.not_used += failed or [NO_PARTITION]
            return inner(inputs, graph, cudagraphs, *args, **kwargs)

        return post_compile

    with ExitStack() as stack:
        stack.enter_context(_wrapped(manager, "_run", watched_run))
        stack.enter_context(_wrapped(manager, "run_eager", counted("warmed_up")))
        stack.enter_context(_wrapped(manager, "record_function", counted("recorded")))
        stack.enter_context(_wrapped(manager, "execute_node", counted("replayed")))
        stack.enter_context(_wrapped(cudagraph_trees, "is_cudagraph_capture_sizes", watched_sizes))
        stack.enter_context(_wrapped(output_code, "cudagraph_partition_post_compile", watched_partition))
        yield


@contextmanager
def _wrapped(owner: Any, name: str, wrap: Callable[[Any], Any]) -> Iterator[None]:
    """Inside the ``with`` block, replace the function ``name`` with a wrapper; do nothing if this torch version has no
    such function.
    """
    before = getattr(owner, name, None)
    if before is None:
        yield
        return
    setattr(owner, name, wrap(before))
    try:
        yield
    finally:
        setattr(owner, name, before)
