"""What a diagnosis said of each target, kept in a file so that a run that was cut off goes on where it ended."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

from pytest_torch_compile import CompileCheckFailed, CompileReport
from tests.diagnose.failing.record import VERSION, Failing

# A file of JSON lines. What it holds is not run again; labels are compared anew each time.
FILE = os.environ.get("DIAGNOSIS_RECORDS", "")


@dataclass(frozen=True)
class Said:
    """The data of one diagnosis, apart from any label."""

    name: str
    torch: str
    kinds: list[str]
    causes: list[str]
    stage: str
    module: str
    advice: list[str]


def records() -> dict[str, Said]:
    """What is known of each target: from this process, and from the file."""
    return {said.name: said for said in (*_lines(), *_of_this_process.values())}


_of_this_process: dict[str, Said] = {}


def _lines() -> Iterator[Said]:
    lines = Path(FILE).read_text().splitlines() if FILE and Path(FILE).exists() else []
    every = (Said(**json.loads(line)) for line in lines)
    return (said for said in every if said.torch == VERSION)


def said_of(target: Failing) -> Said:
    """What the diagnosis says of a target; it is run where no record is kept."""
    if known := records().get(target.name):
        return known
    with pytest.raises(CompileCheckFailed) as failed:
        target.build().run(diagnose="full")
    report = failed.value.report
    said = Said(
        target.name,
        VERSION,
        sorted({finding.kind for finding in report.findings}),
        sorted(causes(report, target.kind)),
        report.fault.stage,
        report.fault.module,
        [line for line in report.diagnosis if line.startswith(("tried", "op: in a trial run"))],
    )
    _of_this_process[target.name] = said
    if FILE:
        with Path(FILE).open("a") as file:
            file.write(json.dumps(asdict(said)) + "\n")
    return said


def causes(report: CompileReport, kind: str) -> set[str]:
    """What the report's data give as the cause: the guard, the category of a break, the op of a wrong result."""
    if kind == "recompile":
        return {recompile.guards[0].cause for recompile in report.recompiles if recompile.guards}
    if kind == "graph-break":
        return {one.category for one in report.graph_breaks}
    if kind == "eager-fallback":
        return {one.cause for one in report.fallbacks}
    return {op.rsplit(".", 1)[0].removeprefix("aten.") for op in report.fault.op.split(", ") if op}
