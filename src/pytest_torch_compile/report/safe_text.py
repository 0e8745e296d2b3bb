"""Text that others wrote, made safe for where it is shown: one function for each place.

Test ids, messages, source lines and guards come from the code under test, which may be a stranger's. Nothing in them
may move a cursor, turn a line around, end a cell, a tag or a command, or begin one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

# Everything below a space, DEL, the C1 controls (one of them begins an escape sequence), and ends of lines.
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_CONTROLS_IN_BLOCK = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
# They turn the direction of writing, or are not seen at all.
_UNSEEN = re.compile("[\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]")
# A runner takes the first for a command at the start of a line, and the older second one anywhere in it.
_COMMAND = re.compile(r"^(\s*):(?=:)|#(?=#\[)")


def terminal(text: str) -> str:
    """One line for a terminal or a log."""
    line = _UNSEEN.sub("", _CONTROLS.sub(" ", _encodable(text)))
    return _COMMAND.sub(lambda start: f"{start[1] or ''}{':' if start[1] is not None else '#'} ", line)


def shell(text: str) -> str:
    """One word of a POSIX shell: nothing in it is a command."""
    return "'" + text.replace("'", "'\"'\"'") + "'"


def terminal_block(text: str) -> str:
    """Several lines for a terminal or a log: those of the text."""
    return "\n".join(map(terminal, text.replace("\t", "    ").split("\n")))


def markdown(text: str) -> str:
    """Words in Markdown, on one line: everything that Markdown or HTML would read is escaped."""
    return re.sub(r"([\\`*_{}\[\]()#!|<>~@&])", r"\\\1", terminal(text))


def markdown_code(text: str) -> str:
    """A code span that holds in a table cell: nothing in it is Markdown, HTML, a mention or a new line."""
    line = terminal(text).replace("|", "\\|").strip()
    fence = "`" * (1 + _longest_fence([line]))
    space = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{space}{line}{space}{fence}" if line else ""


def markdown_block(lines: Iterable[str], indent: str = "") -> list[str]:
    """A block of code whose fence no line in it can close."""
    safe = [terminal(line.replace("\t", "    ")) for line in lines]
    fence = "`" * max(3, 1 + _longest_fence(safe))
    return [f"{indent}{line}" for line in (f"{fence}text", *safe, fence)]


def _longest_fence(lines: Iterable[str]) -> int:
    return max((len(run) for line in lines for run in re.findall("`+", line)), default=0)


def html(text: str) -> str:
    """What a page may hold; Jinja2 escapes the rest."""
    return _UNSEEN.sub("", _CONTROLS_IN_BLOCK.sub(" ", _encodable(text)))


def command_message(text: str) -> str:
    """The message of a GitHub workflow command; its own lines stay lines."""
    return html(text).replace("%", "%25").replace("\n", "%0A")


def command_property(text: str) -> str:
    """A property of a GitHub workflow command: a title, a file."""
    return command_message(terminal(text)).replace(":", "%3A").replace(",", "%2C")


def json_text(document: Mapping[str, Any]) -> str:
    """A document as the text of its file, which may be printed too."""
    text = json.dumps(document, indent=1, allow_nan=False)
    return text.replace("##[", "#\\u0023[").replace("\x7f", "\\u007f") + "\n"


def _encodable(text: str) -> str:
    """Half a surrogate pair, which no encoding has, as its escape."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
