"""Compile functions with known graph breaks, recompiles and errors, to verify that this torch version reports
everything that decides whether a check passes (``_PLANTED``). This self-test runs once per process. It does not cover
the events about compile caches, because torch also counts them.

Without the self-test, a renamed trace event would look like "no recompiles". If compilation is turned off, the
self-test reports nothing, because each check reports that compilation is turned off.

This module uses these private torch names, checked with torch 2.6, 2.8, 2.11, 2.13 and 2.15: ``torch._dynamo.config``
(see ``_usual_settings``), ``convert_frame.FRAME_COUNTER``, ``FRAME_COMPILE_COUNTER``, ``input_codes`` and
``output_codes`` (``seen``, ``seen_ids``), ``torch._dynamo.eval_frame.reset_code``; ``torch._functorch.config``; the
trace logger and the child loggers of ``torch._dynamo``.
"""

from __future__ import annotations

import logging
import threading
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from types import CodeType, FunctionType
from typing import Any

import torch
import torch._dynamo
import torch._functorch.config
from torch._dynamo import convert_frame
from torch._dynamo.eval_frame import reset_code

from ..observation import Observation
from .collectives import OF_AOTAUTOGRAD, ReadsGraphs, is_distributed
from .defaults import Defaults, set_defaults
from .late_compilations import EVENTS, LateCompilations
from .machine_faults import machine_fault
from .sandbox import kept_settings
from .support import torch_version
from .trace import TraceObserver
from .trace_log import TraceListener, trace_logger
from .user_lines import is_torch

_TRACKERS = (convert_frame.input_codes, convert_frame.output_codes)
_lock = threading.Lock()
_not_shown: tuple[list[str], list[str]] | None = None
_events_not_shown: dict[str, list[str]] = {}


def breaking(x: torch.Tensor) -> torch.Tensor:
    """Break the graph once, so that dynamo compiles two graphs for this function."""
    x = x.sin()
    torch._dynamo.graph_break()
    return x.cos()


def breaking_in_try(x: torch.Tensor) -> torch.Tensor:
    """Break the graph in a way that makes torch skip the whole function."""
    try:
        x = x.sin()
        torch._dynamo.graph_break()
        return x.cos()
    except ValueError:
        return x


def retyped(x: torch.Tensor) -> torch.Tensor:
    """Compute ``tanh``. Calling this function with a second dtype causes a recompile; a third dtype hits the recompile
    limit, which the self-test sets to 2.
    """
    return x.tanh()


def copied(x: torch.Tensor) -> torch.Tensor:
    """Compute ``atan``. The self-test compiles copies of this function: a recompile for which no guard fails."""
    return x.atan()


def refused(x: torch.Tensor) -> torch.Tensor:
    """Compute ``tan``. In the self-test, the backend for this function raises an error, which torch swallows."""
    return x.tan()


# Compiled with a different file name, because lines of this package never count as user code.
_FILE = "planted.py"
_FUNCTIONS = {
    function.__name__: FunctionType(function.__code__.replace(co_filename=_FILE), globals(), function.__name__)
    for function in (breaking, breaking_in_try, retyped, copied, refused)
}
_FIRST = {name: function.__code__.co_firstlineno for name, function in _FUNCTIONS.items()}
# The result of ``_shown`` if torch reports everything that decides whether a check passes.
_PLANTED: dict[str, list[Any]] = {
    "graphs": [
        ("breaking", (0, "0"), ("sin",)),
        ("breaking", (1, "0"), ("cos",)),
        ("retyped", (2, "0"), ("tanh",)),
        ("retyped", (2, "1"), ("tanh",)),
        ("copied", (3, "0"), ("atan",)),
        ("copied", (4, "0"), ("atan",)),
        ("refused", (5, "0"), ("tan",)),
    ],
    "graph breaks": [("breaking", _FIRST["breaking"] + 3), ("breaking_in_try", _FIRST["breaking_in_try"] + 4)],
    "recompiles": [("retyped", _FIRST["retyped"], "dtype"), ("copied", _FIRST["copied"], "new-code")],
    "eager fallback at the recompile limit": [("retyped", _FIRST["retyped"], "dtype")],
    "swallowed backend errors": [("refused", _FIRST["refused"], True)],
}


