"""All views of one document, written side by side."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import document, html, markdown

HTML_NAME = "report.html"
MARKDOWN_NAME = "summary.md"


def write_all(made: Mapping[str, Any], folder: Path) -> Path:
    """Write ``report.json``, ``summary.md`` and, where Jinja2 is installed, ``report.html``.

    Returns:
        The file to look at first.
    """
    written = document.write(made, folder / document.FILE_NAME)
    document.write_text(markdown.summary(made), folder / MARKDOWN_NAME)
    if html.available():
        written = document.write_text(html.page(made), folder / HTML_NAME)
    return written
