"""One file that shows a finding again, written only after it was run in a fresh process and failed alike."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

import torch

from ..diagnose.smallest import parts_of
from ..disk import TemporaryFolder, write_atomically
from ..events import doing
from ..findings import SEVERITIES, Budget, CompileReport, Finding, WrongResult
from ..legs.compiling import Compiling
from ..legs.leg import Work
from ..report.failure_text import headline
from .definitions import Unwritable
from .writer import Writer, listed

SECONDS = 120.0  # for one candidate: importing torch and compiling with Inductor
KINDS = {*get_args(WrongResult), "graph-break", "recompile", "compile-error", "nothing-compiled"}
KINDS -= {"rank-divergence", "state", "aliasing"}  # which the file does not compare
_written: Counter[str] = Counter()  # files of this process by name: two checks of one test may fail
TEMPLATES = Path(__file__).with_name("templates")


@dataclass(frozen=True)
class Reproduction:
    """The file, and the packages that it needs beside torch."""

    path: Path
    needs: tuple[str, ...]

    def __str__(self) -> str:
        needs = f"needs {', '.join(self.needs)}" if self.needs else "needs only torch"
        return f"reproduction: {self.path} ({needs})"


def reproduction_line(report: CompileReport, work: Work, compiling: Compiling, budget: Budget, folder: Path) -> str:
    """What ``reproduce`` says; it never hides the failure that it is about."""
    with doing("writing a reproduction"):
        try:
            return reproduce(report, work, compiling, budget, folder)
        except Exception as error:
            return f"no reproduction: {type(error).__name__}: {error}".splitlines()[0]


def reproduce(report: CompileReport, work: Work, compiling: Compiling, budget: Budget, folder: Path) -> str:
    """A line that names the file, or says why there is none.

    The smallest module comes first, then the whole target; random numbers in place of the tensors', then their own.
    """
    finding = _worst(report)
    if finding is None or compiling.wrapper is not None or not isinstance(compiling.backend, str):
        return "no reproduction: it is written for torch.compile itself, with a backend that has a name"
    reasons: list[str] = []
    for part in _works(report, work):
        for exact in (False, True):
            try:
                text, needs, stored = written(finding, report, part, compiling, budget, exact=exact)
            except Unwritable as error:
                reasons.append(str(error))
                break
            if stored and not exact:
                continue  # some numbers have to be its own: all of them are, then
            name = _file_name(report, finding)
            path = folder / f"{name}{f'-{_written[name] + 1}' if _written[name] else ''}.py"
            ended = _kept_if_alike(text, stored, path, finding.kind, alone=not needs)
            if not ended:
                _written[name] += 1
                return str(Reproduction(path, needs))
            reasons.append(ended)
    return f"no reproduction failed alike: {'; '.join(dict.fromkeys(reasons))}"


def _worst(report: CompileReport) -> Finding | None:
    order = {kind: i for i, kind in enumerate(kind for kinds in SEVERITIES for kind in kinds)}
    findings = [finding for finding in report.findings if finding.kind in KINDS and not finding.cause]
    return min(findings, key=lambda finding: order[finding.kind], default=None)


def _works(report: CompileReport, work: Work) -> Iterator[Work]:
    if report.fault.module:
        part = parts_of(work).get(report.fault.module)
        if part is not None:
            yield replace(work, **part.changes(work))
    yield work


def _file_name(report: CompileReport, finding: Finding) -> str:
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    return re.sub(r"\W+", "-", f"{test or report.target}-{finding.kind}").strip("-")


def written(
    finding: Finding, report: CompileReport, work: Work, compiling: Compiling, budget: Budget, *, exact: bool
) -> tuple[str, tuple[str, ...], list[Any]]:
    """The text of the file, the packages that it needs, and the values that it loads.

    Raises:
        Unwritable: the target or its inputs cannot be written as source.
    """
    writer = Writer(exact=exact)
    imports = ("import contextlib", "import torch", "import torch.utils._pytree as pytree")
    writer.definitions.imports.update(dict.fromkeys(imports))
    target = writer.expression(work.target, "target")
    calls = [writer.call(one) for one in work.calls]
    loss = writer.expression(work.train, "loss") if callable(work.train) else repr(bool(work.train))
    optimizer = writer.expression(work.optimizer, "optimizer")
    needs = tuple(sorted(writer.definitions.needs))
    options: dict[str, Any] = {"backend": compiling.backend, "mode": compiling.mode, "options": compiling.options}
    options |= {"dynamic": compiling.dynamic, "fullgraph": compiling.fullgraph}
    head = [
        f"{finding.kind}: {headline(finding)}",
        "",
        f"torch {torch.__version__}, Python {platform.python_version()}, {platform.system()}, {report.device}.",
        f"It needs {', '.join(('torch', *needs))}.",
        *(["Its numbers are in the .pt file beside it."] if writer.stored else []),
    ]
    quoted = "\n".join(head).replace("\\", "\\\\").replace('"""', "'''")
    body = [f"global {', '.join(dict.fromkeys(writer.state))}"] if writer.state else []
    body += ["torch.manual_seed(0)", *writer.body, f"return {target}, {listed(calls, '    ')}"]
    values = 'values = torch.load(__file__[:-2] + "pt", weights_only=False)' if writer.stored else ""
    constants = [
        f"KIND = {finding.kind!r}",
        f"OPTIONS = {options!r}",
        f"MAX_RECOMPILES = {budget.max_recompiles!r}",
        f"LIMIT = {_tolerance(finding)!r}  # the largest error that passes; None: torch's own tolerances",
        f"TRAIN = {loss}",
        f"OPTIMIZER = {optimizer}",
        f"STEPS = {work.steps}",
    ]
    sections = [
        f'"""{quoted}\n"""',
        writer.definitions.text,
        *writer.helpers,
        values,
        "\n".join(constants),
        "def make():\n" + "\n".join(f"    {line}" for text in body for line in text.splitlines()),
        (TEMPLATES / "judge.txt").read_text(encoding="utf-8"),
    ]
    text = "\n\n".join(section.strip("\n") for section in sections if section.strip())
    return text + "\n", needs, writer.stored


