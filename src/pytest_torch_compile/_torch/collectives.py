"""Parse the collectives in a printed graph, including the op, the ranks and the size of each collective.

This module uses these private torch names, checked with torch 2.6, 2.8, 2.11, 2.13 and 2.15: the op namespaces
``_c10d_functional`` and ``_dtensor``; the trace events ``aot_forward_graph``, ``aot_backward_graph`` and
``aot_inference_graph``; ``torch.distributed.distributed_c10d._resolve_process_group``.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable
from typing import Any

from ..observation import Collective
from .trace_log import TraceListener

_LINE = re.compile(
    r'^\s+\w+(?:\s*:\s*"(?P<size>\w+\[[^\]]*\])[^"]*")? = '
    r"torch\.ops\.(?:_c10d_functional|_dtensor)\.(?P<op>\w+)(?:\.\w+)?\((?P<arguments>.*?)\)(?:;.*)?$"
)
_NAME = re.compile(r"'([^']*)'")
# Maps each event to the kind of its graph. AOTAutograd's joint graph is left out, because it repeats the forward and
# backward graphs.
GRAPHS = {
    "dynamo_output_graph": "captured",
    "aot_forward_graph": "forward",
    "aot_inference_graph": "forward",
    "aot_backward_graph": "backward",
}
# The graphs of ops, in which AOTAutograd's collectives appear.
OF_AOTAUTOGRAD = frozenset(GRAPHS) - {"dynamo_output_graph"}


class ReadsGraphs(TraceListener):
    """A context manager for the self-test. It reads the ops of all printed graphs as if they were collectives."""

    def wants(self, event: str, artifact: Callable[[], str]) -> bool:
        """Return whether an event contains a graph."""
        return event in GRAPHS

    def emit(self, record: logging.LogRecord) -> None:
        """Process one trace event."""
        metadata: dict[str, Any] = getattr(record, "metadata", None) or {}
        readable = str(getattr(record, "payload", None)).replace("torch.ops.aten.", "torch.ops._c10d_functional.")
        self.understood |= {name for name in GRAPHS.keys() & metadata.keys() if collectives(name, readable, 0, "")}


def is_distributed() -> bool:
    """Return whether this process has a process group. Without a process group, graphs cannot contain collectives."""
    c10d = sys.modules.get("torch.distributed.distributed_c10d")
    return c10d is not None and bool(c10d.is_initialized())


def collectives(event: str, readable: str, call: int, compile_id: str) -> list[Collective]:
    """Return the collectives of a printed graph in order, without the ops that wait for them."""
    if "_c10d_functional" not in readable and "_dtensor" not in readable:
        return []
    matches = [match for line in readable.splitlines() if (match := _LINE.match(line))]
    found = []
    for match in matches:
        if match["op"] not in ("wait_tensor", "_wrap_tensor_autograd"):
            *how, group = _NAME.findall(match["arguments"]) or [""]
            where = (_ranks_of(group), GRAPHS[event], call, compile_id)
            found.append(Collective(match["op"], match["size"] or "", tuple(how), group, *where))
    return found


def _ranks_of(group: str) -> tuple[int, ...]:
    """Return the ranks in a group, or an empty tuple if the group does not exist in this process."""
    c10d = sys.modules.get("torch.distributed.distributed_c10d")
    if c10d is None:
        return ()
    try:
        return tuple(c10d.get_process_group_ranks(c10d._resolve_process_group(group)))
    except Exception:  # the group no longer exists
        return ()
