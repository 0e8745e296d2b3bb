"""Read the ops in the printed form of a graph."""

from __future__ import annotations

import re

_OP_LINE = re.compile(r"^\s+\w+(?:\s*:\s*\".*?\")? = (?P<call>.+?)(?:;\s.*)?$")
_PLAIN_NAME = re.compile(r"^[\w.]+$")
_INFIX = re.compile(r"^[\w.]+ (?P<op>[-+*/@%&|^<>=!]+) [\w.]+$")
_MODE_SWITCHES = ("torch._C._set", "torch.amp.autocast_mode", "torch._C._functorch", "torch.set_grad_enabled")


def graph_ops(readable: str) -> tuple[str, ...]:
    """Return the ops in a printed graph: the right-hand side of each assignment, unless the right-hand side is only a
    name.
    """
    matches = (_OP_LINE.match(line) for line in readable.splitlines())
    names = (_op_name(match["call"]) for match in matches if match and not _PLAIN_NAME.match(match["call"]))
    return tuple(name for name in names if not name.startswith(_MODE_SWITCHES))


def _op_name(call: str) -> str:
    if infix := _INFIX.match(call):
        return infix["op"]
    head = call.split("(")[0].strip()
    if head.endswith("]"):
        return "getitem"
    return head if head.startswith("torch.") else head.rsplit(".", 1)[-1]
