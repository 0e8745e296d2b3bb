"""Generate the parts of the documentation that come from code or data, between markers in the pages.

``python docs/generate.py`` writes the generated parts. ``python docs/generate.py --check`` only lists the pages that are
out of date. The generated parts are committed so that they can be read without a build. mkdocs loads this file as a
hook: on the site, mkdocstrings renders the Python reference, and links to files outside docs/ point to the repository.
"""

from __future__ import annotations

import argparse
import posixpath
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from libraries import summary  # noqa: E402
from pytest_torch_compile.cli import commands as cli  # noqa: E402
from pytest_torch_compile.findings import FINDING_KINDS  # noqa: E402
from pytest_torch_compile.plugin import options as declared  # noqa: E402
from tools import install, python_reference  # noqa: E402

PRACTICES = ROOT / "docs" / "coverage" / "practices.yaml"
SCHEMA = ROOT / "src" / "pytest_torch_compile" / "report" / "report.schema.json"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PART = re.compile(r"(<!-- begin: (?P<name>[\w-]+)(?P<words>[^>]*) -->\n).*?(<!-- end: (?P=name) -->)", re.S)
LINK = re.compile(r"(?<=\]\()(?P<path>(?:\.\./)+[^)#\s]+)")
NOTE = "<!-- Made by docs/generate.py from practices.yaml. -->"


def generated() -> dict[Path, str]:
    """Return the up-to-date text of each page that has generated parts, keyed by file."""
    pages = {page: page.read_text(encoding="utf-8") for page in PAGES}
    written = {page: filled(text) for page, text in pages.items() if PART.search(text)}
    return {**written, **practices()}


def filled(text: str) -> str:
    """Return the text of a page with its generated parts replaced by up-to-date ones."""

    def fill(found: re.Match[str]) -> str:
        made = PARTS[found["name"]](*found["words"].split())
        return f"{found[1]}\n{made}\n\n{found[4]}"

    return PART.sub(fill, text)


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Return the Markdown of a page for the site. mkdocs calls this hook for each page."""
    return links_to_repository(rendered_by_mkdocstrings(markdown), page.file.src_uri)


def rendered_by_mkdocstrings(markdown: str) -> str:
    """Return the page with mkdocstrings directives in place of the Python reference that readers on GitHub see."""

    def directive(found: re.Match[str]) -> str:
        if found["name"] != "python":
            return found[0]
        path, *members = found["words"].split()
        lines = [f"::: {path}"]
        if members:
            names = [name for name in members[0].removeprefix("members=").split(",") if name]
            heads = ["show_root_heading: false", "show_root_toc_entry: false"] if names else []
            lines += ["    options:", *(f"      {line}" for line in [*heads, f"members: [{', '.join(names)}]"])]
        return "\n".join(lines)

    return PART.sub(directive, markdown)


def links_to_repository(markdown: str, page: str) -> str:
    """Return the page with links to files outside docs/ pointing to the repository, except for links to the report's
    schema, which is on the site.
    """

    def link(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), found["path"]))
        if target == SCHEMA.relative_to(ROOT).as_posix():
            return posixpath.relpath(SCHEMA.name, posixpath.dirname(page) or ".")
        return found["path"] if target.startswith("docs/") else f"{install.REPOSITORY}/blob/main/{target}"

    return LINK.sub(link, markdown)


def on_files(files: Any, config: Any) -> Any:
    """Add the report's schema, which is a file of the package, to the files of the site. mkdocs calls this hook."""
    from mkdocs.structure.files import File

    files.append(File.generated(config, SCHEMA.name, abs_src_path=str(SCHEMA)))
    return files


def options() -> str:
    """Return the table of options. The first column contains the command-line option and the ini option."""
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
    """Return a section for each command, with its arguments and options."""
    return "\n\n".join(_command(*one) for one in _commands(cli._parser()))


def statuses() -> str:
    """Return the table of the exit statuses of all commands."""
    rows = [("command", "0", "1"), *((f"`{name}`", *meanings) for name, meanings in cli.STATUSES.items())]
    return f"{table(rows)}\n\nStatus 2: {cli.STATUS_2}."


