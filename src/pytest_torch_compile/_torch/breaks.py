"""From the trace's graph-break text to a break with a place, a reason and a fingerprint. Text only: no torch.

The wording was read on torch 2.6, 2.8, 2.11, 2.13 and 2.15. It changes between versions, so that a fingerprint
stands on the place and on a coarse category of the reason, never on the words.
"""

from __future__ import annotations

import hashlib
import re

from ..findings import Location
from ..observation import GraphBreak
from .source import parse_stack, stable_path, user_location

_HEAD = re.compile(r"^Graph break in user code at (?P<file>.+):(?P<line>\d+)\s*$", re.MULTILINE)
_REASON = re.compile(
    r"^(?:Graph Break )?Reason: (?P<reason>.*?)(?=^User code traceback:|^Traceback \(most|\Z)", re.M | re.S
)
_STACK = re.compile(r"^User code traceback:\n(?P<stack>.*?)(?=^Traceback \(most|\Z)", re.M | re.S)
_PREAMBLES = (
    re.compile(r"^Encountered graph break when attempting to [^\n]*\n\s*"),
    re.compile(r"^Failed to handle graph break gracefully[^\n]*\n\s*"),
    re.compile(r"^Encountered graph break that we cannot resume from[^\n]*\n\s*"),
    re.compile(r"^Unsupported: "),
)
_CATEGORIES: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "data-dependent branch",
        re.compile(r"data-dependent (jump|branching|control)|generic_jump|data-dependent expression", re.I),
    ),
    (
        "scalar from a tensor",
        re.compile(r"Tensor\.item|capture_scalar_outputs|Tensor\.tolist|_local_scalar_dense", re.I),
    ),
    ("explicit graph break", re.compile(r"graph_break\b", re.I)),
    (
        "disabled function",
        re.compile(
            r"torch\.compiler\.(?:disable|skip)|_dynamo\.disable|_TorchDynamoContext|skipfiles: .*eval_frame",
            re.I,
        ),
    ),
    ("dynamic output shape", re.compile(r"dynamic shape operator|dynamic_output_shape|data.dependent operator", re.I)),
    (
        "call to print or a logger",
        re.compile(r"builtin(?: operator)?:? `?print\b|reorderable_logging|logging\.Logger|logger", re.I),
    ),
    (
        "function that dynamo skips",
        re.compile(r"skip function|marked as skipped|dynamo developers have intentionally|SkipFunctionVariable", re.I),
    ),
)


def parse_break(payload: str, call: int = 0) -> GraphBreak | None:
    """The break that one ``dynamo_graph_break_reason`` payload tells of; None for text that names no place."""
    head = _HEAD.search(payload)
    stack_text = _STACK.search(payload)
    frames = parse_stack(stack_text["stack"]) if stack_text else []
    if not frames:
        if head is None:
            return None
        frames = [Location(head["file"], int(head["line"]))]
    reason_text = _reason_text(payload)
    location = user_location(frames)
    category = categorise(reason_text)
    return GraphBreak(
        location=location,
        reason=reason_text.strip().splitlines()[0].strip() if reason_text.strip() else "unknown reason",
        category=category,
        fingerprint=fingerprint(location, category),
        call=call,
        explanation=_labelled(reason_text, "Explanation")[0] if _labelled(reason_text, "Explanation") else "",
        hints=tuple(_labelled(reason_text, "Hint")),
        skipped_frame="Skipping the function" in payload,
    )


def parse_error(trace: str, reason: str, call: int = 0) -> GraphBreak | None:
    """The break behind a frame that dynamo skipped with an error: ``trace`` names the place, ``reason`` says why."""
    user_code = trace.rsplit("from user code:", 1)
    if len(user_code) < 2:
        return None
    stack = user_code[1].split("\n\n")[0]
    found = parse_break(f"Reason: {reason}\nUser code traceback:\n{stack.strip(chr(10))}\n", call)
    if found is not None:
        found.skipped_frame = True
    return found


def _reason_text(payload: str) -> str:
    match = _REASON.search(payload)
    text = match["reason"] if match else payload
    for preamble in _PREAMBLES:
        text = preamble.sub("", text, count=1)
    return text


def _labelled(text: str, label: str) -> list[str]:
    text = re.sub(r" at 0x[0-9a-f]+", "", text)
    return [" ".join(found.split()) for found in re.findall(rf"^\s*{label}: (.+)$", text, re.M)]


def categorise(reason: str) -> str:
    """The coarse kind of a reason, the same word on every torch version."""
    for name, pattern in _CATEGORIES:
        if pattern.search(reason):
            return name
    return "unsupported code"


def fingerprint(location: Location, category: str) -> str:
    """A short name of a break: the same when lines above it move, when torch rewords it, and on another machine."""
    parts = [stable_path(location.file), location.function, location.source or str(location.line), category]
    if location.library is not None:
        parts += [stable_path(location.library.file), location.library.function]
    return "gb-" + hashlib.sha1("\n".join(parts).encode(), usedforsecurity=False).hexdigest()[:10]
