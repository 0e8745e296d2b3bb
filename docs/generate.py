"""Makes the parts of the documentation that come from code or data.

mkdocs calls ``on_page_markdown`` while it builds. ``python docs/generate.py`` writes the pages about coverage, which are
kept in the repository so that they can be read without a build.
"""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path
from typing import Any

import yaml

from pytest_torch_compile.cli import commands as cli
from pytest_torch_compile.findings import FINDING_KINDS
from pytest_torch_compile.plugin import options as declared

ROOT = Path(__file__).parent.parent
COVERAGE = ROOT / "docs" / "coverage.md"
PRACTICES = ROOT / "docs" / "coverage" / "practices.yaml"
SCHEMA = ROOT / "src" / "pytest_torch_compile" / "report" / "report.schema.json"
TABLE = re.compile(r"(?<=<!-- begin: coverage -->\n).*?(?=<!-- end: coverage -->)", re.S)
NOTE = "<!-- Made by docs/generate.py from practices.yaml. -->"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put each generated part in the place of its mark."""
    parts = {"options": options, "command": command, "inputs": inputs, "outputs": outputs, "kinds": kinds}
    for name, make in parts.items():
        mark = f"<!-- generated: {name} -->"
        if mark in markdown:
            markdown = markdown.replace(mark, make())
    return markdown


def on_files(files: Any, config: Any) -> Any:
    """Show the schema of the report, which is a part of the package, beside the pages."""
    from mkdocs.structure.files import File

    files.append(File.generated(config, SCHEMA.name, abs_src_path=str(SCHEMA)))
    return files


def options() -> str:
    """Each option with its twin in the ini file below it."""
    named = {**declared.OPTIONS, **declared.FLAGS}
    rows = [(f"`--compile-{n}`<br>`compile_{n.replace('-', '_')}`", text) for n, text in named.items()]
    return table([("option, and in the ini file", "meaning"), *rows])


def inputs() -> str:
    rows = [("input", "default", "meaning")]
    declarations = _action()["inputs"].items()
    return table(
        rows + [(f"`{n}`", f"`{s['default']}`" if s["default"] else "", s["description"]) for n, s in declarations]
    )


def outputs() -> str:
    return table([("output", "meaning"), *((f"`{n}`", s["description"]) for n, s in _action()["outputs"].items())])


def kinds() -> str:
    return ", ".join(f"`{kind}`" for kind in FINDING_KINDS)


def command() -> str:
    """The help of every command, as it is printed."""
    os.environ["COLUMNS"] = "78"  # argparse wraps to the terminal that it runs in
    parser = cli._parser()
    (commands,) = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    return "\n\n".join(f"## {name}\n\n```text\n{one.format_help()}```" for name, one in commands.choices.items())


def table(rows: list[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


def coverage() -> dict[Path, str]:
    """The table of what the suites cover, and a page for each practice, with their files."""
    practices = yaml.safe_load(PRACTICES.read_text(encoding="utf-8"))
    rows = [("#", "practice", "CPU", "H200", "figure")]
    for p in practices:
        link = f"[{p['practice']}](coverage/{page_name(p)})"
        rows.append((str(p["number"]), link, p["cpu"], p["h200"], p["figure"]))
    overview = TABLE.sub(lambda _: f"\n{table(rows)}\n\n", COVERAGE.read_text(encoding="utf-8"))
    return {COVERAGE: overview, **{PRACTICES.parent / page_name(p): practice(p) for p in practices}}


def page_name(entry: dict[str, Any]) -> str:
    return f"{entry['number']:02}-{entry['name']}.md"


def practice(entry: dict[str, Any]) -> str:
    """The page of one practice."""
    parts = [NOTE, f"# {entry['practice']}", f"**CPU.** {entry['on_cpu']}", f"**H200.** {entry['on_h200']}"]
    if entry.get("measured") or entry.get("published"):
        published = [f"- Published: {entry['published']}"] if "published" in entry else []
        parts += ["## Figures", "\n".join([*published, *(f"- {figure}" for figure in entry.get("measured", []))])]
    parts += ["## Tests", "\n".join(f"- `{path}`" for path in entry["tests"])]
    parts += [f"Run with {entry['versions']}.", "[All practices](../coverage.md)"]
    return "\n\n".join(parts) + "\n"


def _action() -> Any:
    return yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))


if __name__ == "__main__":
    for path, text in coverage().items():
        path.write_text(text, encoding="utf-8")
