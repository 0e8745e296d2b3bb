"""Find the line of user code in the stack of a hanging thread. This module does not import torch."""

from __future__ import annotations

import re
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from ..observation import Location
from .user_lines import OWN_FOLDER, user_location

# The format of Python's faulthandler.
_THREAD = re.compile(r"^(?:Current thread|Thread) 0x0*(?P<ident>[0-9a-f]+)")
_FRAME = re.compile(r'^  File "(?P<file>.+)", line (?P<line>\d+) in (?P<function>.+)$')
SHOWN = 8


def place_of(frames: Sequence[Location]) -> Location | None:
    """Return the innermost user frame, or None if all frames belong to this package. ``frames`` is ordered from the
    outermost frame to the innermost frame.
    """
    others = [frame for frame in frames if not frame.file.startswith(OWN_FOLDER)]
    return user_location(others) if others else None


def frames_of(frame: FrameType | None) -> list[Location]:
    """Return the stack that ends with this frame, outermost first."""
    stack = traceback.extract_stack(frame) if frame is not None else []
    return [Location(entry.filename, entry.lineno or 0, entry.name, entry.line or "") for entry in stack]


def main_frames(text: str) -> list[Location]:
    """Return the stack of the main thread, outermost first, from faulthandler's output.

    The first line of ``text`` is the id of the main thread. Other threads are ignored.
    """
    lines = text.splitlines()
    frames: list[Location] = []
    inside = False
    for line in lines[1:]:
        if thread := _THREAD.match(line):
            inside = thread["ident"] == lines[0]
        elif inside and (frame := _FRAME.match(line)):
            frames.append(Location(frame["file"], int(frame["line"]), frame["function"]))
    return frames[::-1]  # faulthandler writes the innermost frame first


def main_stack(path: Path) -> list[Location]:
    """Return the stack of the main thread, outermost first, from the file that faulthandler wrote. The result is empty
    if the file does not exist.
    """
    return main_frames(path.read_text(encoding="utf-8", errors="replace")) if path.exists() else []


def is_compiler(file: str) -> bool:
    """Return whether a file is the torch module in which dynamo compiles a frame."""
    return file.replace("\\", "/").endswith("torch/_dynamo/convert_frame.py")


def stack_text(frames: Sequence[Location]) -> str:
    """Return up to ``SHOWN`` of the innermost frames outside this package as text, one per line, innermost first."""
    frames = [frame for frame in frames if not frame.file.startswith(OWN_FOLDER)]
    return "\n".join(f"{frame.shown()}: {frame.source}".rstrip(": ") for frame in frames[: -SHOWN - 1 : -1])