def _tolerance(finding: Finding) -> float | None:
    """Between the limit and what was seen, so that rounding on another machine decides nothing."""
    if finding.limit is None or finding.measured is None or not 0 < finding.limit < finding.measured < float("inf"):
        return None
    return float((finding.limit * finding.measured) ** 0.5)


def _kept_if_alike(text: str, stored: list[Any], path: Path, kind: str, *, alone: bool) -> str:
    """Run it; keep it if it fails with the same kind. Otherwise what happened, in a few words.

    ``alone``: nothing of this process is on its path, so that it cannot need more than it says.
    """
    with TemporaryFolder("torch-compile-reproduction-") as place:
        file = place / path.name
        file.write_text(text, encoding="utf-8")
        if stored:
            torch.save(stored, file.with_suffix(".pt"))
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
        environment["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] = "1"
        environment["PYTHONPATH"] = os.pathsep.join(one for one in sys.path if one)
        try:
            done = subprocess.run(
                [sys.executable, *(["-I"] if alone else []), str(file)],
                cwd=place,
                env=environment,
                capture_output=True,
                text=True,
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"it took longer than {SECONDS:.0f} s"
        lines = done.stderr.strip().splitlines() or [""]
        if done.returncode != 1 or not any(line.startswith(f"AssertionError: {kind}:") for line in lines):
            return "it passed" if done.returncode == 0 else f"it ended with {lines[-1][:200]}"
        path.parent.mkdir(parents=True, exist_ok=True)
        if stored:
            write_atomically(path.with_suffix(".pt"), file.with_suffix(".pt").read_bytes())
        write_atomically(path, text)
    return ""
