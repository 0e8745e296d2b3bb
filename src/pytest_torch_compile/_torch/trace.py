"""Observe compilation: ``TraceObserver`` listens to torch's structured trace log inside this process.

This module uses these private torch names, checked with torch 2.6, 2.8, 2.11, 2.13 and 2.15: the event names below,
``torch._dynamo.utils.counters`` (CUDA graph skips, cache look-ups, graph breaks).
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from types import CodeType, TracebackType
from typing import Any

from .. import events
from ..observation import (
    CacheCounts,
    CompileError,
    CudagraphRuns,
    EagerFallback,
    FailedGuard,
    Graph,
    GraphBreak,
    Location,
    Observation,
    Recompile,
    file_line,
)
from . import breaks, guards, support
from .collectives import GRAPHS, collectives, is_distributed
from .compiled_before import isolated_region
from .counters import OUTCOMES, cudagraph_skips, event_counts
from .cudagraphs import CudagraphCounts, cuda_is_there, watching
from .dynamic import sizes_become_dynamic
from .graph_text import graph_ops
from .guard_context import GuardContext
from .stack import CodeKey, Running, compiled_now, inlined_now, whole_stack
from .trace_log import TraceListener, listen, listen_no_more, not_captured
from .user_lines import function_name, is_library, is_torch, resumed_at

_LIMIT = re.compile(r"recompile[ _]?limit|cache_size_limit|RecompileLimit", re.I)
_LIMIT_SET_TO = re.compile(r"cache size limit \(currently set to (\d+)\)")
_BREAK_ERRORS = ("Unsupported", "SkipFrame", "UserError", "StepUnsupported", "UncapturedHigherOrderOpError")
_CACHE_EVENT = re.compile(r"^(?P<cache>fx_graph|aotautograd)_cache_(?P<outcome>hit|miss|bypass)$")
# In Inductor's code: a product in a Triton kernel, the name of a kernel that is made from a template, and CUTLASS.
_PRODUCT = re.compile(r"\btl\.dot|\btriton_tem_|cutlass", re.I)
# The names of the events that show the code of an AOTInductor package start with this.
_AOT_CODE = "inductor_aot"
_PARTS = {
    "dynamo": "dynamo_cumulative_compile_time_us",
    "aot_autograd": "aot_autograd_cumulative_compile_time_us",
    "inductor": "inductor_cumulative_compile_time_us",
}

# torch's modules, decorated functions and callable objects are compiled through a function of dynamo, whose name is
# meaningless to users.
_INLINED_MODULE_FILE = "torch/_dynamo/external_utils.py"
TARGET_FRAME = "the module or function"

CompileKey = tuple[Any, Any, Any]


class TraceObserver(TraceListener):
    """A context manager that records trace events of dynamo, AOTAutograd and Inductor. Observers can be nested.

    ``call`` is the number of the current call. Each recorded event is assigned to this call. ``generated_products``
    tells whether kernels that Inductor generated compute matrix products or convolutions. It is None if no code of
    Inductor was observed.
    """

    def __init__(self) -> None:
        super().__init__()
        self.seen = Observation()
        self.call = 0
        self.generated_products: bool | None = None
        self._check: events.RunningCheck | None = None
        self._lock_seen = threading.RLock()
        self._frames: dict[Any, Location] = {}
        self._names: dict[Any, str] = {}
        self._codes: dict[tuple[str, CodeType], CodeType] = {}
        self._first: dict[tuple[Any, ...], CompileKey] = {}  # each frame's first compilation in each cache region
        self._pending: dict[CompileKey, tuple[FailedGuard, ...]] = {}
        self._breaks: dict[tuple[Any, ...], GraphBreak] = {}
        self._broke_at: dict[CodeKey, int] = {}
        self._tracing: dict[Any, Graph] = {}
        self._broken: dict[CompileKey, GraphBreak | None] = {}
        self._causes: dict[Any, set[str]] = {}
        self._guard_context = GuardContext()
        self._error_texts: dict[CompileKey, str] = {}
        self._skips_before = self._skips_seen = 0
        self._counted_before: dict[str, int] = {}
        self._cache_before = CacheCounts()
        self._cudagraphs = CudagraphCounts()
        self._watch: AbstractContextManager[None] = nullcontext()
        self._capture: AbstractContextManager[None] = nullcontext()
        self._on_event: dict[str, Callable[[Any, str, CompileKey], None]] = {
            "dynamo_start": self._dynamo_start,
            "dynamo_output_graph": self._output_graph,
            "compilation_metrics": self._metrics,
            "bwd_compilation_metrics": self._backward_metrics,
            "artifact": self._artifact,
            "inductor_output_code": self._generated_code,
            "graph_dump": self._graph_dump,
        }
        # The names of "artifact" events. Cache events are read too (``_CACHE_EVENT``).
        self._on_artifact: dict[str, Callable[[str, CompileKey], None]] = {
            "dynamo_graph_break_reason": self._graph_break,
            "dynamo_error": self._error_text,
            "recompile_reasons": self._recompile_reasons,
        }

    def __enter__(self) -> TraceObserver:
        self._check = events.running_check()
        self._capture = not_captured()
        self._capture.__enter__()
        self._skips_before, self._skips_seen = cudagraph_skips(), len(self.seen.cudagraph_skips)
        self._counted_before, self._cache_before = event_counts(), replace(self.seen.cache)
        self._cudagraphs = CudagraphCounts()
        self._watch = watching(self._cudagraphs) if cuda_is_there() else nullcontext()
        self._watch.__enter__()
        listen(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not listen_no_more(self):
            self._unobservable(
                "the code under test reset torch's trace log, so later events were not observed; call functions such "
                "as torch._logging.set_logs before the check"
            )
        self._capture.__exit__(kind, error, trace)
        self._watch.__exit__(kind, error, trace)
        self.seen.graph_breaks[:] = breaks.without_repeated(self.seen.graph_breaks)
        self._note_cudagraphs()
        self._compare_with_counters()

    def _note_cudagraphs(self) -> None:
        counts, skips = self._cudagraphs, self.seen.cudagraph_skips
        missed = cudagraph_skips() - self._skips_before - (len(skips) - self._skips_seen)
        skips += ["reason not reported by this torch version"] * max(0, missed)
        skips += [reason for reason in dict.fromkeys(counts.not_used) if not any(reason in known for known in skips)]
        runs = CudagraphRuns(self.call, counts.warmed_up, counts.recorded, counts.replayed, tuple(counts.reasons()))
        if runs != CudagraphRuns(self.call):
            self.seen.cudagraph_runs.append(runs)

    def _compare_with_counters(self) -> None:
        """Compare the events with torch's counters, and record the events that are missing from the trace."""
        counted = {name: number - self._counted_before[name] for name, number in event_counts().items()}
        if counted.pop("graph_break") > 0 and not self.seen.graph_breaks and not self.seen.errors:
            self._unobservable("torch counted a graph break that does not appear in its trace")
        for name, number in counted.items():
            shown = getattr(self.seen.cache, name) - getattr(self._cache_before, name)
            setattr(self.seen.cache, name, getattr(self.seen.cache, name) + max(0, number - shown))

    def wants(self, event: str, artifact: Callable[[], str]) -> bool:
        """Return whether the observer reads an event. AOTAutograd's graphs are read only if they may contain
        collectives.
        """
        if event == "artifact":
            name = artifact()
            return name in self._on_artifact or _CACHE_EVENT.match(name) is not None
        if event == "graph_dump":
            return artifact().startswith(_AOT_CODE)
        return event in self._on_event or (event in GRAPHS and is_distributed())

    def emit(self, record: logging.LogRecord) -> None:
        """Process one trace event. An event that cannot be read is reported as not observable."""
        metadata: dict[str, Any] | None = getattr(record, "metadata", None)
        if not metadata:
            return
        payload = str(getattr(record, "payload", None) or "")
        key = _key(metadata)
        for name, take in self._on_event.items():
            if name in metadata:
                with self._lock_seen:
                    try:
                        take(metadata[name], payload, key)
                    except Exception as error:  # a listener must not break the compilation that it listens to
                        self._unobservable(f"trace event {name} could not be read: {error!r}")
        for name in GRAPHS.keys() & metadata.keys():
            with self._lock_seen:
                self.seen.collectives += collectives(name, payload, self.call, _compile_id(key))
        if self._check is not None:
            events.progress(self._check, self.seen)

    def _unobservable(self, what: str) -> None:
        if what not in self.seen.undecided:
            self.seen.undecided.append(what)

    def _dynamo_start(self, event: dict[str, Any], payload: str, key: CompileKey) -> None:
        self.seen.frames += 1
        stack = event.get("stack") or []
        if not stack:
            return
        first = self._first.setdefault((*key[:2], isolated_region()), key)
        location, name = defined_at(stack[-1]), str(stack[-1].get("name", ""))
        self._frames[key[:2]], self._names[key[:2]] = location, name
        self._note_new_code(name, location, key)
        if key in self._pending:
            self._add_recompile(key, self._guard_context.explained(key[:2], name, location, self._pending.pop(key)))
        elif first != key and any(graph.compile_id == _compile_id(first) for graph in self.seen.graphs):
            several = self._guard_context.was_compiled_in_another_thread(key[:2])
            threads = " (if several threads called the function, call it in one thread first)" if several else ""
            missing = f"compilation {_compile_id(key)} is a recompile, but torch did not report its reason{threads}"
            self._unobservable(missing)
        self._guard_context.compiled(key[:2])

    def _note_new_code(self, name: str, location: Location, key: CompileKey) -> None:
        """Record a recompile if a copy of a code object is compiled, for example because a module was loaded again.
        torch reports no failed guard for it, because the copy has no cache entries.
        """
        code = compiled_now()
        is_generated = location.file.startswith("<") and name.startswith("__")  # such as the __init__ of a dataclass
        if code is None or is_generated or key[2] != 0 or is_torch(location.file) or function_name(name) != name:
            return
        # Two functions that are written on the same line differ in their code.
        first = self._codes.setdefault((location.file, code), code)
        if first is not code:
            text = f"a new code object for {name} at {file_line(location.file, location.line)}"
            self._pending.setdefault(key, (FailedGuard("", text, name, "new-code"),))

    def _add_recompile(self, key: CompileKey, failed: tuple[FailedGuard, ...]) -> None:
        location = self._frames.get(key[:2])
        frame = location.function if location else ""
        if frame == TARGET_FRAME:
            location = None
        failed, after = self._most_telling_first(key[:2], failed), resumed_at(self._names.get(key[:2], ""))
        static = not sizes_become_dynamic()
        self.seen.recompiles.append(Recompile(frame, location, failed, self.call, _compile_id(key), after, static))

    def _most_telling_first(self, frame: Any, failed: tuple[FailedGuard, ...]) -> tuple[FailedGuard, ...]:
        """Move the guard that explains the recompile to the front. This guard is the first guard whose cause did not
        appear in earlier recompiles of this frame; if no guard has a new cause, the order is unchanged.

        Each cache entry of the frame has a failed guard, and the guard that explains the recompile need not belong to
        the newest entry.
        """
        known = self._causes.setdefault(frame, set())
        telling = next((guard for guard in failed if guard.cause not in known), None)
        known.update(guard.cause for guard in failed)
        return failed if telling is None else (telling, *(guard for guard in failed if guard is not telling))

    def _output_graph(self, event: dict[str, Any], payload: str, key: CompileKey) -> None:
        ops = graph_ops(payload)
        if not ops:
            return
        graph = Graph(self._function(key), ops, self.call, _compile_id(key))
        # A backend may make dynamo trace again, so keep only the last graph of a compilation.
        before = self._tracing.pop(key[:2], None)
        self.seen.graphs[:] = [*(known for known in self.seen.graphs if known is not before), graph]
        self._tracing[key[:2]] = graph

    def _generated_code(self, event: dict[str, Any], payload: str, key: CompileKey) -> None:
        self.generated_products = self.generated_products or _PRODUCT.search(payload) is not None

    def _graph_dump(self, event: dict[str, Any], payload: str, key: CompileKey) -> None:
        if str(event.get("name", "")).startswith(_AOT_CODE):
            self._generated_code(event, payload, key)

    def _artifact(self, event: dict[str, Any], payload: str, key: CompileKey) -> None:
        name = str(event.get("name", ""))
        if take := self._on_artifact.get(name):
            take(payload, key)
        elif match := _CACHE_EVENT.match(name):
            prefix = "fx" if match["cache"] == "fx_graph" else "aot"
            field = f"{prefix}_{OUTCOMES[match['outcome']]}"
            setattr(self.seen.cache, field, getattr(self.seen.cache, field) + 1)

    def _function(self, key: CompileKey) -> str:
        """Return the name of the function that is being compiled."""
        location = self._frames.get(key[:2])
        return location.function if location else ""

    def _error_text(self, payload: str, key: CompileKey) -> None:
        self._error_texts[key] = payload

    def _recompile_reasons(self, payload: str, key: CompileKey) -> None:
        self._pending[key] = tuple(guards.parse_guard(r) for r in guards.parse_recompile_reasons(payload))

    def _graph_break(self, payload: str, key: CompileKey) -> None:
        inlined = inlined_now()
        if inlined and (frame := self._frames.get(key[:2])):
            inlined[0] = replace(inlined[0], function=self._names[key[:2]])
            self._broke_at[frame.file, frame.line, inlined[0].function] = inlined[0].line
        stack = whole_stack(inlined, breaks.written_stack(payload), Running.now(), self._broke_at)
        found = breaks.parse_break(payload, self.call, stack)
        if found is None and (frame := self._frames.get(key[:2])):
            found = breaks.parse_break(payload, self.call, [frame])
        self._broken[key] = self._note_break(found, self._function(key) if breaks.skips_function(payload) else "")

    def _note_break(self, graph_break: GraphBreak | None, skipped: str) -> GraphBreak | None:
        if graph_break is None:
            self._unobservable("a graph break has no location")
            return None
        graph_break.skipped = skipped
        # Ignore library frames between user frames, because torch may compile them as one frame or as several.
        users = [frame for frame in graph_break.stack if not is_library(frame.file)]
        innermost = graph_break.location.library or graph_break.location
        place = (*((frame.file, frame.line) for frame in (*users, innermost)), graph_break.category)
        if place in self._breaks:
            self._breaks[place].times += 1
        else:
            self._breaks[place] = graph_break
            self.seen.graph_breaks.append(graph_break)
        return self._breaks[place]

    def _metrics(self, event: dict[str, Any], payload: str, key: CompileKey) -> None:
        self._tracing.pop(key[:2], None)
        seconds = self.seen.compile_seconds
        seconds.total += event.get("entire_frame_compile_time_s") or 0.0
        for part, column in _PARTS.items():
            setattr(seconds, part, getattr(seconds, part) + (event.get(column) or 0) / 1e6)
        if (guard_count := event.get("guard_count")) is not None:
            self.seen.graphs[:] = [
                replace(graph, guards=int(guard_count)) if graph.compile_id == _compile_id(key) else graph
                for graph in self.seen.graphs
            ]
        # torch 2.8 reports guarded code for a skipped frame, but counts no guards.
        no_code = event.get("has_guarded_code") is False or event.get("guard_count", 0) is None
        if no_code and (graph_break := self._broken.get(key)):
            graph_break.skipped = self._function(key)
        if reason := event.get("cudagraph_skip_reason"):
            self.seen.cudagraph_skips.append(str(reason))
        if event.get("fail_type"):
            self._failed(str(event["fail_type"]), str(event.get("fail_reason") or ""), key)

    def _backward_metrics(self, event: dict[str, Any], payload: str, key: CompileKey) -> None:
        # torch 2.6 reports a frame rejected at the recompile limit under the backward's event name.
        self.seen.compile_seconds.backward += (event.get("duration_us") or 0) / 1e6
        if event.get("fail_type"):
            self._failed(str(event["fail_type"]), str(event.get("fail_reason") or ""), key, backward=True)

    def _failed(self, kind: str, reason: str, key: CompileKey, *, backward: bool = False) -> None:
        code = compiled_now()  # its start was not observed if an earlier compilation reached the limit
        location = self._frames.get(key[:2]) or (code_location(code) if code else None)
        frame = location.function if location else "unknown function"
        if _LIMIT.search(kind) or _LIMIT.search(reason):
            name, failed = self._names.get(key[:2], ""), self._pending.pop(key, ())
            failed = self._guard_context.explained(key[:2], name, location, failed)
            detail = failed[0].text if failed else reason.splitlines()[0] if reason else ""
            cause = failed[0].cause if failed else ""
            limit = int(found[1]) if (found := _LIMIT_SET_TO.search(reason)) else 0
            fallback = EagerFallback(frame, "recompile-limit", detail, location, self.call, cause, limit)
            self.seen.fallbacks.append(fallback)
        elif kind in _BREAK_ERRORS and key not in self._broken and key in self._error_texts:
            # Before 2.9, a frame that is skipped, for example because of a break in a try block, is reported only here.
            # A frame that is rejected before its first instruction is traced, for example a function that vmap calls
            # from eager code, has no stack in the text. Its location is that of its definition.
            written = breaks.error_stack(self._error_texts[key]) or ([location] if location else [])
            stack = whole_stack([], written, Running.now(), self._broke_at)
            self._note_break(breaks.parse_error(reason, self.call, stack or written), frame)
        elif kind not in _BREAK_ERRORS:
            where = self.call, _compile_id(key), location
            self.seen.errors.append(CompileError(frame, kind, reason, *where, support.swallows_errors(), backward))


