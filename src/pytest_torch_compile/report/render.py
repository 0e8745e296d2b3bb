"""Write a document in each output format."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..disk import write_atomically
from . import document, html, markdown

HTML_NAME = "report.html"
MARKDOWN_NAME = "summary.md"


def write_all(made: Mapping[str, Any], folder: Path) -> Path:
    """Write ``report.json``, ``summary.md`` and, if Jinja2 is installed, ``report.html``.

    Returns:
        The file that users should open first.
    """
    written = document.write(made, folder / document.FILE_NAME)
    write_atomically(folder / MARKDOWN_NAME, markdown.summary(made))
    if html.available():
        written = write_atomically(folder / HTML_NAME, html.page(made))
    return written
