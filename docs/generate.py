"""Fills the parts of the documentation that come from the code, while mkdocs builds it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import yaml

from pytest_torch_compile.cli import commands as cli
from pytest_torch_compile.findings import FINDING_KINDS
from pytest_torch_compile.plugin import options as declared

ROOT = Path(__file__).parent.parent


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put each generated part in the place of its mark."""
    parts = {"options": options, "command": command, "inputs": inputs, "outputs": outputs, "kinds": kinds}
    for name, make in parts.items():
        mark = f"<!-- generated: {name} -->"
        if mark in markdown:
            markdown = markdown.replace(mark, make())
    return markdown


def options() -> str:
    rows = [("option", "ini", "meaning")]
    named = {**declared.OPTIONS, **declared.FLAGS}
    rows += [(f"`--compile-{n}`", f"`compile_{n.replace('-', '_')}`", text) for n, text in named.items()]
    return table(rows)


def inputs() -> str:
    rows = [("input", "default", "meaning")]
    found = _action()["inputs"].items()
    return table(rows + [(f"`{n}`", f"`{s['default']}`" if s["default"] else "", s["description"]) for n, s in found])


def outputs() -> str:
    return table([("output", "meaning"), *((f"`{n}`", s["description"]) for n, s in _action()["outputs"].items())])


def kinds() -> str:
    return ", ".join(f"`{kind}`" for kind in FINDING_KINDS)


def command() -> str:
    """The help of every command, as it is printed."""
    parser = cli._parser()
    (commands,) = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    return "\n\n".join(f"## {name}\n\n```text\n{one.format_help()}```" for name, one in commands.choices.items())


def table(rows: list[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


def _action() -> Any:
    return yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
