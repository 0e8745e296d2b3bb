"""Collect the full stack of user code at a graph break, starting where compiled code was entered. The result is the
same on every torch version.

The inlined frames are listed in the exception that torch handles while it reports the break. The callers of the inlined
frames are still running, so they are on Python's stack. The stack in torch's message is only a fallback. On torch 2.6,
the stack in torch's message lacks the callers. Since torch 2.8, the message merges functions of the same name that call
each other, such as a module's ``forward`` and its layer's ``forward``.

This module uses these private torch names, checked with torch 2.6, 2.8, 2.11, 2.13 and 2.15: ``real_stack`` of dynamo's
exceptions; the files ``torch/_dynamo/convert_frame.py`` (compiles a frame) and ``torch/_dynamo/eval_frame.py`` (the
entry to compiled code), of which only the names are used; and ``code``, a variable of the function that compiles a
frame.
"""

from __future__ import annotations

import contextlib
import itertools
import linecache
import logging
import sys
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import CodeType, FrameType

from ..observation import Location
from .user_lines import OWN_FOLDER, below_own, function_name, is_library, is_torch, readable

_COMPILES = "torch/_dynamo/convert_frame.py"
_ENTERS = "torch/_dynamo/eval_frame.py"
# Names of comprehension frames: Python's before 3.12, and dynamo's since 3.12.
_COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "__comprehension_")

# The modules that call the plugin's listeners.
_LISTENERS = (logging.__file__, warnings.__file__)

# A code object, identified by file, first line and name.
CodeKey = tuple[str, int, str]


@dataclass
class Running:
    """The frames that are running while torch compiles: ``above`` contains the callers of the compiled code, and
    ``inside`` the frames of the compiled code.
    """

    above: list[Location] = field(default_factory=list)
    inside: list[tuple[Location, int]] = field(default_factory=list)

    @classmethod
    def now(cls) -> Running:
        """Return the frames that are waiting for the compiler. The result is empty if the frame that entered compiled
        code cannot be found.
        """
        frames = list(_outward(sys._getframe(1)))
        compiler = next((place for place, frame in enumerate(frames) if _is(frame, _COMPILES)), len(frames))
        entry = next((place for place in range(compiler, len(frames)) if _is(frames[place], _ENTERS)), None)
        if entry is None:
            return cls()
        # The compiler itself uses Python's contextlib.
        inside = [
            frame
            for frame in frames[compiler:entry]
            if not is_torch(frame.f_code.co_filename) and frame.f_code.co_filename != contextlib.__file__
        ]
        return cls(
            [_location(frame) for frame in reversed(frames[entry:])],
            [(_location(frame), frame.f_code.co_firstlineno) for frame in reversed(inside)],
        )


def compiled_now() -> CodeType | None:
    """Return the code that torch is compiling, or None if it is unknown."""
    codes = (frame.f_locals.get("code") for frame in _outward(sys._getframe(1)) if _is(frame, _COMPILES))
    return next((code for code in codes if isinstance(code, CodeType)), None)


def inlined_now() -> list[Location]:
    """Return the stack from the compiled frame to the break that torch is handling, or an empty list if unknown."""
    stack = getattr(sys.exc_info()[1], "real_stack", None) or ()
    return [Location(frame.filename, frame.lineno or 0, frame.name, frame.line or "") for frame in stack]


def whole_stack(
    inlined: list[Location], written: list[Location], running: Running, broke_at: Mapping[CodeKey, int]
) -> list[Location]:
    """Return the frames of user code from the outermost compiled function to the break, outermost first.

    ``inlined`` is the stack from the compiled frame to the break. ``written`` is the stack in torch's text, which is
    used if ``inlined`` is empty. ``broke_at`` maps code objects to the lines of their graph breaks. This mapping is
    needed on torch 2.6, where a running frame reports only the first line of its function.
    """
    above, below = _users(below_own(running.above)), _users(below_own(inlined or written))
    if not inlined and written and any(_same_place(written[0], frame) for frame in running.above):
        # The text also contains the callers' frames, but merges adjacent frames of the same name, so only the innermost
        # frame is used.
        entered = above[-1:]
        starts = max((i + 1 for i, frame in enumerate(below) for e in entered if _same_place(frame, e)), default=0)
        frames = below[starts:]
    else:
        frames = []
        for frame, first in running.inside:
            line = broke_at.get((frame.file, first, frame.function), first) if frame.line == first else frame.line
            frames.append(Location(frame.file, line, frame.function, linecache.getline(frame.file, line).strip()))
        frames += below
    return _comprehensions_inlined([readable(frame) for frame in _resumed_once(frames)])


def _resumed_once(frames: list[Location]) -> list[Location]:
    """Keep only the innermost frame of a resumed function, because the stack also contains a frame for each earlier
    part of the function.
    """
    return [
        frame
        for frame, below in itertools.zip_longest(frames, frames[1:])
        if below is None
        or below.function == function_name(below.function)
        or (below.file, function_name(below.function)) != (frame.file, function_name(frame.function))
    ]


def _comprehensions_inlined(frames: list[Location]) -> list[Location]:
    """Merge a comprehension into its function, as Python 3.12 and newer do."""
    merged: list[Location] = []
    for frame in frames:
        if merged and frame.function.rsplit(".", 1)[-1].startswith(_COMPREHENSIONS) and frame.file == merged[-1].file:
            merged[-1] = replace(frame, function=merged[-1].function)
        else:
            merged.append(frame)
    return merged


def _outward(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _users(frames: list[Location]) -> list[Location]:
    return [frame for frame in frames if not is_torch(frame.file)]


def _same_place(one: Location, other: Location) -> bool:
    return (one.file, one.line) == (other.file, other.line)


def _location(frame: FrameType) -> Location:
    return Location(frame.f_code.co_filename, frame.f_lineno or 0, frame.f_code.co_name)


def line_now() -> Location | None:
    """Return the line of user code that the running check is executing, or None if the check is not on this thread's
    stack.
    """
    frames = [_location(frame) for frame in _outward(sys._getframe(1))]  # innermost first
    listening = (OWN_FOLDER, *_LISTENERS)
    outside = list(itertools.dropwhile(lambda frame: frame.file.startswith(listening), frames))
    users = [frame for frame in below_own(outside[::-1]) if not is_library(frame.file)]
    if not users:
        return None
    line = users[-1]
    return replace(readable(line), source=linecache.getline(line.file, line.line).strip())


def _is(frame: FrameType, file: str) -> bool:
    return frame.f_code.co_filename.replace("\\", "/").endswith(file)
