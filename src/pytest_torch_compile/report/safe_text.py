"""Escape untrusted text, with one function for each output format.

Test ids, messages, source lines and guards come from the code under test, which may be untrusted. Such text must not
move the cursor, change the text direction, or start or end a table cell, tag or command.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

# Control characters below the space, DEL, the C1 controls (one of them starts an escape sequence), and line separators.
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_CONTROLS_IN_BLOCK = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
# Characters that change the text direction or are invisible.
_UNSEEN = re.compile("[\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]")
# GitHub's runner interprets ``::`` as a command only at the start of a line, and the older ``##[`` anywhere in a line.
_COMMAND = re.compile(r"^(\s*):(?=:)|#(?=#\[)")


def terminal(text: str) -> str:
    """Make text safe for one line in a terminal or a log."""
    line = _UNSEEN.sub("", _CONTROLS.sub(" ", _encodable(text)))
    return _COMMAND.sub(lambda start: f"{start[1] or ''}{':' if start[1] is not None else '#'} ", line)


def shell(text: str) -> str:
    """Quote text as one word for a POSIX shell, so that the text cannot run a command."""
    return "'" + text.replace("'", "'\"'\"'") + "'"


def terminal_block(text: str) -> str:
    """Make text safe for a terminal or a log, but keep its line breaks."""
    return "\n".join(map(terminal, text.replace("\t", "    ").split("\n")))


def markdown(text: str) -> str:
    """Make text safe for one line of Markdown, by escaping all Markdown and HTML syntax."""
    return re.sub(r"([\\`*_{}\[\]()#!|<>~@&])", r"\\\1", terminal(text))


def markdown_code(text: str) -> str:
    """Create a Markdown code span that is safe in a table cell: the span contains no markup, mentions or newlines."""
    line = terminal(text).replace("|", "\\|").strip()
    fence = "`" * (1 + _longest_fence([line]))
    space = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{space}{line}{space}{fence}" if line else ""


def markdown_block(lines: Iterable[str], indent: str = "") -> list[str]:
    """Create a Markdown code block with a fence that is longer than any run of backticks in ``lines``."""
    safe = [terminal(line.replace("\t", "    ")) for line in lines]
    fence = "`" * max(3, 1 + _longest_fence(safe))
    return [f"{indent}{line}" for line in (f"{fence}text", *safe, fence)]


def _longest_fence(lines: Iterable[str]) -> int:
    return max((len(run) for line in lines for run in re.findall("`+", line)), default=0)


def html(text: str) -> str:
    """Make text safe for an HTML page: replace control characters with spaces, and remove invisible characters. Jinja2
    escapes the markup.
    """
    return _UNSEEN.sub("", _CONTROLS_IN_BLOCK.sub(" ", _encodable(text)))


def command_message(text: str) -> str:
    """Make text safe as the message of a GitHub workflow command, but keep its line breaks."""
    return html(text).replace("%", "%25").replace("\n", "%0A")


def command_property(text: str) -> str:
    """Make text safe as a property of a GitHub workflow command, such as a title or a file."""
    return command_message(terminal(text)).replace(":", "%3A").replace(",", "%2C")


def json_text(document: Mapping[str, Any]) -> str:
    """Return a document as a JSON string that is also safe to print."""
    # GitHub's runner interprets ``##[`` anywhere in a line, and ``json`` does not escape DEL.
    text = json.dumps(document, indent=1, allow_nan=False)
    return text.replace("##[", "#\\u0023[").replace("\x7f", "\\u007f") + "\n"


def _encodable(text: str) -> str:
    """Return the text with unpaired surrogates escaped, because they cannot be encoded."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
