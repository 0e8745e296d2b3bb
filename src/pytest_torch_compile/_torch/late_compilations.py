"""Observe compilations and autotuning after the warm-up, with a separate listener on the trace log.

The listener is active only in steady-state checks, so it adds no overhead to other checks.

The autotuning of user-defined Triton kernels (``triton.autotune``) is not observed. This module reads the following
private trace events of torch, checked with torch 2.6, 2.8, 2.11, 2.13 and 2.15:

- ``dynamo_start``: the compilation of a frame starts;
- ``bwd_compilation_metrics``: a backward graph was compiled, possibly at the first ``backward()``;
- ``chromium_event``: a phase of a compilation; in phases that match ``_TUNES``, Inductor times kernels on the device.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from typing import Any

from ..observation import LateCompilation, Location
from .stack import line_now
from .trace import TARGET_FRAME, compile_id, defined_at
from .trace_log import TraceListener

_TUNES = re.compile(r"benchmark_all_configs|coordinate_descent_tuning|combo_sequential_autotune|template_autotuning")
# The names of the events above, which ``_read`` repeats. The canary checks that torch still emits all of them.
EVENTS = frozenset({"dynamo_start", "bwd_compilation_metrics", "chromium_event"})


class LateCompilations(TraceListener):
    """A context manager that records compilations and autotuning in ``seen``. Enter this context manager inside the
    ``with`` block of a ``TraceObserver``. ``call`` is the number of the current call. A line about each event that
    cannot be read is added to ``undecided``.
    """

    def __init__(
        self, call: int = 0, seen: list[LateCompilation] | None = None, undecided: list[str] | None = None
    ) -> None:
        super().__init__()
        self.seen = [] if seen is None else seen
        self.undecided = [] if undecided is None else undecided
        self.call = call

    def wants(self, event: str, artifact: Callable[[], str]) -> bool:
        """Return whether an event may report a compilation or autotuning."""
        return event in EVENTS

    def emit(self, record: logging.LogRecord) -> None:
        """Process one trace event."""
        metadata: dict[str, Any] = getattr(record, "metadata", None) or {}
        try:
            self._read(metadata, getattr(record, "payload", None) or "{}")
        except Exception as error:  # a listener must not break the compilation that it listens to
            line = f"compilations after the warm-up: a trace event could not be read: {error!r}"
            self.undecided += [line] if line not in self.undecided else []

    def _read(self, metadata: dict[str, Any], payload: str) -> None:
        identity = compile_id(metadata)
        if stack := (metadata.get("dynamo_start") or {}).get("stack"):
            place = defined_at(stack[-1])
            # Code that is compiled through a function of torch has no line that is useful to the user.
            location = None if place.function == TARGET_FRAME else place
            self.understood.add("dynamo_start")
            self._note("compiled", place.function, location, identity)
        elif "bwd_compilation_metrics" in metadata:
            self.understood.add("bwd_compilation_metrics")
            # torch 2.6 uses this event also to report a frame that failed to compile.
            if not metadata["bwd_compilation_metrics"].get("fail_type"):
                self._note("compiled the backward", "", None, identity)
        elif "chromium_event" in metadata:
            event = json.loads(payload)
            if event.get("ph") == "B" and event.get("name"):
                self.understood.add("chromium_event")
            if event.get("ph") == "B" and _TUNES.search(str(event.get("name"))):
                self._note("autotuned", str(event["name"]), None, identity)

    def _note(self, what: Any, frame: str, location: Location | None, identity: str) -> None:
        self.seen.append(LateCompilation(what, frame, location, line_now(), self.call, identity))
