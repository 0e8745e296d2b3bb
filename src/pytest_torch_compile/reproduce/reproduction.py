"""One file that shows a finding again, written only after it was run in a fresh process and failed in the same way."""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch

from .._torch.breaks import categories
from ..child import end
from ..diagnose.smallest import parts_of
from ..diagnose.subject import OutOfTime, Remake, Subject
from ..disk import TemporaryFolder, write_atomically
from ..events import doing
from ..findings import SEVERITIES, CompileReport, Finding, Reproduction
from ..legs.leg import Work
from .definitions import Unwritable
from .script import JUDGES, Script, script

SECONDS = 180.0  # for all attempts of a check together; one takes an import of torch, and a compilation
GUARDED = "no reproduction: the body of a with statement cannot be written; check_compile of what it calls leaves one"
KINDS = {*JUDGES, "graph-break"}
_written: set[Path] = set()  # files of this process: two checks of one test may fail
_OF_TORCH = re.compile(r"^(TORCH_?(DYNAMO|INDUCTOR|FUNCTORCH|COMPILE|LOGS|TRACE)(?!.*(_THREADS|_DIR)$)|PYTEST)")


def add_reproduction(report: CompileReport, remake: Remake, folder: Path) -> None:
    """Write the file and add it to the report, or say there why there is none; the failure itself stays as it is."""
    with doing("writing a reproduction"):
        try:
            written = reproduce(report, remake, folder)
        except Exception as error:
            written = f"no reproduction: {type(error).__name__}: {error}".splitlines()[0]
    report.reproduction = written if isinstance(written, Reproduction) else None
    report.diagnosis.append(str(written))


def reproduce(report: CompileReport, remake: Remake, folder: Path) -> Reproduction | str:
    """The file, or why there is none.

    The smallest module comes first, then the whole target; random numbers in place of the tensors', then their own.
    """
    finding = _worst(report, KINDS)
    if finding is None:
        return f"no reproduction: {_why_none(report)}"
    if remake.compiling.wrapper is not None:
        return "no reproduction: it is written for torch.compile itself, not for a compile function of your own"
    end_of_time, reasons = time.monotonic() + SECONDS, []
    for part, its_finding in _works(report, remake, finding):
        for exact in (False, True):
            try:
                candidate = script(its_finding, report, part, remake, exact=exact)
            except Unwritable as error:
                reasons.append(str(error))
                break
            if candidate.stored and not exact:
                continue  # some numbers have to be its own: all of them are, then
            if (left := end_of_time - time.monotonic()) <= 0:
                reasons.append(f"no time was left of {SECONDS:.0f} s")
                break
            path = _path(report, finding, folder)
            difference = _kept_if_alike(candidate, path, finding, left)
            if not difference:
                return Reproduction(str(path), candidate.needs, report.findings.index(finding))
            reasons.append(difference)
    return f"no reproduction failed in the same way: {'; '.join(dict.fromkeys(reasons))}"


def _worst(report: CompileReport, kinds: set[str]) -> Finding | None:
    order = {kind: i for i, kind in enumerate(kind for kinds in SEVERITIES for kind in kinds)}
    findings = [finding for finding in report.findings if finding.kind in kinds and not finding.cause]
    return min(findings, key=lambda finding: order[finding.kind], default=None)


def _why_none(report: CompileReport) -> str:
    """Time, memory and caches are those of a machine; what needs several processes or a setting is not in one file."""
    if causes := [finding.cause for finding in report.findings if finding.cause]:
        return f"a setting of torch makes it fail: {causes[0]}"
    return f"none is written for {', '.join(sorted({finding.kind for finding in report.findings})) or 'custom-op'}"


def _works(report: CompileReport, remake: Remake, finding: Finding) -> Iterator[tuple[Work, Finding]]:
    """The smallest module with its own finding of the kind, then the whole target."""
    if report.fault.module and (part := parts_of(remake.work).get(report.fault.module)):
        changes = part.changes(remake.work)
        try:
            alone = Subject(report, remake, SECONDS).again(**changes)
        except OutOfTime:
            alone = None
        its_finding = _worst(alone, {finding.kind}) if alone else None
        if its_finding is not None:
            yield replace(remake.work, **changes), its_finding
    yield remake.work, finding


def _path(report: CompileReport, finding: Finding, folder: Path) -> Path:
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    title = f"{test or report.target}-{finding.kind}"
    name = re.sub(r"\W+", "-", title).strip("-")
    # `t[a-b]` and `t[a.b]` read alike, and workers do not know each other's files.
    name += f"-{hashlib.sha256(title.encode()).hexdigest()[:6]}"
    paths = (folder / f"{name}{f'-{number}' if number > 1 else ''}.py" for number in itertools.count(1))
    return next(path for path in paths if path not in _written)


def _kept_if_alike(candidate: Script, path: Path, finding: Finding, seconds: float) -> str:
    """Run it; keep it if it fails with the same kind, a break for the same cause. Otherwise what happened, in short."""
    with TemporaryFolder("torch-compile-reproduction-") as place:
        file = place / path.name
        file.write_text(candidate.text, encoding="utf-8")
        if candidate.stored:
            torch.save(candidate.stored, file.with_suffix(".pt"))
        status, lines = _run(file, seconds, alone=not candidate.needs)
        if status is None:
            return f"it took longer than the {seconds:.0f} s that were left of {SECONDS:.0f}"
        said = next((line for line in lines if line.startswith(f"AssertionError: {finding.kind}:")), None)
        if status != 1 or said is None:
            return "it passed" if status == 0 else f"it ended with {lines[-1][:200]}"
        if finding.kind == "graph-break" and not any(finding.message.endswith(f": {one}") for one in categories(said)):
            return f"it breaks for another cause: {said[:200]}"
        path.parent.mkdir(parents=True, exist_ok=True)
        if candidate.stored:
            write_atomically(path.with_suffix(".pt"), file.with_suffix(".pt").read_bytes())
        write_atomically(path, candidate.text)
    _written.add(path)
    return ""


def _run(file: Path, seconds: float, *, alone: bool) -> tuple[int | None, list[str]]:
    """How it ends, and what it prints; all that it has started ends with it.

    ``alone``: nothing of this process is on its path, so that it cannot need more than it says.
    """
    environment = {name: value for name, value in os.environ.items() if not _OF_TORCH.match(name)}
    environment["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] = "1"  # a cache may hold code of a torch that was changed here
    environment["PYTHONPATH"] = os.pathsep.join(one for one in sys.path if one)
    output = file.with_suffix(".txt")
    with output.open("wb") as stream:  # a pipe would stay open as long as any process that it has started
        process = subprocess.Popen(
            [sys.executable, *(["-I"] if alone else []), str(file)],
            cwd=file.parent,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status: int | None = process.wait(seconds)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            end(process)
    return status, output.read_text(encoding="utf-8", errors="replace").strip().splitlines() or [f"status {status}"]
