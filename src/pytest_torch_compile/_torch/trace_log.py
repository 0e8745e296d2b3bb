"""Listen to torch's structured trace log, and make torch create only the events that a listener reads.

If the log has a handler, torch creates every event. To create the events, torch formats graphs and AOTAutograd's
metadata. Formatting calls the ``__repr__`` of tensor subclasses on fake tensors. The default ``__repr__`` of a tensor
runs ops, which can break a graph that would not break otherwise. So the plugin hides its handler from torch for events
that no listener reads.

This module uses these private torch names, checked with torch 2.6, 2.8, 2.11, 2.13 and 2.15:
``torch._logging._internal.trace_log`` (the logger behind TORCH_TRACE); ``trace_structured``, which checks
``if trace_log.handlers`` and has the arguments ``name`` and ``metadata_fn``. If another handler is installed, such as
the handler for TORCH_TRACE, torch creates every event, and that handler receives it.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, TypeVar

Listener = TypeVar("Listener", bound="TraceListener")


class TraceListener(logging.Handler):
    """A listener that receives selected events of the trace log. As a context manager, it listens inside the ``with``
    block. ``understood`` contains the names of the events that were read so far.
    """

    def __init__(self) -> None:
        super().__init__(level=logging.NOTSET)
        self.understood: set[str] = set()

    def __enter__(self: Listener) -> Listener:
        listen(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        listen_no_more(self)

    def wants(self, event: str, artifact: Callable[[], str]) -> bool:
        """Return whether the listener reads this event. For the events "artifact" and "graph_dump", calling
        ``artifact`` returns the name of the artifact or the graph.
        """
        raise NotImplementedError


class _Handlers(list[logging.Handler]):
    """A replacement for ``plain``, the trace log's list of handlers. The replacement is falsy for an event that no
    handler reads.
    """

    def __init__(self, plain: list[logging.Handler]) -> None:
        super().__init__(plain)
        self.plain = plain

    def __bool__(self) -> bool:
        if any(not isinstance(handler, TraceListener) for handler in self):
            return True
        asking = sys._getframe(1)
        if asking.f_code.co_name != "trace_structured":
            return False
        # torch asks for the list before it creates the event, so the event's name and metadata are still arguments.
        arguments = asking.f_locals
        name, described = arguments["name"], lambda: str(arguments["metadata_fn"]().get("name", ""))
        return any(isinstance(one, TraceListener) and one.wants(name, described) for one in self)


def trace_logger() -> logging.Logger:
    from torch._logging._internal import trace_log

    logger: logging.Logger = trace_log
    return logger


# The listeners, and the logger's settings before there were any. Blocks in several threads may overlap, so the last
# listener restores the settings.
_listening: list[TraceListener] = []
_before: dict[str, Any] = {}
_lock = threading.Lock()


def listen(listener: TraceListener) -> None:
    """Add a listener for the events of this process."""
    logger = trace_logger()
    with _lock:
        if not _listening:
            _before.update(disabled=logger.disabled, isEnabledFor=vars(logger).get("isEnabledFor"))
        _listening.append(listener)
    logger.disabled = False
    vars(logger)["isEnabledFor"] = lambda level: True  # logging.disable() must have no effect
    if not isinstance(logger.handlers, _Handlers):
        logger.handlers = _Handlers(logger.handlers)
    logger.addHandler(listener)


def listen_no_more(listener: TraceListener) -> bool:
    """Remove a listener, and return whether it was still registered."""
    logger = trace_logger()
    was_there = listener in logger.handlers
    logger.removeHandler(listener)
    handlers = logger.handlers
    if isinstance(handlers, _Handlers) and not any(isinstance(handler, TraceListener) for handler in handlers):
        handlers.plain[:] = handlers
        logger.handlers = handlers.plain
    with _lock:
        _listening.remove(listener)
        if not _listening:
            logger.disabled = _before["disabled"]
            vars(logger).pop("isEnabledFor", None)
            if _before["isEnabledFor"] is not None:
                vars(logger)["isEnabledFor"] = _before["isEnabledFor"]
    return was_there


@contextmanager
def not_captured() -> Iterator[None]:
    """Keep pytest from capturing torch's trace log.

    pytest captures even loggers that do not propagate. A handler from pytest would turn on the trace, and each
    compilation would then write thousands of events. pytest would print the events as empty lines for each failed test.
    """
    logger = trace_logger()
    handlers: list[Any] = [h for h in logger.handlers if type(h).__module__.startswith("_pytest")]
    for handler in handlers:
        logger.removeHandler(handler)
    try:
        yield
    finally:
        for handler in handlers:
            logger.addHandler(handler)
