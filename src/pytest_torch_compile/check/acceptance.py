"""Breaks and recompiles that are accepted for now: the file that holds them, and what a test's checks make of it.

``compile-accepted.json`` lies in the root folder. It names for each test the fingerprints of its accepted breaks and
how many recompiles it may have. Each carries the torch versions that it was seen on, so that a run on one version does
not take away what only another one shows. Neither torch nor pytest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..baselines import files as baselines
from ..findings import Budget

if TYPE_CHECKING:
    from ..findings import CompileReport

FILE_NAME = "compile-accepted.json"
SCHEMA_VERSION = 1
KINDS = ("graph-break", "recompile")
Entry = dict[str, Any]


@dataclass
class Acceptance:
    """What is accepted in the running test, and what its checks have over their own budgets.

    With ``accepting`` such breaks and recompiles are no findings: they are about to be written.
    """

    breaks: frozenset[str] = frozenset()
    recompiles: int = 0
    accepting: bool = False
    found_breaks: dict[str, dict[str, str]] = field(default_factory=dict)
    found_recompiles: int = 0


current: Acceptance | None = None


@contextmanager
def in_force(acceptance: Acceptance) -> Iterator[None]:
    """Let the checks inside the body go by what is accepted."""
    global current
    before, current = current, acceptance
    try:
        yield
    finally:
        current = before


def widened(own: Budget) -> Budget:
    """A check's own budget with what is accepted for its test. While accepting, the check's own is what counts."""
    if current is None or current.accepting:
        return own
    recompiles = max(_number(own.max_recompiles), current.recompiles)
    return replace(own, max_recompiles=recompiles, accepted_breaks=frozenset(own.accepted_breaks) | current.breaks)


def note(report: CompileReport, own: Budget) -> None:
    """Take what a check has over its ``own`` budget; while accepting, no finding is left of it."""
    if current is None:
        return
    breaks = [found for found in report.graph_breaks if found.fingerprint not in own.accepted_breaks]
    if len(breaks) > _number(own.max_graph_breaks):
        current.found_breaks |= {
            b.fingerprint: {"file": b.location.file, "line": str(b.location.line), "reason": b.category} for b in breaks
        }
    if len(report.recompiles) > _number(own.max_recompiles):
        current.found_recompiles = max(current.found_recompiles, len(report.recompiles))
    if current.accepting:
        # A break that torch names no place of has no fingerprint to accept it by.
        kinds = KINDS if breaks else KINDS[1:]
        report.findings = [finding for finding in report.findings if finding.kind not in kinds]


def _number(limit: int | Mapping[str, int]) -> int:
    if isinstance(limit, Mapping):
        raise TypeError("the budget depends on the torch version: give budget.on(version)")
    return limit


def load(path: Path) -> tuple[dict[str, Entry], str]:
    """The entries by test id, and one line if there is a file that cannot be used."""
    try:
        return _read(path), ""
    except FileNotFoundError:
        return {}, ""
    except baselines.BaselineError as error:
        return {}, str(error)


def update(path: Path, changed: Mapping[str, Entry | None]) -> Path | None:
    """Write the entries, None to take one away. A file that cannot be read is kept under the name that is returned.

    Raises:
        BaselineError: the file is of another version of this package.
    """
    kept = None
    try:
        entries = _read(path)
    except FileNotFoundError:
        entries = {}
    except baselines.Corrupt:
        entries, kept = {}, baselines.set_aside(path)
    after = {test: entry for test, entry in {**entries, **changed}.items() if entry is not None}
    if after:
        baselines.write(path, {"schema_version": SCHEMA_VERSION, "tests": after})
    else:
        path.unlink(missing_ok=True)
    return kept


def _read(path: Path) -> dict[str, Entry]:
    found = baselines.parse(path)
    if found.get("schema_version", SCHEMA_VERSION) != SCHEMA_VERSION:
        raise baselines.BaselineError(
            f"{path} has schema {found['schema_version']!r} and this version reads {SCHEMA_VERSION}"
        )
    tests = found.get("tests")
    if not isinstance(tests, dict) or not all(_is_entry(entry) for entry in tests.values()):
        raise baselines.Corrupt(f"{path} is damaged; restore it from version control")
    return tests


def _is_entry(entry: Any) -> bool:
    if not isinstance(entry, dict) or set(entry) != {"breaks", "recompiles"}:
        return False
    breaks, recompiles = entry["breaks"], entry["recompiles"]
    return (
        isinstance(breaks, dict)
        and all(isinstance(b, dict) and isinstance(b.get("torch"), list) for b in breaks.values())
        and isinstance(recompiles, dict)
        and all(isinstance(n, int) for n in recompiles.values())
    )


def allowed_recompiles(entry: Entry, torch: str) -> int:
    """How many recompiles an entry allows on a torch version: those seen on it, or the most that any other showed."""
    counts: dict[str, int] = entry["recompiles"]
    return counts.get(torch, max(counts.values(), default=0))


def merged(entry: Entry | None, found: Entry, torch: str) -> Entry | None:
    """The entry of a test after a run on one torch version; None where nothing is left to accept.

    ``found`` holds what was over the test's own budget: ``breaks`` with ``location`` and ``reason``, ``recompiles``.
    """
    before = entry or {"breaks": {}, "recompiles": {}}
    breaks: dict[str, Any] = {}
    for name in sorted({*before["breaks"], *found["breaks"]}):
        versions = {*before["breaks"].get(name, {}).get("torch", ())} - {torch}
        if name in found["breaks"]:
            breaks[name] = {**found["breaks"][name], "torch": _sorted({*versions, torch})}
        elif versions:
            breaks[name] = {**before["breaks"][name], "torch": _sorted(versions)}
    recompiles = {version: n for version, n in before["recompiles"].items() if version != torch}
    if found["recompiles"]:
        recompiles[torch] = found["recompiles"]
    return {"breaks": breaks, "recompiles": recompiles} if breaks or recompiles else None


def stale(entry: Entry, found: Entry, torch: str) -> list[str]:
    """One line for each thing that an entry accepts on this torch version and that the test does not need."""
    lines = [
        f"{name} at {accepted['location']} ({accepted['reason']})"
        for name, accepted in sorted(entry["breaks"].items())
        if torch in accepted["torch"] and name not in found["breaks"]
    ]
    accepted, now = entry["recompiles"].get(torch, 0), found["recompiles"]
    return [*lines, *([f"{accepted} recompiles accepted, {now} needed"] if accepted > now else [])]


def _sorted(versions: set[str]) -> list[str]:
    return sorted(versions, key=lambda version: [int(part) for part in version.split(".")])
