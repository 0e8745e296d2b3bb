"""Create a script that reproduces a finding. Run the script in a fresh process, and keep it only if it fails in the
same way as the check.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from .. import settings
from .._torch.breaks import categories
from .._torch.object_text import text_of_error
from ..child import end
from ..diagnose.smallest import parts_of
from ..diagnose.subject import OutOfTime, RepeatableCheck, Subject
from ..disk import TemporaryFolder, write_atomically
from ..events import doing
from ..findings import SEVERITIES, CompileReport, Finding, Reproduction, categories_of
from ..legs.work import Work
from .definitions import Unwritable
from .script import TEMPLATE_OF, Script, script

SECONDS = 180.0  # the limit for all attempts to reproduce a failure; each attempt imports torch and compiles
GUARDED = "no reproduction: the body of a with statement cannot be copied; call check_compile on the code inside it"
KINDS = {*TEMPLATE_OF, "graph-break"}
_written: set[Path] = set()  # files that this process has written; a second failed check in one test uses another name
_OF_TORCH = re.compile(
    r"^(TORCH_?(DYNAMO|INDUCTOR|FUNCTORCH|COMPILE|LOGS|TRACE)(?!.*(_THREADS|_DIR|_VEC_ISA_OK)$)|PYTEST)"
)


def add_reproduction(report: CompileReport, remake: RepeatableCheck) -> None:
    """With ``--compile-repro``, write a script that reproduces the failure, and add it to the report. If no script can
    be written, or an error occurs, add the reason instead.
    """
    if not settings.current.repro:
        return
    with doing("writing a reproduction"):
        try:
            written = reproduce(report, remake, Path(settings.current.repro))
        except Exception as error:
            written = f"no reproduction: {text_of_error(error)}".splitlines()[0]
    report.reproduction = written if isinstance(written, Reproduction) else None
    report.diagnosis.append(str(written))


def reproduce(report: CompileReport, remake: RepeatableCheck, folder: Path) -> Reproduction | str:
    """Write a script and return its ``Reproduction``, or return the reason why no script was written.

    Try the smallest failing module before the whole target, and random tensor values before the original values.

    If the check uses ``fullgraph=True``, try a graph break with ``fullgraph=False`` as well. The findings list the
    breaks that occur with ``fullgraph=False``. Some of these breaks, for example at ``.item()``, do not occur with
    ``fullgraph=True``.
    """
    finding = _worst(report, KINDS)
    causes = [finding.cause for finding in report.findings if finding.cause]
    if finding is None and causes:
        return f"no reproduction: a torch setting causes the failure: {causes[0]}"
    if finding is None:  # for example, times and memory depend on the machine
        kinds = ", ".join(sorted({finding.kind for finding in report.findings})) or "custom-op"
        return f"no reproduction: not supported for {kinds}"
    if remake.check.compiling.wrapper is not None:
        return "no reproduction: not supported with a custom compile function"
    end_of_time, reasons, checks = time.monotonic() + SECONDS, [], [remake.check]
    if finding.kind == "graph-break" and remake.check.compiling.can_relax:
        checks.append(replace(remake.check, compiling=remake.check.compiling.relaxed()))
    for (part, its_finding), check, exact in itertools.product(_works(report, remake, finding), checks, (False, True)):
        try:
            candidate = script(its_finding, report, replace(check, work=part), exact=exact)
        except Unwritable as error:
            reasons.append(str(error))
            continue
        if candidate.stored and not exact:
            continue  # some tensors need stored values; the next attempt keeps the values of all tensors
        if (left := end_of_time - time.monotonic()) <= 0:
            reasons.append(f"the time limit of {SECONDS:.0f} s was reached")
            break
        path = _path(report, finding, folder)
        difference = _kept_if_alike(candidate, path, finding, categories_of(finding, report.graph_breaks), left)
        if not difference:
            return Reproduction(str(path), candidate.needs, report.findings.index(finding))
        reasons.append(difference)
    return f"no reproduction: no script failed in the same way as the check: {'; '.join(dict.fromkeys(reasons))}"


def _worst(report: CompileReport, kinds: set[str]) -> Finding | None:
    order = {kind: i for i, kind in enumerate(kind for kinds in SEVERITIES for kind in kinds)}
    findings = [finding for finding in report.findings if finding.kind in kinds and not finding.cause]
    return min(findings, key=lambda finding: order[finding.kind], default=None)


def _works(report: CompileReport, remake: RepeatableCheck, finding: Finding) -> Iterator[tuple[Work, Finding]]:
    """Yield the targets for which to try a script, each with its calls and with the finding to reproduce.

    The first target is the smallest failing module, if it has a finding of the same kind as ``finding``. The last
    target is the whole target, with ``finding`` itself.
    """
    work = remake.check.work
    if report.fault.module and (part := parts_of(work).get(report.fault.module)):
        changes = part.changes(work)
        try:
            alone = Subject(report, remake, SECONDS).again(**changes)
        except OutOfTime:
            alone = None
        its_finding = _worst(alone, {finding.kind}) if alone else None
        if its_finding is not None:
            yield replace(work, **changes), its_finding
    yield work, finding


def _path(report: CompileReport, finding: Finding, folder: Path) -> Path:
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    title = f"{test or report.target}-{finding.kind}"
    name = re.sub(r"\W+", "-", title).strip("-")
    # `t[a-b]` and `t[a.b]` result in the same name, and pytest-xdist workers do not know each other's files.
    name += f"-{hashlib.sha256(title.encode()).hexdigest()[:6]}"
    paths = (folder / f"{name}{f'-{number}' if number > 1 else ''}.py" for number in itertools.count(1))
    return next(path for path in paths if path not in _written)


def _kept_if_alike(candidate: Script, path: Path, finding: Finding, causes: Sequence[str], seconds: float) -> str:
    """Run the script, and keep it if its failure has the same kind as ``finding`` and, for a graph break, also one of
    the ``causes``. Return an empty string if the script was kept, and otherwise a short reason.
    """
    with TemporaryFolder("torch-compile-reproduction-") as place:
        file = place / path.name
        file.write_text(candidate.text, encoding="utf-8")
        if candidate.stored:
            torch.save(candidate.stored, file.with_suffix(".pt"))
        status, lines = _run(file, seconds, alone=not candidate.needs)
        if status is None:
            return f"the script exceeded the remaining {seconds:.0f} s of the {SECONDS:.0f} s limit"
        said = next((line for line in lines if line.startswith(f"AssertionError: {finding.kind}:")), None)
        if status != 1 or said is None:
            return "the script passed" if status == 0 else f"the script ended with {lines[-1][:200]}"
        if finding.kind == "graph-break" and not set(causes) & set(categories(said)):
            return f"the script's graph break has a different cause: {said[:200]}"
        path.parent.mkdir(parents=True, exist_ok=True)
        if candidate.stored:
            write_atomically(path.with_suffix(".pt"), file.with_suffix(".pt").read_bytes())
        write_atomically(path, candidate.text)
    _written.add(path)
    return ""


def _run(file: Path, seconds: float, *, alone: bool) -> tuple[int | None, list[str]]:
    """Run the script, and return its exit status and the lines of its output. Afterwards, terminate all processes that
    the script started.

    If ``alone`` is set, the script runs with ``python -I``, so it can import only installed packages. An undeclared
    dependency then makes the script fail.
    """
    environment = {name: value for name, value in os.environ.items() if not _OF_TORCH.match(name)}
    environment["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] = "1"  # a cache may contain code that a modified torch generated
    environment["PYTHONPATH"] = os.pathsep.join(one for one in sys.path if one)
    output = file.with_suffix(".txt")
    with output.open("wb") as stream:  # a pipe would stay open until all child processes of the script have ended
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