def _commands(parser: argparse.ArgumentParser, name: str = "", text: str = "") -> list[tuple[Any, ...]]:
    """Return the name, parser and one-line help text of each command that has no subcommands."""
    nested = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not nested:
        return [(name, parser, f"{text[:1].upper()}{text[1:]}.")]
    texts = {choice.dest: choice.help or "" for choice in nested[0]._choices_actions}
    children = nested[0].choices.items()
    return [one for child, its in children for one in _commands(its, f"{name} {child}".strip(), texts[child])]


def _command(name: str, parser: argparse.ArgumentParser, help_text: str) -> str:
    rows = [("argument", "meaning")]
    for action in parser._actions:
        if action.help and action.dest != "help":
            rows.append((f"`{_written(action)}`", action.help % {**vars(action), "prog": parser.prog}))
    parts = [f"## {name}", parser.description or help_text, table(rows) if len(rows) > 1 else ""]
    return "\n\n".join(part for part in parts if part)


def _written(action: argparse.Action) -> str:
    """Return an argument as a user types it."""
    choices = "{" + ",".join(map(str, action.choices)) + "}" if action.choices else ""
    value = choices or str(action.metavar or action.dest.upper())
    if action.option_strings:
        return " ".join([", ".join(action.option_strings), *([value] if action.nargs != 0 else [])])
    return f"{action.metavar or action.dest}{'...' if action.nargs in ('*', '+') else ''}"


def table(rows: list[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


def python(path: str, members: str = "") -> str:
    """Return the Python reference of one object, or of the named members of a module."""
    return python_reference.described(path, tuple(members.removeprefix("members=").split(",")) if members else None)


def install_command(extras: str = "", *others: str) -> str:
    """Return the command that installs the plugin with these extras, and other packages."""
    return install.command(extras, " ".join(others))


def coverage() -> str:
    """Return the table of the practices that the suites cover."""
    rows = [("#", "practice", "CPU", "H200", "figure")]
    for p in _practices():
        link = f"[{p['practice']}](coverage/{page_name(p)})"
        rows.append((str(p["number"]), link, p["cpu"], p["h200"], p["figure"]))
    return table(rows)


def libraries() -> str:
    """Return the results of ``check_compile`` on third-party libraries."""
    return summary.page()


def practices() -> dict[Path, str]:
    """Return the pages for the practices that the suites cover, keyed by file."""
    return {PRACTICES.parent / page_name(entry): practice(entry) for entry in _practices()}


def page_name(entry: dict[str, Any]) -> str:
    return f"{entry['number']:02}-{entry['name']}.md"


def practice(entry: dict[str, Any]) -> str:
    """Return the page of one practice."""
    parts = [NOTE, f"# {entry['practice']}", f"**CPU.** {entry['on_cpu']}", f"**H200.** {entry['on_h200']}"]
    if entry.get("measured") or entry.get("published"):
        published = [f"- Published elsewhere: {entry['published']}"] if "published" in entry else []
        parts += ["## Figures", "\n".join([*published, *(f"- {figure}" for figure in entry.get("measured", []))])]
    parts += ["## Tests", "\n".join(f"- `{path}`" for path in entry["tests"])]
    parts += [f"Versions and date: {entry['versions']}.", "[All practices](../coverage.md)"]
    return "\n\n".join(parts) + "\n"


def _practices() -> Any:
    return yaml.safe_load(PRACTICES.read_text(encoding="utf-8"))


def _action() -> Any:
    return yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))


PARTS: dict[str, Callable[..., str]] = {
    "command": command,
    "coverage": coverage,
    "inputs": inputs,
    "install": install_command,
    "install-section": install.section,
    "kinds": kinds,
    "libraries": libraries,
    "options": options,
    "outputs": outputs,
    "python": python,
    "statuses": statuses,
}


def main(arguments: list[str]) -> int:
    """Write the generated parts, or list the pages that are out of date."""
    stale = {
        path: text
        for path, text in generated().items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    }
    for path, text in stale.items():
        if "--check" in arguments:
            print(f"{path.relative_to(ROOT)} is out of date: run python docs/generate.py")
        else:
            path.write_text(text, encoding="utf-8")
    return int(bool(stale) and "--check" in arguments)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
