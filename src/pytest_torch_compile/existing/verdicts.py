"""Combine the checks of each target into one result, such as "works" or "breaks", and format the table of results. This
module imports neither torch nor pytest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, get_args

from ..findings import BrokenPromise, WrongResult
from ..observation import file_line

if TYPE_CHECKING:
    from ..findings import CompileReport, Finding
    from ..observation import GraphBreak, Location
    from .checking import Checked

# "works so far": all checks of the target passed, but a limit prevented checks of other calls to the target. "wrong"
# means that results differ; different state, such as a cache that only eager code fills, may be intended.
WORKS, SO_FAR, NOT_OBSERVABLE, RECOMPILES, BREAKS, FAILS, STATE, WRONG, UNCHECKED = (
    *("works", "works so far", "not observable", "recompiles", "breaks", "does not compile", "different state"),
    *("wrong", "not checked"),
)
# From best to worst. ``baselines/entries.py`` lists the results that a baseline may contain.
VERDICTS = (UNCHECKED, WORKS, SO_FAR, NOT_OBSERVABLE, RECOMPILES, BREAKS, FAILS, STATE, WRONG)
PASSING = (UNCHECKED, WORKS, SO_FAR)
# Every kind of finding, apart from the kinds that need a limit or a speed test, which do not occur in these checks.
_VERDICT_OF: dict[str, str] = {
    **dict.fromkeys((*get_args(WrongResult), *get_args(BrokenPromise)), WRONG),
    "state": STATE,
    "not-observable": NOT_OBSERVABLE,
    "timeout": FAILS,
    "compile-error": FAILS,
    "nothing-compiled": BREAKS,
    "graph-break": BREAKS,
    "eager-fallback": RECOMPILES,
    "recompile": RECOMPILES,
}
SUFFIX = " [compile]"
LIKE_OTHERS = "earlier checks of this target cover all lines that the call executes, and other targets have priority"
IDLE = "the calls that ran in eager neither created nor changed a tensor"


@dataclass
class Row:
    """A row of the table, about one target. ``results`` contains a result for each checked call to the target, and for
    each call that could not be checked.
    """

    target: str
    verdict: str = UNCHECKED
    checks: int = 0
    detail: str = ""
    left_out: int = 0
    results: list[Checked] = field(default_factory=list)

    @property
    def test(self) -> str:
        """The id of the test that shows the target's results."""
        return f"{self.target}{SUFFIX}"

    @property
    def reports(self) -> list[CompileReport]:
        """The reports of the target's checks."""
        return [one.report for one in self.results if one.report is not None]

    @property
    def findings(self) -> list[Finding]:
        """The findings of all of the target's checks."""
        return [finding for report in self.reports for finding in report.findings]


def rows(results: Iterable[Checked], left_out: dict[str, dict[str, int]], package: str) -> list[Row]:
    """Return a row for each target, except targets whose calls neither create nor change a tensor."""
    by_target: dict[str, list[Checked]] = {name: [] for name in left_out}
    idle: Counter[str] = Counter()
    for one in results:
        idle[one.target] += not one.computes
        if one.computes:
            by_target.setdefault(one.target, []).append(one)
        elif not left_out.get(one.target):
            left_out.pop(one.target, None)
            if not by_target.get(one.target):
                by_target.pop(one.target, None)
    return [_row(name, by_target[name], left_out.get(name, {}), idle[name], package) for name in sorted(by_target)]


