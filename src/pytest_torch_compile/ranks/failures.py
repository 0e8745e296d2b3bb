"""Combine the failures of several ranks into one failure, in which each finding is listed once."""

from __future__ import annotations

import os
import signal
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from .. import advice
from ..check.describe import rerun_command
from ..findings import CompileCheckFailed, Finding
from ..observation import Location
from ..report.failure_text import count, failure_text, finding_texts, headline
from .divergence import RankSeen, divergences, left_early
from .progress import CheckSeen
from .rank import Outcome, Raised

SKIPS = ("Skipped", "SkipTest")  # the exceptions of pytest and unittest


def named(ranks: Iterable[int]) -> str:
    """Format a list of ranks: ``rank 1``, ``ranks 0, 1``."""
    numbers = sorted(ranks)
    return f"rank{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


def merged(outcomes: Iterable[Outcome]) -> list[Finding]:
    """Return the findings of all ranks, starting with the earliest failure. Identical findings of several ranks are
    merged.
    """
    groups: dict[object, list[tuple[int, Finding]]] = {}
    for outcome in sorted(outcomes, key=lambda outcome: outcome.ended):
        if raised := outcome.raised:
            # The text of the same error may contain a different number or device on each rank.
            text = raised.text if raised.location is None else ""
            groups.setdefault((raised.type, raised.location, text), []).append((outcome.rank, _raised(raised)))
        for finding in outcome.findings:
            # Measured values, and messages that contain them, may differ between ranks.
            sentence = finding.message if finding.measured is None or not finding.subject else ""
            key = (finding.kind, finding.location, finding.subject, finding.calls, sentence)
            groups.setdefault(key, []).append((outcome.rank, finding))
    return [replace(members[0][1], ranks=tuple(sorted({rank for rank, _ in members}))) for members in groups.values()]


def _raised(error: Raised) -> Finding:
    first, *others = error.text.splitlines()
    evidence = others[:10]
    if error.location is not None:
        evidence.insert(0, error.location.source)
        if library := error.location.library:
            evidence.append(f"inside {library}: {library.source}")
    return Finding("exception", f"{error.type}: {first}", error.location, "\n".join(evidence))


@dataclass
class RankEnd:
    """The way in which a call ended on one rank. If there is no ``outcome``, the rank died (``exit_code``), was
    terminated at ``place``, or does not answer (``lost`` is the reason).

    ``checks`` contains the observations of the rank's checks. ``compiling`` is true if the rank was terminated while it
    was compiling.
    """

    rank: int
    outcome: Outcome | None
    exit_code: int | None = None
    place: Location | None = None
    compiling: bool = False
    checks: Mapping[str, CheckSeen] = field(default_factory=dict)
    log: Sequence[str] = ()
    lost: str = ""

    @property
    def was_ended(self) -> bool:
        """Whether the rank was still running, and therefore was terminated."""
        return self.outcome is None and not self.how_it_died

    @property
    def how_it_died(self) -> str:
        """The way in which the rank died, the reason why it does not answer, or an empty string."""
        code = self.exit_code
        if code is None:
            return self.lost
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        return f"{how} before it returned a result"

    def seen(self) -> RankSeen:
        """Return the observations of the rank's checks, and whether the observations of the most recent call are
        incomplete.
        """
        failed = self.outcome is not None and self.outcome.raised is not None
        return RankSeen(self.checks, stopped=self.compiling or failed or bool(self.how_it_died))


def findings_of(ends: Sequence[RankEnd], same: Collection[str], seconds: float) -> list[Finding]:
    """Return findings about differences between ranks, followed by findings about the most serious failures.

    Only the most serious kind of failure is reported. In order of seriousness, the kinds are: ranks that died, ranks
    that failed, and ranks that did not finish within ``seconds``.
    """
    outcomes = [end.outcome for end in ends if end.outcome is not None]
    running = [end for end in ends if end.was_ended]
    seen = {end.rank: end.seen() for end in ends}
    differing = divergences(seen, same)
    if any(end.how_it_died for end in ends):
        findings = _died(ends, outcomes)
    elif running and all(outcome.value is not None for outcome in outcomes):
        if "end" in same:
            returned = [outcome.rank for outcome in outcomes]
            differing += left_early(seen, returned, [end.rank for end in running])
        place = next((end.place for end in running if end.place is not None), None)
        ranks = tuple(end.rank for end in running)
        message = f"did not finish within {seconds:g} s"
        findings = [Finding("exception", message, place, hint=advice.RANKS_WAIT, ranks=ranks, limit=seconds)]
    else:
        findings = merged(outcomes)
    if running:
        lines = [findings[0].evidence]
        for end in running:
            at = f"at {end.place.shown()}" if end.place else "at an unknown location"
            inside = f", inside {end.place.library.shown()}," if end.place and end.place.library else ""
            lines.append(f"rank {end.rank} was {at}{inside} when it was terminated")
        findings[0] = replace(findings[0], evidence="\n".join(filter(None, lines)))
    return differing + findings


def skip_reason(ends: Sequence[RankEnd]) -> str | None:
    """Return the reason for which ranks skipped the test, or None if no rank did or another rank failed."""
    failures = [end.outcome for end in ends if end.outcome is not None and end.outcome.value is None]
    skips = [outcome.raised for outcome in failures if outcome.raised and outcome.raised.type in SKIPS]
    others_failed = len(skips) < len(failures) or any(end.how_it_died for end in ends)
    return skips[0].text if skips and not others_failed else None


def _died(ends: Sequence[RankEnd], others: Iterable[Outcome]) -> list[Finding]:
    """Return findings about the ranks that died, one for each cause, such as a signal or an exit code. The evidence
    lists the first finding of each other rank that failed.
    """
    after = [f"then {headline(finding)}" for outcome in others for finding in merged([outcome])[:1]]
    findings = []
    for how in dict.fromkeys(end.how_it_died for end in ends if end.how_it_died):
        dead = [end for end in ends if end.how_it_died == how]
        ranks = tuple(end.rank for end in dead)
        findings.append(Finding("exception", how, dead[0].place, "\n".join(after), ranks=ranks))
    return findings


def failed(name: str, world_size: int, findings: list[Finding], outcomes: Iterable[Outcome]) -> CompileCheckFailed:
    """Return one failure for all ranks. If a check failed, the failure contains the report of the first rank whose
    check failed, with the findings of all ranks.
    """
    checks = [(outcome.rank, outcome.report) for outcome in outcomes if outcome.report and outcome.findings]
    if checks:
        first = checks[0][1]
        target = f"{first.target} ({named(rank for rank, _ in checks)} of {world_size}, {name})"
        report = replace(first, target=target, findings=findings, rerun=rerun_command())
        report.text = failure_text(report)
        return CompileCheckFailed(report.text, report, findings)
    head = f"{name} failed when run on {count(world_size, 'rank')}: {count(len(findings), 'finding')}"
    blocks = [head, *finding_texts(findings)]
    if rerun := rerun_command():
        blocks.append(f"Run again: {rerun}")
    return CompileCheckFailed("\n\n".join(blocks), None, findings)


def processes_with(token: str) -> list[int]:
    """Return the ids of the processes whose environment contains the token: a group's ranks and the ranks' child
    processes. Linux only.
    """
    processes = []
    for entry in Path("/proc").glob("[0-9]*/environ"):
        try:
            if token.encode() in entry.read_bytes() and int(entry.parent.name) != os.getpid():
                processes.append(int(entry.parent.name))
        except OSError:  # the process has ended, or belongs to another user
            continue
    return processes
