"""What CUDA graphs did while code ran: warm-ups, recordings, replays, and runs that used none without a word.

torch counts a skip when it compiles, and one for a function that it gives up. It counts nothing where a size is not in
``cudagraph_capture_sizes``, beyond ``cudagraph_dynamic_shape_rerecord_limit`` (from 2.15 on), in later calls of what it
gave up, and where it partitions a graph and finds no part for a CUDA graph. So the functions that decide are wrapped.

Private names used, read on torch 2.6, 2.8, 2.11, 2.13 and 2.15, all below ``torch._inductor``:
``cudagraph_trees.CUDAGraphTreeManager`` (``_run``, ``run_eager``, ``record_function``, ``execute_node``),
``cudagraph_trees.is_cudagraph_capture_sizes`` (from 2.8 on: asked by each call, False where the call runs without) and
``output_code.cudagraph_partition_post_compile`` (from 2.8 on), with ``cudagraph_info`` and ``partition_maps`` of the
graph that it is given. A backend that captures CUDA graphs itself, or Inductor with ``cudagraph_trees=False``, is not
seen.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

OUTSIDE_SIZES = "the size {size} is not in torch._inductor.config.triton.cudagraph_capture_sizes"
PAST_LIMIT = "more sizes than torch._inductor.config.triton.cudagraph_dynamic_shape_rerecord_limit allows"
GIVEN_UP = "torch gave the function up: it changes an input in place, or was recorded again too often"
NO_PARTITION = "torch partitioned the graph, and found no part that can be a CUDA graph"


def cuda_is_there() -> bool:
    """Whether there can be CUDA graphs in this process."""
    import torch

    return bool(torch.cuda.is_available())


@dataclass
class CudagraphCounts:
    """What happened while it was watched. ``asked`` is how many calls were to go through a CUDA graph."""

    warmed_up: int = 0
    recorded: int = 0
    replayed: int = 0
    asked: int = 0
    managed: int = 0
    limited: bool = False
    without: list[str] = field(default_factory=list)
    not_used: list[str] = field(default_factory=list)

    def reasons(self) -> list[str]:
        """Why runs used no CUDA graph, one entry for each run."""
        past_limit = max(0, self.asked - self.managed) if self.limited else 0
        return [*self.without, *[PAST_LIMIT] * past_limit]


@contextmanager
def watching(counts: CudagraphCounts) -> Iterator[None]:
    """Count what CUDA graphs do in the body, in any thread."""
    from torch._inductor import config, cudagraph_trees, output_code

    manager = cudagraph_trees.CUDAGraphTreeManager
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
            if getattr(running, "inside", False):  # it calls itself once more where it begins a new tree
                return inner(*args, **kwargs)
            add("managed")
            running.inside, running.used = True, False
            try:
                out = inner(*args, **kwargs)
            finally:
                running.inside = False
            if not running.used:
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
    """Put what ``wrap`` makes of a function in its place during the body, where this torch has the function."""
    before = getattr(owner, name, None)
    if before is None:
        yield
        return
    setattr(owner, name, wrap(before))
    try:
        yield
    finally:
        setattr(owner, name, before)
