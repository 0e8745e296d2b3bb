"""Generate the Python reference as Markdown for readers of the repository. The site renders it with mkdocstrings."""

from __future__ import annotations

import logging
import re
from functools import cache
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parents[1] / "src"


@cache
def _package() -> Any:
    import griffe

    # griffe warns about parameters that share a line of a docstring, which this project allows.
    logging.getLogger("griffe").setLevel(logging.ERROR)
    return griffe.load("pytest_torch_compile", search_paths=[SOURCE])


def described(path: str, members: tuple[str, ...] = ()) -> str:
    """Return Markdown for the object at a dotted path: its description, arguments, return value, exceptions and
    members.
    """
    found = _package()[path.removeprefix("pytest_torch_compile.")]
    found = found.final_target if found.is_alias else found
    if found.is_module:
        return "\n\n".join(_object(found.members[name], 2) for name in members)
    return _object(found, 2)


def _object(found: Any, level: int) -> str:
    parts = [f"{'#' * level} {found.name}"]
    if found.docstring:
        for part in found.docstring.parse("google"):
            parts.append(_SECTIONS.get(part.kind.value, _other)(part, found))
    if found.is_class:
        parts += _attributes(found)
        shown = [one for name, one in found.members.items() if one.is_function and not name.startswith("_")]
        parts += [_object(one, level + 1) for one in shown if one.docstring and not one.is_alias]
    return "\n\n".join(part for part in parts if part)


def _text(part: Any, _: Any) -> str:
    # "Example::" starts a literal block in docstrings; the indented block is valid in both formats.
    return re.sub(r"::$", ":", str(part.value).replace("``", "`"), flags=re.M)


def _parameters(part: Any, found: Any) -> str:
    defaults = _defaults(found)
    rows = ["| argument | default | meaning |", "| --- | --- | --- |"]
    for one in part.value:
        names = [name.strip() for name in one.name.split(",")]
        values = [defaults.get(name.lstrip("*"), "") for name in names]
        default = ", ".join(dict.fromkeys(f"`{value}`" for value in values if value))
        rows.append(f"| {', '.join(f'`{name}`' for name in names)} | {default} | {_cell(one.description)} |")
    return "\n".join(rows)


def _defaults(found: Any) -> dict[str, str]:
    """Return the default values of a function's arguments, or of a class's constructor arguments."""
    signature = found.parameters
    return {one.name: _short(one.default) for one in signature if one.default is not None and one.name != "self"}


def _short(default: Any) -> str:
    """Return the default as written in the source, or an empty string for an empty collection or a lambda."""
    text = str(default)
    return "" if text in ("()", "{}", "[]", "dict()", "list()", "frozenset()") or "lambda" in text else text


def _returns(part: Any, _: Any) -> str:
    return "**Returns** " + " ".join(_cell(one.description) for one in part.value)


def _raises(part: Any, _: Any) -> str:
    return "\n".join(["**Raises**", "", *(f"- `{one.annotation}`: {_cell(one.description)}" for one in part.value)])


def _other(part: Any, _: Any) -> str:
    raise ValueError(f"docstring sections of kind {part.kind.value} are not supported")


def _attributes(found: Any) -> list[str]:
    """Return a table of a class's attributes that have a description, or an empty list."""
    fields = [one for name, one in found.members.items() if one.is_attribute and not name.startswith("_")]
    rows = [(one.name, _cell(one.docstring.value)) for one in fields if one.docstring and not one.is_alias]
    if not rows:
        return []
    lines = [f"| `{name}` | {text} |" for name, text in rows]
    return ["\n".join(["| attribute | meaning |", "| --- | --- |", *lines])]


def _cell(text: str) -> str:
    return re.sub(r"\s*\n\s*", " ", text.strip()).replace("``", "`").replace("|", "\\|")


_SECTIONS = {"text": _text, "parameters": _parameters, "returns": _returns, "yields": _returns, "raises": _raises}
