"""The finding for one graph break. Imports neither torch nor pytest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .. import advice
from .._torch.breaks import OTHER
from .._torch.hints import without_doubt
from ..findings import Finding
from ..observation import GraphBreak, Location


def graph_break_finding(found: GraphBreak, total: str, breaks: Sequence[GraphBreak] = ()) -> Finding:
    """Return the finding for one graph break, with its source line, torch's message and the fix. ``total`` is the start
    of the finding's message: the number of the break, the number of all breaks, and the limit.

    ``breaks`` contains all breaks of the run, because another break may have caused this break.
    """
    place = found.location
    lines = [place.source] if place.source else []
    if place.library is not None:
        lines.append(f"inside {place.library}: {place.library.source}".rstrip(": "))
    lines += [f"called from {caller.shown()}: {caller.source}".rstrip(": ") for caller in found.callers[::-1]]
    if found.skipped:
        lines.append(f"torch skipped {found.skipped}, so all of {found.skipped} runs eagerly")
    lines += [f"torch says: {explanation(found)}", f"fingerprint {found.fingerprint}"]
    hint = advice.for_break(found, breaks)
    message = f"{total}: {found.category}"
    return Finding("graph-break", message, place, "\n".join(lines), hint)


def explanation(found: GraphBreak) -> str:
    """Return torch's explanation of a graph break."""
    whole = f"{found.reason}\n{found.explanation}" if found.category == OTHER else found.explanation
    return without_doubt(whole).strip() or found.reason


def captured_by_fullgraph(finding: Finding, stopped_at: Location, breaks: Sequence[GraphBreak]) -> Finding:
    """Adapt the finding for a graph break at an op that torch captures with ``fullgraph=True``. Add the line at which
    tracing stopped with ``fullgraph=True``, and replace the hint with advice for this line.
    """
    place = (stopped_at.file, stopped_at.line)
    if finding.location is not None and place == (finding.location.file, finding.location.line):
        return finding
    elsewhere = any(place == (one.location.file, one.location.line) for one in breaks)
    source = f": {stopped_at.source}" if stopped_at.source else ""
    line = f"with fullgraph=True, torch captures this op, and tracing stops at {stopped_at.shown()}{source}"
    hint = advice.OTHER_BREAKS_FIRST if elsewhere else advice.DEPENDS_ON_DATA
    return replace(finding, evidence=f"{finding.evidence}\n{line}", hint=hint)
