"""Create GitHub annotations from a document: workflow commands that refer to lines of user code. The worst finding
comes first, and the number of annotations stays within GitHub's limits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from . import safe_text, view
from .failure_text import count, cut, headline

# GitHub shows ten annotations of each level per step and silently drops the rest.
PER_LEVEL = 10
MESSAGE_LIMIT = 4000


@dataclass(frozen=True)
class Annotation:
    """An annotation: a message about one line of a file in the repository."""

    level: str
    file: str
    line: int
    title: str
    message: str

    def command(self) -> str:
        """Return the workflow command, escaped so that its contents can neither end the command nor start another
        command.
        """
        where = f"file={safe_text.command_property(self.file)},line={self.line}," if self.file else ""
        message = safe_text.command_message(cut(self.message, MESSAGE_LIMIT))
        return f"::{self.level} {where}title={safe_text.command_property(self.title)}::{message}"


def ranked(made: Mapping[str, Any], prefix: str = "") -> list[Annotation]:
    """Return the annotations that fit within the limits, worst first. If there are too many errors or too many
    warnings, the last annotation of that level contains the number of omitted findings.

    ``prefix`` is the folder in which pytest ran, relative to the repository's root; it is empty for the root itself.
    """
    found = list(_unique([*_errors(made, prefix), *_warnings(made, prefix)]))
    shown: list[Annotation] = []
    for level in ("error", "warning"):
        own = [one for one in found if one.level == level]
        if len(own) > PER_LEVEL:
            more = f"{len(own) - PER_LEVEL + 1} more findings: see the step summary"
            own[PER_LEVEL - 1 :] = [Annotation(level, "", 0, "torch.compile", more)]
        shown += own
    return shown


def _unique(found: Sequence[Annotation]) -> Iterator[Annotation]:
    """Yield one annotation for each line and kind, so that a break found by many tests appears only once."""
    groups: dict[tuple[str, str, int, str], list[Annotation]] = {}
    for one in found:
        groups.setdefault((one.level, one.file, one.line, one.title), []).append(one)
    for first, *others in groups.values():
        more = f"\n(and {count(len(others), 'more finding')} of this kind on this line)" if others else ""
        yield replace(first, message=first.message + more)


def _errors(made: Mapping[str, Any], prefix: str) -> Iterator[Annotation]:
    for found in view.findings(made):
        finding = found.finding
        labelled = [("cause", finding.get("cause")), ("fix", finding["hint"])]
        lines = [headline(finding), finding["evidence"], *(f"{label}: {text}" for label, text in labelled if text)]
        file, line = _in_repository(found, prefix)
        yield Annotation("error", file, line, f"torch.compile: {finding['kind']}", "\n".join(filter(None, lines)))


def _in_repository(found: view.Found, prefix: str) -> tuple[str, int]:
    """Return the finding's file and line. If this file is outside the repository, GitHub cannot show it, so return the
    test's file and line instead.
    """
    # Outside are absolute paths (on Windows, with a drive letter), and code without a file, such as <stdin>.
    inside = not found.file.startswith(("/", "<", "..")) and ":" not in found.file[:3]
    file, line = (found.file, found.line) if inside else (str(found.test["file"]), int(found.test["line"]))
    return (f"{prefix.rstrip('/')}/{file}" if prefix else file), max(1, line)


def _warnings(made: Mapping[str, Any], prefix: str) -> Iterator[Annotation]:
    for test in made["tests"]:
        for result in (*test["speed"], *view.plans(test)):
            if result.get("outcome") in ("no-baseline", "inconclusive"):
                file, line = _in_repository(view.Found(test, None, {"location": None}), prefix)
                text = f"{test['id']}: {result['summary']}"
                yield Annotation("warning", file, line, f"torch.compile: {result['outcome']}", text)