def observer(*, steady: bool = False) -> TraceObserver:
    """Return a new ``TraceObserver`` that already lists the information that this torch version does not provide. If
    ``steady`` is true, this includes information about compilations after the warm-up.
    """
    undecided, not_observable = not_shown()
    new = TraceObserver()
    new.seen.undecided += undecided
    if steady:
        new.seen.undecided += _not_read("compilations after the warm-up", EVENTS, LateCompilations)
    if is_distributed():
        new.seen.undecided += _not_read("collectives", OF_AOTAUTOGRAD, ReadsGraphs)
    new.seen.not_observable += not_observable
    return new


def not_shown() -> tuple[list[str], list[str]]:
    """Return two lists of messages about information that this torch version does not provide. The first list contains
    messages about information that decides whether a check passes. The second list contains messages about information
    that is only shown in reports.

    The self-test runs when this function is first called.
    """
    global _not_shown
    with _lock:
        if _not_shown is not None:
            return _not_shown
        backend_calls: list[None] = []
        try:
            seen = _compile_planted(backend_calls)
            shown = _shown(seen)
        except Exception as error:  # not caused by the code under test; the check can still report other results
            if machine_fault(error, compiling=True):
                raise
            return [f"not observable on torch {torch_version()}: the plugin's self-test raised {error!r}"], []
        if not backend_calls:  # compilation is turned off; the result is not kept, because it may be turned on later
            return [], []
        version = f"not observable on torch {torch_version()}"
        missing = [
            f"{version}: {what} (not detected in the plugin's self-test)"
            for what in _PLANTED
            if shown[what] != _PLANTED[what]
        ]
        reported = {
            "compile times": bool(seen.compile_seconds.total and seen.compile_seconds.dynamo),
            # The backend refuses one graph, so this graph gets no guards.
            "guards of a graph": all(graph.guards for graph in seen.graphs if graph.frame != "refused"),
        }
        _not_shown = missing, [f"{version}: {what}" for what, is_there in reported.items() if not is_there]
        return _not_shown


def _not_read(what: str, events: Collection[str], listener: Callable[[], TraceListener]) -> list[str]:
    """Return a message for each of the trace events that show ``what`` and that this torch version does not provide.

    The self-test runs when this function is first called for these events. It compiles a forward, a backward, and a
    forward for inference.
    """
    version = f"not observable on torch {torch_version()}"
    with _lock:
        if what in _events_not_shown:
            return _events_not_shown[what]
        try:
            with kept_settings(), _usual_settings(), _unnoticed(), TraceObserver() as observed, listener() as listening:
                compiled = torch.compile(_FUNCTIONS["retyped"], backend="aot_eager")
                x = torch.ones(2, device="cpu", dtype=torch.float32, requires_grad=True)
                compiled(x).sum().backward()
                compiled(x.detach())
        except Exception as error:
            if machine_fault(error, compiling=True):
                raise
            return [f"{version}: the plugin's self-test of {what} raised {error!r}"]
        if not observed.seen.graphs:  # compilation is turned off, or ``not_shown`` lists the missing events
            return []
        _events_not_shown[what] = [
            f"{version}: {what}, which the trace event {name} shows (not detected in the plugin's self-test)"
            for name in sorted(set(events) - listening.understood)
        ]
        return _events_not_shown[what]


def _shown(seen: Observation) -> dict[str, list[Any]]:
    def line(place: Any) -> int:
        return place.line if place is not None and place.file == _FILE else 0

    ids = [graph.compile_id.rpartition("/") for graph in seen.graphs]
    frames = list(dict.fromkeys(frame for frame, _, _ in ids))  # dynamo continues the numbering of earlier compilations
    numbers = [(frames.index(frame), attempt) for frame, _, attempt in ids]
    return {
        "graphs": [(g.frame, number, g.ops) for g, number in zip(seen.graphs, numbers, strict=True)],
        "graph breaks": [(b.location.function, line(b.location)) for b in seen.graph_breaks],
        "recompiles": [(r.frame, line(r.location), r.guards[0].cause) for r in seen.recompiles],
        "eager fallback at the recompile limit": [(f.frame, line(f.location), f.cause) for f in seen.fallbacks],
        "swallowed backend errors": [(e.frame, line(e.location), "planted" in e.message) for e in seen.errors],
    }


