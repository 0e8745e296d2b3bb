"""Parse the description of a graph break in torch's structured trace into a location, a reason and a fingerprint. This
module does not import torch.

The wording of the descriptions was checked with torch 2.6, 2.8, 2.11, 2.13 and 2.15. The wording changes between torch
versions, so the fingerprint of a graph break does not depend on the wording. The fingerprint is computed from the
location of the break, the calls that led to this location, and a coarse category of the reason.
"""

from __future__ import annotations

import hashlib
import linecache
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ..observation import GraphBreak, Location
from .user_lines import (
    below_own,
    is_library,
    is_of_python,
    is_torch,
    module_of,
    raw_frames,
    readable,
    user_location,
)

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
    re.compile(r"^If you are reaching here, it means dynamo failed for one of the following reasons:\s*-\s*"),
)
OTHER = "unsupported code"  # breaks that belong to no other category, shown with torch's full message
# Parts of torch's message that are ignored: advice that mentions other causes, and lines of the user's code.
_ADVICE = re.compile(r"^\s*Hint: .*(?:\n {4}.*)*|^Stack variable source attribution:(?s:.*)", re.M)
REFUSED = "graph that the backend refuses"
_SKIPPED = "WON'T CONVERT"  # torch before 2.9 skips a function with this text
_SCALAR, _DYNAMIC_OUTPUT = "scalar from a tensor", "dynamic output shape"
CAPTURED_BY_FULLGRAPH = (_SCALAR, _DYNAMIC_OUTPUT)  # see support.FULLGRAPH_CAPTURES_MORE
_CATEGORIES: tuple[tuple[str, re.Pattern[str]], ...] = (
    (REFUSED, re.compile(r"^Backend compiler `[^`]*` failed|^Backend compiler exception", re.M)),
    (
        "data-dependent branch",
        re.compile(
            r"data-dependent (jump|branching|control|assertion)|generic_jump|data-dependent expression|"
            r"dynamic control flow",
            re.I,
        ),
    ),
    (
        _SCALAR,
        re.compile(
            r"Tensor\.item|capture_scalar_outputs|\btolist\b|_local_scalar_dense|"
            r"builtin: bool \[[^,]*TensorVariable|builtin operator `bool` with argument types \['Tensor",
            re.I,
        ),
    ),
    (
        "function transform that runs eagerly",
        re.compile(r"^Unsupported functorch tracing attempt|Calling torch\.func\.vmap\(compiled_fn\)", re.M),
    ),
    ("explicit graph break", re.compile(r"(?<!step_)graph_break\b", re.I)),
    (
        "disabled function",
        re.compile(
            r"torch\.compiler\.(?:disable|skip)|_dynamo\.disable|_TorchDynamoContext|skipfiles: .*eval_frame",
            re.I,
        ),
    ),
    (
        _DYNAMIC_OUTPUT,
        re.compile(r"dynamic shape operator|dynamic_output_shape|data.dependent (?:operator|output shape)", re.I),
    ),
    (
        "call to print or a logger",
        re.compile(
            r"builtin(?: operator)?:? `?print\b|builtin `?_warnings\.warn\b|"
            r"\blogging\b|LoggingLogger|^Logger not supported",
            re.M,
        ),
    ),
    (
        "function that dynamo skips",
        re.compile(
            r"skip function|marked as skipped|dynamo developers have intentionally|SkipFunctionVariable|"
            r"unsupported (?:Python )?builtin|inline in skipfiles|^Call to a time function",
            re.I | re.M,
        ),
    ),
)


def parse_break(payload: str, call: int = 0, stack: Sequence[Location] = ()) -> GraphBreak | None:
    """Return the graph break that a ``dynamo_graph_break_reason`` payload describes, or None if the payload contains no
    location.

    ``stack`` is the stack of user code from ``stack.whole_stack``, if known. This stack is more precise than the stack
    in the payload.
    """
    frames = list(stack) or [readable(frame) for frame in below_own(written_stack(payload))]
    if not frames:
        head = _HEAD.search(payload)
        if head is None:
            return None
        frames = [Location(head["file"], int(head["line"]))]
    match = _REASON.search(payload)
    reason_text = match["reason"] if match else payload
    for preamble in _PREAMBLES:
        reason_text = preamble.sub("", reason_text, count=1)
    location = user_location(frames)
    # ``stack`` contains only user frames; a location inside torch is only in the payload.
    innermost = [readable(frame) for frame in below_own(written_stack(payload))][-1:]
    if location.library is None and innermost and is_torch(innermost[0].file):
        location = replace(location, library=innermost[0])
    category = categorise(reason_text)
    reason, _, rest = reason_text.strip().partition("\n")
    labelled = _labelled(reason_text, "Explanation")
    led_here = callers(frames, location)
    broken = breaking_line(frames, location)
    return GraphBreak(
        location=location,
        reason=reason.strip() or "unknown reason",
        category=category,
        fingerprint=fingerprint(location, category, led_here),
        call=call,
        explanation=labelled[0] if labelled else rest.rstrip() if category == OTHER else "",
        hints=tuple(_labelled(reason_text, "Hint")),
        stack=tuple(frames),
        callers=led_here,
        module=module_of(broken.file),
        installed=is_library(broken.file),
    )


