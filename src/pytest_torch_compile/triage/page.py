"""Show the differences between two releases in the terminal, as Markdown with an issue for each group, and as HTML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from importlib.util import find_spec
from pathlib import Path

from ..disk import write_atomically
from ..report import safe_text
from ..report.failure_text import count, cut
from ..report.safe_text import markdown_code as code
from .groups import Group, Status

TESTS_SHOWN = 10
EVIDENCE_LINES = 25
REPRODUCTION_LINES = 250
SHOWN_BY = "This script reproduces the failure (verified)"


@dataclass(frozen=True)
class Triage:
    """A comparison of one commit under two releases: the groups of failures, and the number of tests in each run.

    ``differences`` lists other packages that differ, and ``lost`` maps tests that ran only on the old torch version to
    their status on the new version.
    """

    old: str
    new: str
    groups: Sequence[Group]
    old_tests: int
    new_tests: int
    differences: Sequence[str] = ()
    lost: Mapping[str, str] = field(default_factory=dict)

    @property
    def sentence(self) -> str:
        """A summary: ``torch 2.13.0 -> 2.15.0: 3 new failures in 2 groups, 1 gone, 4 known, 0 flaky (120 and 121
        tests)``.
        """
        failures = Counter[Status]()
        for group in self.groups:
            failures[group.status] += len(group.tests)
        new = sum(group.status is Status.NEW for group in self.groups)
        shown = [Status.GONE, Status.KNOWN, Status.FLAKY]
        shown += [status for status in (Status.NOT_ON_OLD, Status.NOT_ON_NEW) if failures[status]]
        others = ", ".join(f"{failures[status]} {status.value}" for status in shown)
        return (
            f"torch {self.old} -> {self.new}: {count(failures[Status.NEW], 'new failure')} in {count(new, 'group')}, "
            f"{others} ({self.old_tests} and {self.new_tests} tests)"
        )

    @property
    def remarks(self) -> list[str]:
        """Notes about tests and packages that may explain or hide a difference."""
        lines = []
        if self.lost:
            how = ", ".join(f"{number} {what}" for what, number in sorted(Counter(self.lost.values()).items()))
            names = ", ".join([*self.lost][:TESTS_SHOWN]) + (", ..." if len(self.lost) > TESTS_SHOWN else "")
            ran = count(len(self.lost), "test")
            lines.append(f"{ran} ran with torch {self.old} but not with torch {self.new} ({how}): {names}")
        if self.differences:
            lines.append(f"Other packages that differ: {', '.join(self.differences)}")
        return lines


def text(triage: Triage) -> str:
    """Return the text for a terminal: a section for each group, with the group's tests."""
    lines = [triage.sentence, *triage.remarks]
    for number, group in enumerate(triage.groups, 1):
        tests = count(len(group.tests), "test")
        lines += ["", f"{number}. {group.status.value}, {tests}, {group.route.value}: {group.cause}"]
        lines += [f"   {_began(group)}"] if group.first_bad else []
        lines += [f"   {group.example.message}"]
        lines += [f"   {test}" for test in group.tests[:TESTS_SHOWN]]
        lines += [f"   and {len(group.tests) - TESTS_SHOWN} more"] if len(group.tests) > TESTS_SHOWN else []
        lines += [f"   reproduction: {group.example.reproduction}"] if group.example.reproduction else []
        lines.append(f"   run again: {_command(group)}")
    return "\n".join(map(safe_text.terminal, lines)) + "\n"


def markdown(triage: Triage) -> str:
    """Return a table of the groups, followed by the text of an issue for each group."""
    lines = [f"# {safe_text.markdown(triage.sentence)}", ""]
    for remark in triage.remarks:
        lines += [safe_text.markdown(remark), ""]
    if triage.groups:
        lines += ["| | status | tests | cause | look first at |", "|---:|---|---:|---|---|"]
    for number, group in enumerate(triage.groups, 1):
        cells = (str(number), group.status.value, str(len(group.tests)), code(str(group.cause)), group.route.value)
        lines.append(f"| {' | '.join(cells)} |")
    for number, group in enumerate(triage.groups, 1):
        lines += ["", *issue(triage, number, group)]
    return "\n".join(lines) + "\n"


def issue(triage: Triage, number: int, group: Group) -> Iterator[str]:
    """Yield the Markdown text of an issue about a group."""
    example = group.example
    yield f"## {number}. {code(cut(str(group.cause), 120))}"
    yield ""
    old, new = (safe_text.markdown(f"torch {release}") for release in (triage.old, triage.new))
    where = {
        Status.NEW: f"with {new}, but not with {old}",
        Status.NOT_ON_OLD: f"with {new}; the test did not run with {old}",
        Status.FLAKY: "in some runs only",
        Status.KNOWN: f"with {old} and {new}, or is marked as expected to fail",
        Status.GONE: f"with {old}, but not with {new}",
        Status.NOT_ON_NEW: f"with {old}; the test did not run with {new}",
    }
    began = f" It {_began(group)}." if group.first_bad else ""
    yield f"Fails {where[group.status]}.{began} Look first at: {group.route.value}."
    yield ""
    yield f"Message: {code(example.message)}"
    yield ""
    if evidence := [line for line in example.text.splitlines() if line.strip()][-EVIDENCE_LINES:]:
        yield from safe_text.markdown_block(evidence)
        yield ""
    for line in example.diagnosis:
        yield f"- diagnosis: {code(line)}"
    if example.hint:
        yield f"- likely fix: {code(example.hint)}"
    yield f"- run again: {code(_command(group))}"
    yield ""
    if source := reproduction(group):
        yield f"{SHOWN_BY}:"
        yield ""
        yield from safe_text.markdown_block(source)
        yield ""
    yield f"{count(len(group.tests), 'test')}:"
    yield ""
    yield from (f"- {code(test)}" for test in group.tests)


def reproduction(group: Group) -> list[str]:
    """Return the lines of the reproduction script, shortened to fit into an issue."""
    if not group.example.reproduction:
        return []
    path = Path(group.example.reproduction)
    lines = path.read_text(encoding="utf-8").splitlines()
    more = [f"# ... {len(lines) - REPRODUCTION_LINES} more lines in {path.name}"]
    return lines if len(lines) <= REPRODUCTION_LINES else lines[:REPRODUCTION_LINES] + more


def html(triage: Triage) -> str:
    """Return the page as a self-contained HTML file."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    def safe(value: object) -> object:
        return safe_text.html(value) if type(value) is str else value

    loader = PackageLoader("pytest_torch_compile.triage", "templates")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, finalize=safe
    )
    style = resources.files("pytest_torch_compile.report").joinpath("templates/page.css").read_text(encoding="utf-8")
    template = environment.get_template("triage.html")
    shown = {"count": count, "command": _command, "began": _began, "reproduction": reproduction, "shown_by": SHOWN_BY}
    return template.render(triage=triage, style=Markup(style), **shown)


def write(triage: Triage, folder: Path) -> Path:
    """Write ``triage.md`` and, if Jinja2 is installed, ``triage.html``. Return the path of the file to open first."""
    written = write_atomically(folder / "triage.md", markdown(triage))
    if find_spec("jinja2"):
        written = write_atomically(folder / "triage.html", html(triage))
    return written


def _began(group: Group) -> str:
    return f"first fails with torch {group.first_bad}; the last release on which it passes is {group.last_good}"


def _command(group: Group) -> str:
    """Return the command that reproduces the failure of the fastest test."""
    return group.example.rerun or f"python -m pytest {safe_text.shell(group.example.test)}"
