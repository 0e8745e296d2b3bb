"""Summarize an exception in a few lines. This module imports neither torch nor pytest."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import dropwhile, pairwise, takewhile

from ..findings import CompileUsageError
from ..observation import Location
from .object_text import message_of, text_of_error
from .user_lines import OWN_FOLDER, is_of_python, user_location

_REPORT_IT = re.compile(r"\b(report|file|open)\b.*\b(issue|bug)", re.I)
# Texts in the first error line of g++, clang++ and their linkers. "error: ld returned 1 exit status" comes later.
_OF_A_CPP_COMPILER = ("undefined reference", "cannot find", "error:")
_IN_A_KERNEL = re.compile(r"at \d+:\d+:")  # the first line of Triton's compilation errors


def usage_error(text: str, error: BaseException) -> CompileUsageError:
    """Create a usage error with ``text`` and the line of user code that raised ``error``.

    The caller should raise the usage error ``from None``, so that the traceback of ``error`` is not shown; ``error``
    remains the usage error's context.
    """
    frames = [
        Location(frame.filename, frame.lineno or 0, frame.name, frame.line or "")
        for frame in traceback.extract_tb(error.__traceback__)
        if not (frame.filename.startswith(OWN_FOLDER) or is_of_python(frame.filename))
    ]
    place = user_location(frames) if frames else None
    found = CompileUsageError(f"{text} (at {place.shown()})" if place is not None else text)
    found.__context__ = error
    return found


@contextmanager
def naming(function: str) -> Iterator[None]:
    """If a function of the caller raises an exception inside the ``with`` block, raise a usage error that names it.

    Raises:
        CompileUsageError: If the block raises an exception.
    """
    try:
        yield
    except CompileUsageError:
        raise
    except Exception as error:
        raise usage_error(f"{function} raises {text_of_error(error)}", error) from None


def error_summary(error: BaseException) -> str:
    """Return the exception's type and the main lines of its message.

    The main lines are the first line, the first line that starts with ``Please`` (unless it asks for a bug report), and
    the first error in a C++ compiler's output. The lines directly after the first line are also main lines, as long as
    each of them is a list item (``- ...``) or follows a line that ends in a colon.
    """
    lines = _without_kernel([line.strip() for line in message_of(error).splitlines() if line.strip()])
    if not lines:
        return type(error).__name__
    belongs = [line for _, line in takewhile(lambda p: p[0].endswith(":") or p[1].startswith("- "), pairwise(lines))]
    asked = [line for line in lines[1:] if line.startswith("Please ") and not _REPORT_IT.search(line)]
    printed = dropwhile(lambda line: line != "Output:", lines)
    wrong = [line for line in printed if any(words in line for words in _OF_A_CPP_COMPILER)]
    return "\n".join([f"{type(error).__name__}: {lines[0]}", *dict.fromkeys([*belongs, *asked[:1], *wrong[:1]])])


def _without_kernel(lines: list[str]) -> list[str]:
    """Remove a kernel's source from the message of Triton's compiler, except for the line that is wrong, which is
    marked by a caret in the line below it.
    """
    if not (lines and _IN_A_KERNEL.fullmatch(lines[0]) and "^" in lines[2:]):
        return lines
    caret = lines.index("^", 2)
    reason, *others = lines[caret + 1 :] or [""]
    return [f"at the kernel's line {lines[caret - 1]!r}{': ' if reason else ''}{reason}", *others]