def written_stack(payload: str) -> list[Location]:
    """Return the stack of user code in torch's description of a graph break, outermost frame first."""
    stack_text = _STACK.search(payload)
    return raw_frames(stack_text["stack"]) if stack_text else []


def breaking_line(frames: Sequence[Location], location: Location) -> Location:
    """Return the innermost line outside torch and Python's standard library. The author of this line can remove the
    graph break.
    """
    written = [frame for frame in frames if not (is_torch(frame.file) or is_of_python(frame.file))]
    return written[-1] if written else location


def callers(frames: Sequence[Location], location: Location) -> tuple[Location, ...]:
    """Return the lines whose calls led to ``location``, outermost first. Lines in libraries are left out, unless
    ``location`` is in a library.
    """
    places = [(frame.file, frame.line) for frame in frames]
    innermost = len(places) - 1 - places[::-1].index((location.file, location.line))
    own = [frame for frame in frames[:innermost] if not is_library(frame.file)]
    return tuple(own if not is_library(location.file) else frames[:innermost])


def skips_function(payload: str) -> bool:
    """Return whether a ``dynamo_graph_break_reason`` payload says that the compiled function runs eagerly."""
    return "Skipping the function" in payload


def parse_error(reason: str, call: int, stack: list[Location]) -> GraphBreak | None:
    """Return the graph break of a function that dynamo skipped because of an error, or None if ``stack`` is empty.
    ``reason`` is the cause of the error.
    """
    frames = [readable(frame) for frame in below_own(stack)]
    return parse_break(f"Reason: {reason}\n", call, frames) if frames else None


def error_stack(trace: str) -> list[Location]:
    """Return the stack of user code at the end of an error message, outermost first."""
    user_code = trace.rsplit("from user code:", 1)
    return raw_frames(user_code[1].split("\n\n")[0]) if len(user_code) == 2 else []


def may_be_backends(graph_break: GraphBreak) -> bool:
    """Return whether the backend may have caused the graph break. Torch 2.6 and 2.8 do not always report the cause."""
    return graph_break.category == REFUSED or graph_break.reason.startswith(_SKIPPED)


def without_repeated(found: Sequence[GraphBreak]) -> list[GraphBreak]:
    """Drop the graph breaks that only repeat another break. If a backend rejects a graph, torch reports a break for
    each enclosing frame as well, and torch 2.6 reports a second break at the same line.
    """
    kept = [one for one in found if not one.reason.startswith(_SKIPPED)]
    lines = {(one.location.file, one.location.line) for one in kept}
    refused = any(one.category == REFUSED for one in kept)
    return [one for one in found if one in kept or not (refused or (one.location.file, one.location.line) in lines)]


def _labelled(text: str, label: str) -> list[str]:
    text = re.sub(r" at 0x[0-9a-f]+", "", text)
    # Continuation lines are indented more than the label.
    return [" ".join(part.split()) for part in re.findall(rf"^\s*{label}: (.+(?:\n {{4}}.*)*)$", text, re.M)]


def categorise(reason: str) -> str:
    """Return the category of torch's reason for a graph break, such as ``data-dependent branch``. The category is the
    same on every torch version.
    """
    return categories(_ADVICE.sub("", reason))[0]


def categories(said: str) -> list[str]:
    """Return all categories that match a message, in order of precedence."""
    return [name for name, pattern in _CATEGORIES if pattern.search(said)] or [OTHER]


def fingerprint(location: Location, category: str, callers: Sequence[Location] = ()) -> str:
    """Return a short id for a break. The id is the same on every machine, and does not change if the line or the file
    moves, or if torch words the reason differently.

    The id depends on the calls that led to the break. So if two lines call a helper function that breaks the graph,
    there are two breaks with different ids.
    """
    parts = [*_written_at(location), category]
    if location.library is not None:
        parts.append(location.library.function)
    for caller in callers:
        parts += _written_at(caller)
    return "gb-" + hashlib.sha1("\n".join(parts).encode(), usedforsecurity=False).hexdigest()[:10]


def _written_at(place: Location) -> list[str]:
    """Identify a line by its text instead of its position; identical lines in one function are numbered."""
    function = place.function.rsplit(".", 1)[-1]
    lines = linecache.getlines(place.file)[: place.line - 1]
    above = [line.strip() for line in lines]
    definition = (f"def {function}(", f"async def {function}(")
    start = max((number for number, line in enumerate(above) if line.startswith(definition)), default=None)
    name = function if start is None else f"{_class_around(lines, start)}{function}"
    parts = [name, place.source or f"{Path(place.file).name}:{place.line}"]
    same_text = above[start:].count(place.source) if start is not None and place.source else 0
    return [*parts, f"no. {same_text + 1} of its kind"] if same_text else parts


def _class_around(lines: Sequence[str], number: int) -> str:
    """Return the name of the innermost class around a line, followed by a dot; empty if the line is in no class."""
    indent = _indent(lines[number])
    for line in reversed(lines[:number]):
        if line.strip() and _indent(line) < indent:
            indent = _indent(line)
            if found := re.match(r"\s*class (\w+)", line):
                return f"{found[1]}."
    return ""


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
