"""What went wrong on several ranks, as one failure: the same finding once, with the ranks that have it."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ..check.describe import rerun_command
from ..findings import CompileCheckFailed, Finding
from ..observation import Location
from ..report.text import count, failure_text, finding_text
from .worker import Outcome, place_of

_FIGURES = re.compile(r"\d+\.\d+(?:e[-+]?\d+)?|\d+e[-+]?\d+")
_THREAD = re.compile(r"^(?:Current thread|Thread) 0x0*(?P<ident>[0-9a-f]+)")
_FRAME = re.compile(r'^  File "(?P<file>.+)", line (?P<line>\d+) in (?P<function>.+)$')


def named(ranks: Iterable[int]) -> str:
    """``rank 1``, ``ranks 0, 1``."""
    numbers = sorted(ranks)
    return f"rank{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


def merged(outcomes: Sequence[Outcome]) -> list[Finding]:
    """The findings of all ranks, the earliest failure's first; those that differ in figures only are one."""
    found: dict[object, tuple[Finding, set[int]]] = {}
    for outcome in sorted((o for o in outcomes if o.findings), key=lambda outcome: outcome.ended):
        for finding in outcome.findings:
            key = (finding.kind, finding.location, _FIGURES.sub("#", finding.message))
            found.setdefault(key, (finding, set()))[1].add(outcome.rank)
    return [replace(finding, message=f"{named(ranks)}: {finding.message}") for finding, ranks in found.values()]


def died(codes: Mapping[int, int], stacks: Mapping[int, Location | None], others: Sequence[Outcome]) -> list[Finding]:
    """A finding for each way in which ranks ended without an answer; what it did to the others is its evidence."""
    found = []
    for code in sorted(set(codes.values())):
        ranks = [rank for rank, ended in codes.items() if ended == code]
        after = [f"then {named([o.rank])} raised {f.message}" for o in others for f in o.findings[:1]]
        message = f"{named(ranks)} {_how(code)} and gave no answer"
        found.append(Finding("exception", message, stacks.get(ranks[0]), "\n".join(after)))
    return found


def _how(code: int) -> str:
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"


def hung(seconds: float, stacks: Mapping[int, Location | None]) -> Finding:
    """The finding that ranks were still running at the time limit, and where each of them was."""
    where = next((stack for stack in stacks.values() if stack is not None), None)
    message = f"{named(stacks)} did not end within {seconds:g} s"
    hint = "where ranks wait in a collective, find the one that did not call it, or give a longer timeout"
    return Finding("exception", message, where, "\n".join(still_there(stacks)), hint)


def still_there(stacks: Mapping[int, Location | None]) -> list[str]:
    """One line for each rank that had to be ended."""
    return [f"{named([rank])} was {_at(stack)} when it was ended" for rank, stack in sorted(stacks.items())]


def _at(location: Location | None) -> str:
    if location is None:
        return "at a place that is not known"
    inside = f", inside {location.library.shown()}," if location.library else ""
    return f"at {location.shown()}{inside}"


def main_stack(path: Path) -> Location | None:
    """Where the main thread was, from the last dump in a rank's stack file; None if there is none."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []
    main = lines[0] if lines else ""
    frames: list[Location] = []
    inside = False
    for line in lines[1:]:
        if thread := _THREAD.match(line):
            inside = thread["ident"] == main
            frames = [] if inside else frames
        elif inside and (match := _FRAME.match(line)):
            frames.append(Location(match["file"], int(match["line"]), match["function"]))
        elif not line.strip():
            inside = False
    return place_of(frames[::-1])


def failed(name: str, world_size: int, findings: list[Finding], outcomes: Sequence[Outcome]) -> CompileCheckFailed:
    """The one failure of all ranks; its report is that of the first rank whose check failed."""
    reports = [outcome for outcome in outcomes if outcome.report is not None and outcome.findings]
    if reports and reports[0].report is not None:
        target = f"{reports[0].report.target} ({named(outcome.rank for outcome in reports)} of {world_size}, {name})"
        report = replace(reports[0].report, target=target, findings=findings, rerun=rerun_command())
        report.text = failure_text(report)
        return CompileCheckFailed(report.text, report, findings)
    head = f"{name} on {count(world_size, 'rank')} does not hold: {count(len(findings), 'finding')}"
    blocks = [head, *(finding_text(number, finding) for number, finding in enumerate(findings, 1))]
    if rerun := rerun_command():
        blocks.append(f"Run again: {rerun}")
    return CompileCheckFailed("\n\n".join(blocks), None, findings)


def alive_of(token: str) -> list[int]:
    """The processes whose environment names the token: a group's ranks, and whatever these have started. Linux only."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/environ"):
        try:
            if token.encode() in entry.read_bytes() and int(entry.parent.name) != os.getpid():
                found.append(int(entry.parent.name))
        except OSError:  # it has ended, or is another user's
            continue
    return found