def _row(name: str, results: list[Checked], left_out: dict[str, int], idle: int, package: str) -> Row:
    """Return the row of a target. ``idle`` is the number of the target's calls that ran in eager, and neither created
    nor changed a tensor.
    """
    checks = sum(one.report is not None for one in results)
    row = Row(name, checks=checks, left_out=sum(left_out.values()), results=results)
    verdicts = [verdict_of(report) for report in row.reports]
    row.verdict = max(verdicts, key=VERDICTS.index, default=UNCHECKED)
    # Calls that resemble earlier calls need no check; other calls were skipped because of a limit.
    skipped = Counter({reason: calls for reason, calls in left_out.items() if reason != LIKE_OTHERS})
    limits = Counter(one.refused for one in results if one.took_too_long) + skipped
    if row.verdict == UNCHECKED:
        reasons = Counter(one.refused for one in results if one.refused) + Counter(left_out)
        said = [reason for reason, _ in reasons.most_common(2)]
        row.detail = "; ".join([IDLE, *said] if idle else said) or "no call was checked"
    elif row.verdict == WORKS and limits:
        row.verdict, row.detail = SO_FAR, limits.most_common(1)[0][0]
    else:
        row.detail = _detail(row, package)
    return row


def verdict_of(report: CompileReport) -> str:
    """Return the result of one check, such as "breaks", according to the check's worst finding."""
    # A target with a finding of another kind must not count as working.
    found = [_VERDICT_OF.get(finding.kind, NOT_OBSERVABLE) for finding in report.findings]
    return max(found, key=VERDICTS.index, default=WORKS)


def _detail(row: Row, package: str) -> str:
    """Return a short description of the target's worst finding. For graph breaks, the description lists the packages
    that contain the breaks, and the location of the first break.
    """
    if row.verdict == WORKS:
        return ""
    worst = next(one for one in row.findings if _VERDICT_OF.get(one.kind, NOT_OBSERVABLE) == row.verdict)
    if row.verdict == BREAKS:
        places: dict[str, GraphBreak] = {}
        for found in (found for report in row.reports for found in report.graph_breaks):
            line = _line(found, package)
            places[file_line(short_path(line.file, package, found.package), line.line)] = found
        if places:
            roots = [found.module.partition(".")[0] for found in places.values()]
            owners = Counter("own code" if root in ("", package) else f"in {root}" for root in roots)
            first, found = next(iter(places.items()))
            more = f" and {len(places) - 1} more" if len(places) > 1 else ""
            return f"{', '.join(owners)}: {first} ({found.category}){more}"
    place = worst.location
    where = f" at {file_line(short_path(place.file, package), place.line)}" if place else ""
    return f"{worst.kind}: {worst.message.splitlines()[0]}{where}"


def _line(found: GraphBreak, package: str) -> Location:
    """Return the location of a break. For a break that the package causes inside the standard library, such as in
    ``copy.deepcopy``, return the innermost line of the package that leads to the break.
    """
    own = [line for line in (*found.callers, found.location) if f"/{package}/" in line.file.replace("\\", "/")]
    is_others = found.module and found.module.partition(".")[0] != package
    return found.location if is_others or not own else own[-1]


def short_path(path: str, *packages: str) -> str:
    """Shorten a path so that it starts at the folder of one of the packages."""
    for package in filter(None, packages):
        _, found, rest = path.replace("\\", "/").rpartition(f"/{package}/")
        if found:
            return f"{package}/{rest}"
    return path


def table(rows: Sequence[Row], seconds: float, waiting: str) -> Iterator[str]:
    """Yield the lines of the summary: a row for each target, starting with the worst, and then the number of targets
    with each result.
    """
    ordered = sorted(rows, key=lambda row: (-VERDICTS.index(row.verdict), row.target))
    wide = max((len(row.target) for row in ordered), default=0)
    longest = max((len(row.verdict) for row in ordered), default=0)
    for row in sorted(ordered, key=lambda row: row.verdict == WORKS):
        checks = f"{row.checks} checked" + (f", {row.left_out} skipped" if row.left_out and row.checks else "")
        yield f"{row.target:<{wide}}  {row.verdict:<{longest}}  {checks}  {row.detail}".rstrip()
    counts = Counter(row.verdict for row in ordered)
    parts = [f"{counts[verdict]} {verdict}" for verdict in reversed(VERDICTS) if counts[verdict]]
    yield f"targets: {len(rows)} ({', '.join(parts)}); checks: {sum(row.checks for row in rows)} ({seconds:.0f} s)"
    if waiting:
        yield waiting