def _compile_planted(backend_calls: list[None]) -> Observation:
    def backend(graph: Any, inputs: Any) -> Callable[..., Any]:
        backend_calls.append(None)
        forward: Callable[..., Any] = graph.forward
        return forward

    def refuses(graph: Any, inputs: Any) -> Callable[..., Any]:
        backend_calls.append(None)
        raise NotImplementedError("planted")

    with kept_settings(), _usual_settings(), _unnoticed(), TraceObserver() as planted:
        x = torch.ones(2, device="cpu", dtype=torch.float32)
        torch.compile(_FUNCTIONS["breaking"], backend=backend)(x)
        torch.compile(_FUNCTIONS["breaking_in_try"], backend=backend)(x)
        compiled = torch.compile(_FUNCTIONS["retyped"], backend=backend)
        for values in (x, x.double(), x.int()):
            compiled(values)
        for _ in range(2):
            torch.compile(_copy(_FUNCTIONS["copied"]), backend=backend)(x)
        torch.compile(_FUNCTIONS["refused"], backend=refuses)(x)
    return planted.seen


def _copy(function: FunctionType) -> FunctionType:
    return FunctionType(function.__code__.replace(), globals(), function.__name__)


@contextmanager
def _usual_settings() -> Iterator[None]:
    """Inside the ``with`` block, use torch's default settings instead of the caller's, except that the recompile limit
    is low and errors are swallowed.
    """
    config: Any = torch._dynamo.config
    wanted = {
        "disable": False,
        "suppress_errors": True,
        "error_on_recompile": False,
        "fail_on_recompile_limit_hit": False,
        "recompile_limit" if hasattr(config, "recompile_limit") else "cache_size_limit": 2,
        "accumulated_cache_size_limit": 256,
        "enable_compiler_collectives": False,  # the other ranks need not run the self-test at the same time
    }
    for name, value in wanted.items():
        if hasattr(config, name):
            setattr(config, name, value)
    set_defaults(Defaults(torch.float32, None))
    backward: Any = torch._functorch.config
    lazy = {"force_non_lazy_backward_lowering": False} if hasattr(backward, "force_non_lazy_backward_lowering") else {}
    with torch.compiler.set_stance("default"), torch.inference_mode(False), torch.enable_grad(), backward.patch(lazy):
        yield


@contextmanager
def _unnoticed() -> Iterator[None]:
    """Suppress logs and warnings inside the ``with`` block. Afterwards, restore the counters and discard the code that
    was compiled in the block.
    """
    logger, counter, codes_before = trace_logger(), convert_frame.FRAME_COUNTER, _codes()
    compile_counter = dict(convert_frame.FRAME_COMPILE_COUNTER)
    listening, logger.handlers[:] = list(logger.handlers), []
    names = [name for name in logging.root.manager.loggerDict if name.startswith("torch._dynamo")]
    loud = [one for one in map(logging.getLogger, names) if not one.disabled]
    for one in loud:
        one.disabled = True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for one in loud:
            one.disabled = False
        logger.handlers[:] = listening
        codes = _codes() - codes_before
        for tracker in _TRACKERS:
            tracker.seen[:] = [reference for reference in tracker.seen if reference() not in codes]
            tracker.seen_ids -= set(map(id, codes))
        for code in codes:
            reset_code(code)
        convert_frame.FRAME_COUNTER = counter
        for frame in convert_frame.FRAME_COMPILE_COUNTER.keys() - compile_counter.keys():
            del convert_frame.FRAME_COMPILE_COUNTER[frame]


def _codes() -> set[CodeType]:
    """Return the code objects that dynamo has processed in the self-test's functions and in the torch functions that
    they call.
    """
    references = [reference for tracker in _TRACKERS for reference in tracker.seen]
    codes = [code for reference in references if (code := reference()) is not None]
    return {code for code in codes if code.co_filename == _FILE or is_torch(code.co_filename)}
