"""Run the cases that have no result yet, one after the other, and report progress in a file."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from pytest_torch_compile import CompileCheckFailed, CompileReport, check_compile
from pytest_torch_compile.cache.folder import CacheFolder
from pytest_torch_compile.report.failure_text import headline
from suites._models import Case

from .cases import cases
from .store import SHARED_KINDS, done

LIBRARIES = ("torch", "torchvision", "transformers")


def work(store: Path, events: Path, only: str = "") -> None:
    """Run the cases that are missing in ``store``, and write ``environment``, ``begin`` and ``end`` events as JSON
    lines to ``events``."""
    with events.open("a", encoding="utf-8") as stream:

        def say(event: Mapping[str, Any]) -> None:
            stream.write(json.dumps(event) + "\n")
            stream.flush()

        environment = here()
        chosen = {name: case for name, case in cases().items() if re.search(only, name)}
        say({"environment": environment, "cases": list(chosen)})
        finished = done(store, environment)
        for name, (case, backend) in chosen.items():
            if name not in finished:
                say({"begin": name})
                say({"end": name, "figures": measured(case, backend)})


def here() -> dict[str, str]:
    """Return the library versions on which a result depends."""
    return {library: metadata.version(library).split("+")[0] for library in LIBRARIES}


def measured(case: Case, backend: str) -> dict[str, Any]:
    """Check one case without compiled code and with an empty cache, and return what the page shows."""
    cache = CacheFolder("fresh", Path())
    cache.enter_test()
    torch._dynamo.reset()
    torch.manual_seed(0)
    start = processor_seconds()
    try:
        found = figures(report_of(case, backend))
    except Exception as error:
        found = {"error": f"{type(error).__name__}: {first_line(error)}"}
    finally:
        cache.close()
    return {**found, "seconds": round(processor_seconds() - start, 1)}


def processor_seconds() -> float:
    """Return the processor time of this process and of the compilers that it has run. Unlike the wall time, it hardly
    depends on other work on the machine.
    """
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def report_of(case: Case, backend: str) -> CompileReport:
    """Check a case in the default mode of ``torch.compile(model)``, and return the report even if the check failed."""
    try:
        return check_compile(
            case.target(), calls=case.calls(), fullgraph=False, backend=backend, diagnose="off", **case.options()
        )
    except CompileCheckFailed as failure:
        if failure.report is None:
            raise
        return failure.report


def figures(report: CompileReport) -> dict[str, Any]:
    """Return the parts of a report that the page shows."""
    return {
        "wrong": [
            {"kind": finding.kind, "message": headline(finding)}
            for finding in report.findings
            if finding.kind not in SHARED_KINDS
        ],
        "breaks": [{"what": found.category, "where": place(found.location)} for found in report.graph_breaks],
        "recompiles": [found.guards[0].cause if found.guards else "unknown" for found in report.recompiles],
        "fallbacks": len(report.fallbacks) + len(report.observation.errors),
        "graphs": len(report.graphs),
        "not_observable": report.not_observable,
    }


def place(location: Any) -> str:
    """Return a location's file, without the folders that differ between environments, and its function."""
    file = location.file.replace("\\", "/").rpartition("/site-packages/")[2]
    return f"{Path(file).name if file.startswith('/') else file} in {location.function}"


def first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:300] if lines else ""