def code_location(code: CodeType) -> Location:
    """Return the location of the definition of a code object."""
    return defined_at({"filename": code.co_filename, "line": code.co_firstlineno, "name": code.co_name})


def defined_at(code: dict[str, Any]) -> Location:
    """Return the location of a function's definition. ``code`` is the function's entry in the stack of a
    ``dynamo_start`` event.
    """
    file, name = _file_of(code.get("filename")), str(code.get("name", ""))
    if file.endswith(_INLINED_MODULE_FILE):
        name = TARGET_FRAME
    return Location(file, int(code.get("line", 0)), function_name(name))


def _file_of(value: Any) -> str:
    """Return a file name from the trace. The trace may contain an int instead, which is an index into torch's table of
    file names.
    """
    if not isinstance(value, int):
        return str(value)
    from torch._logging.structured import INTERN_TABLE

    return next((name for name, index in INTERN_TABLE.items() if index == value), str(value))


def compile_id(metadata: dict[str, Any]) -> str:
    """Return dynamo's id of the compilation to which an event belongs. For example, ``0/1`` is the second compilation
    of the first frame.
    """
    return _compile_id(_key(metadata))


def _key(metadata: dict[str, Any]) -> CompileKey:
    return metadata.get("compiled_autograd_id"), metadata.get("frame_id"), metadata.get("frame_compile_id")


def _compile_id(key: CompileKey) -> str:
    autograd, frame, compiled = key
    return f"{f'!{autograd}/' if autograd is not None else ''}{frame}/{compiled}"
