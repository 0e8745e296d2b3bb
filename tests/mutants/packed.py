"""The rows of a run in few bytes, so that they can be kept beside the figures made of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.mutants.table import RIVALS

Place = tuple[str, str, bool]


def pack(rows: Sequence[Any], path: Path, about: dict[str, Any]) -> None:
    """Write rows, one line for each model, dtype and mode: seeds, verdicts, and who passed what as bits."""
    places: dict[Place, list[Any]] = {}
    for row in rows:
        places.setdefault((row.model, row.dtype, row.train), []).append(row)
    lines = [json.dumps({"about": about})]
    for (model, dtype, train), found in sorted(places.items()):
        honest = [[r.seed, _bits(r), *map(_said, r.findings[:1])] for r in found if not r.kind]
        mutants = [
            [r.seed, r.kind, r.mutation, r.verdict, _bits(r), _short(r.signal), _short(r.ratio)]
            for r in found
            if r.kind
        ]
        lines.append(json.dumps({"place": [model, dtype, train], "honest": honest, "mutants": mutants}))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def unpack(path: Path, row: type[Any]) -> list[Any]:
    """The rows again, as far as the tables need them."""
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines():
        job = json.loads(line)
        place = job.get("place")
        for seed, bits, *found in job.get("honest", ()):
            passed = _names(bits)
            verdict = "passed" if "checker" in passed else "broken" if not seed else "false alarm"
            rows.append(row(*place, seed, verdict=verdict, passed_by=passed, findings=found))
        for seed, kind, mutation, verdict, bits, signal, ratio in job.get("mutants", ()):
            numbers = {"signal": float(signal), "ratio": ratio}
            rows.append(row(*place, seed, mutation, kind, verdict, passed_by=_names(bits), **numbers))
    return rows


def _said(finding: str) -> str:
    """A finding, or of a traceback the exception alone."""
    errors = [line for line in finding.splitlines() if "Error: " in line or "Exception: " in line]
    return (errors or finding.strip().splitlines())[-1]


def _bits(row: Any) -> int:
    return sum(1 << place for place, rival in enumerate(RIVALS) if rival in row.passed_by)


def _names(bits: int) -> list[str]:
    return [rival for place, rival in enumerate(RIVALS) if bits >> place & 1]


def _short(number: float) -> Any:
    return str(number) if number in (float("inf"), float("-inf")) else float(f"{number:.3g}")
