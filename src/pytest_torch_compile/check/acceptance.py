"""Accepted breaks and recompiles: the file that lists them, and its use in checks.

``compile-accepted.json`` is in pytest's root folder. For each test, the file lists the fingerprints of accepted breaks
and the number of accepted recompiles. The file also lists the torch versions on which these breaks and recompiles
occur, so a run on one version keeps the entries for other versions. Imports neither torch nor pytest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..baselines import files as baselines
from ..baselines import schema
from ..budget import Budget

if TYPE_CHECKING:
    from ..findings import Finding
    from ..observation import Observation

FILE_NAME = "compile-accepted.json"
SCHEMA_VERSION = 1
Entry = dict[str, Any]
_VERSION: schema.Schema = {"type": "string", "pattern": r"[0-9]{1,4}(\.[0-9]{1,4})?"}
_BREAK: schema.Schema = {
    "type": "object",
    "required": ["location", "reason", "torch"],
    "properties": {
        "location": {"type": "string"}, "reason": {"type": "string"}, "torch": {"type": "array", "items": _VERSION},
    },
}  # fmt: skip
_ENTRY: schema.Schema = {
    "type": "object",
    "required": ["breaks", "recompiles"],
    "additionalProperties": False,
    "properties": {
        "breaks": {"type": "object", "additionalProperties": _BREAK},
        "recompiles": {"type": "object", "additionalProperties": {"type": "integer", "minimum": 0}},
    },
}
_TESTS: schema.Schema = {"type": "object", "additionalProperties": _ENTRY}


@dataclass
class Acceptance:
    """The running test's accepted breaks and recompiles, and the breaks and recompiles that exceed the budgets of the
    test's checks.

    If ``accepting`` is true, breaks and recompiles are not findings, because this run accepts them
    (``--compile-accept``).
    """

    breaks: frozenset[str] = frozenset()
    recompiles: int = 0
    accepting: bool = False
    found_breaks: dict[str, dict[str, str]] = field(default_factory=dict)
    found_recompiles: int = 0


current: Acceptance | None = None


@contextmanager
def in_force(acceptance: Acceptance) -> Iterator[None]:
    """Apply a test's accepted breaks and recompiles to the checks inside the ``with`` block."""
    global current
    before, current = current, acceptance
    try:
        yield
    finally:
        current = before


def with_accepted(declared: Budget) -> Budget:
    """Return the budget ``declared`` by a check with the breaks that the running test accepts, and with the larger of
    the two limits on recompiles. With ``--compile-accept``, return ``declared`` unchanged.
    """
    if current is None or current.accepting:
        return declared
    accepted = frozenset(declared.accepted_breaks) | current.breaks
    return replace(declared, max_recompiles=max(declared.recompiles, current.recompiles), accepted_breaks=accepted)


def note(seen: Observation, declared: Budget) -> None:
    """Record the observed breaks and recompiles that exceed ``declared``, the check's budget without the breaks and
    recompiles that the running test accepts.
    """
    if current is None:
        return
    for b in (b for exceeding in declared.exceeded(seen.graph_breaks).values() for b in exceeding):
        place = {"file": b.location.file, "line": str(b.location.line), "reason": b.category}
        current.found_breaks[b.fingerprint] = place
    if len(seen.recompiles) > declared.recompiles:
        current.found_recompiles = max(current.found_recompiles, len(seen.recompiles))


def without_accepted(findings: list[Finding], seen: Observation, budget: Budget) -> list[Finding]:
    """With ``--compile-accept``, return the findings without those for graph breaks and recompiles that exceed
    ``budget``, because the running test accepts these. Otherwise, return all findings.
    """
    if current is None or not current.accepting:
        return findings
    # A break without a location has no fingerprint and cannot be accepted.
    named = any(b.fingerprint not in budget.accepted_breaks for b in seen.graph_breaks)
    kinds = ("graph-break", "recompile") if named else ("recompile",)
    return [finding for finding in findings if finding.kind not in kinds]


def load(path: Path) -> tuple[dict[str, Entry], str]:
    """Return the entries of ``compile-accepted.json`` by test id, and an error message, which is empty if the file can
    be used.
    """
    try:
        return _read(path), ""
    except baselines.BaselineError as error:
        return {}, str(error)


def update(path: Path, changed: Mapping[str, Entry | None]) -> Path | None:
    """Update the entries of ``compile-accepted.json``; None in ``changed`` removes an entry. If the file is damaged,
    rename it and return its new path; otherwise return None.

    Raises:
        BaselineError: If the file was written by a version of this package that uses another schema version.
    """
    kept = None
    try:
        entries = _read(path)
    except baselines.Corrupt:
        entries, kept = {}, baselines.set_aside(path)
    after = {test: entry for test, entry in {**entries, **changed}.items() if entry is not None}
    if after:
        baselines.write(path, {"schema_version": SCHEMA_VERSION, "tests": after})
    else:
        path.unlink(missing_ok=True)
    return kept


def _read(path: Path) -> dict[str, Entry]:
    if not path.exists():
        return {}
    document = baselines.parse(path)
    version, tests = document.get("schema_version", SCHEMA_VERSION), document.get("tests", {})
    if version != SCHEMA_VERSION:
        raise baselines.BaselineError(
            f"{path} has schema version {schema.shown(version)}, but this plugin requires version {SCHEMA_VERSION}"
        )
    if wrong := schema.problem(tests, _TESTS):
        raise baselines.Corrupt(f"{path} is damaged: {wrong}; {baselines.RESTORE}")
    return dict(tests)


def allowed_recompiles(entry: Entry, torch: str) -> int:
    """Return the number of recompiles that an entry allows on a torch version: the number for that version, or else the
    largest number for any other version.
    """
    counts: dict[str, int] = entry["recompiles"]
    return counts.get(torch, max(counts.values(), default=0))


def merged(entry: Entry | None, needed: Entry, torch: str) -> Entry | None:
    """Return a test's entry after a run on one torch version; None if there is nothing left to accept.

    ``needed`` contains the ``breaks`` (with ``location`` and ``reason``) and the number of ``recompiles`` that exceed
    the test's budget.
    """
    before = entry or {"breaks": {}, "recompiles": {}}
    breaks: dict[str, Any] = {}
    for name in sorted({*before["breaks"], *needed["breaks"]}):
        versions = {*before["breaks"].get(name, {}).get("torch", ())} - {torch}
        versions |= {torch} if name in needed["breaks"] else set()
        if versions:
            in_order = sorted(versions, key=lambda version: [int(part) for part in version.split(".")])
            breaks[name] = {**(needed["breaks"].get(name) or before["breaks"][name]), "torch": in_order}
    counts = {**before["recompiles"], torch: needed["recompiles"]}
    recompiles = {version: number for version, number in counts.items() if number}
    return {"breaks": breaks, "recompiles": recompiles} if breaks or recompiles else None


def stale(entry: Entry, needed: Entry, torch: str) -> list[str]:
    """Return a line for each accepted break that no longer occurs in the test on this torch version, and a line if the
    test needs fewer recompiles than accepted.
    """
    lines = [
        f"{name} at {accepted['location']} ({accepted['reason']})"
        for name, accepted in sorted(entry["breaks"].items())
        if torch in accepted["torch"] and name not in needed["breaks"]
    ]
    accepted = entry["recompiles"].get(torch, 0)
    unused = accepted > needed["recompiles"]
    return [*lines, (f"accepted recompiles: {accepted}, but only {needed['recompiles']} needed")] if unused else lines
