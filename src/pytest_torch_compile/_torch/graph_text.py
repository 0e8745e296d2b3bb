"""Read the ops in the printed form of a graph."""

from __future__ import annotations

import re

_OP_LINE = re.compile(r"^\s+\w+(?:\s*:\s*\".*?\")? = (?P<call>.+?)(?:;\s.*)?$")
_SETITEM_LINE = re.compile(r"^\s+[\w.]+\[.*\] = ")
_IN_PLACE_LINE = re.compile(r"^\s+[\w.]+ (?P<op>[-+*/@%&|^<>]+=) ")
_PLAIN_NAME = re.compile(r"^[\w.]+$")
_INFIX = re.compile(r"^[\w.]+ (?P<op>[-+*/@%&|^<>=!]+) [\w.]+$")
_MODE_SWITCHES = ("torch._C._set", "torch.amp.autocast_mode", "torch._C._functorch", "torch.set_grad_enabled")


def graph_ops(readable: str) -> tuple[str, ...]:
    """Return the ops in a printed graph: the right-hand side of each assignment, unless the right-hand side is only a
    name, and the assignments that write to a tensor, such as ``x[0] = y`` (``setitem``) and ``x += y`` (``+=``).
    """
    names = filter(None, map(_op_in, readable.splitlines()))
    return tuple(name for name in names if not name.startswith(_MODE_SWITCHES))


def _op_in(line: str) -> str:
    """Return the name of the op in a line of a printed graph; empty if there is none."""
    if _SETITEM_LINE.match(line):
        return "setitem"
    if in_place := _IN_PLACE_LINE.match(line):
        return in_place["op"]
    match = _OP_LINE.match(line)
    return _op_name(match["call"]) if match and not _PLAIN_NAME.match(match["call"]) else ""


def _op_name(call: str) -> str:
    if infix := _INFIX.match(call):
        return infix["op"]
    head = call.split("(")[0].strip()
    if "[" in head:
        return "getitem"
    return head if head.startswith("torch.") else head.rsplit(".", 1)[-1]
