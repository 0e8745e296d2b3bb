"""Convert reports to plain text, for the message of a failed check."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..findings import CallReport, CompileReport, Finding, Reference
from .safe_text import terminal_block

MEASURED_AGAINST = "errors are measured against"  # the start of a line that explains a limit


def failure_text(report: CompileReport) -> str:
    """Return the findings with limits, evidence and likely fixes, followed by the diagnosis, the calls, and the command
    that runs the test again.

    For a check that passed, return one line with the outcome, and a summary of the observations.
    """
    blocks = [_head(report), *finding_texts(report.findings)]
    if report.diagnosis:
        blocks.append("Diagnosis\n" + "\n".join(f"  {line}" for line in report.diagnosis))
    if len(report.calls) > 1:
        blocks.append("Sequence\n" + sequence_table(report.calls))
    blocks.append(_summary(report))
    if report.numerics.not_compared:
        blocks.append(
            f"Not compared, because the eager results are not deterministic: {', '.join(report.numerics.not_compared)}"
        )
    if report.deviations:
        settings = [f"  {deviation}" for deviation in report.deviations]
        blocks.append("\n".join(["Settings that differ from torch's defaults:", *settings]))
    blocks += [f"Not observable: {what}" for what in report.observation.not_observable]
    blocks += [f"Note: {remark}" for remark in report.remarks]
    if report.rerun and report.findings:
        blocks.append(f"Run again: {report.rerun}")
    return terminal_block("\n\n".join(blocks))


def not_compared_text(target: str, paths: Sequence[str]) -> str:
    """Return the warning for a check that could not compare everything."""
    return (
        f"{target}: {', '.join(paths)} could not be compared, because two eager runs differ by more than rounding "
        "errors. Make the eager results deterministic (set a seed, call torch.use_deterministic_algorithms, initialize "
        "all memory), or ignore these results with tolerances=Tolerances(ignored=[...])"
    )


def _head(report: CompileReport) -> str:
    # Code inside compile_guard calls torch.compile itself, so there is no single backend, mode or device to show.
    how = [f"backend {report.backend}", f"{report.checked_mode} mode"] if report.calls else []
    how += [f"torch {report.torch}", *([report.device] if report.calls else [])]
    if not report.findings:
        return f"{report.target} passed the torch.compile check ({', '.join(how)})"
    findings = count(len(report.findings), "finding")
    return f"{report.target} failed the torch.compile check: {findings} ({', '.join(how)})"


def finding_texts(findings: Sequence[Finding]) -> list[str]:
    """Return the text of each finding. A fix, or an explanation of the limit, that an earlier finding shows is not
    repeated.
    """
    shown: dict[str, int] = {}
    texts = []
    for number, finding in enumerate(findings, 1):
        lines = finding.evidence.splitlines()
        explained = [line for line in lines if line.startswith(MEASURED_AGAINST)]
        evidence = "\n".join(line for line in lines if line not in explained or line not in shown)
        first = shown.setdefault(finding.hint, number)
        hint = finding.hint if first == number or not finding.hint else f"see finding {first}"
        texts.append(finding_text(number, replace(finding, evidence=evidence, hint=hint)))
        shown.update(dict.fromkeys(explained, number))
    return texts


def finding_text(number: int, finding: Finding) -> str:
    """Return one finding with its number, message, location, evidence, cause and likely fix."""
    lines = [f"{number}. {finding.kind}: {headline(finding)}"]
    if finding.location is not None:
        lines.append(f"   at {finding.location.shown()}")
    lines += [f"     {line}" for line in finding.evidence.splitlines() if line.strip()]
    if finding.cause:
        lines.append(f"   cause: {finding.cause}")
    if finding.hint:
        lines.append("   fix: " + finding.hint.replace("\n", "\n        "))
    return terminal_block("\n".join(lines))


def sequence_table(calls: Sequence[CallReport]) -> str:
    """Return the calls as an aligned table: each call's label, argument shapes, outcome (such as compiled or reused)
    and the guard that failed.
    """
    rows = [("call", "arguments", "outcome", "guard that failed")]
    rows += [(call.label, cut(call.shapes, 56), call.outcome, call.guard) for call in calls]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return "\n".join(
        "  " + "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]]).rstrip()
        for row in rows
    )


def _summary(report: CompileReport) -> str:
    seen, numerics = report.observation, report.numerics
    owners = ""
    if any(found.installed for found in seen.graph_breaks):
        packages = Counter(found.package for found in seen.graph_breaks)
        owners = f" ({', '.join(f'{number} in {package}' for package, number in packages.items())})"
    parts = [
        count(len(seen.graphs), "graph"),
        count(seen.ops, "op"),
        count(len(seen.graph_breaks), "graph break") + owners,
        count(len(seen.recompiles), "recompile"),
        f"compiled in {seen.compile_seconds.total:.1f} s",
    ]
    if numerics.leaves and not numerics.worst_ratio:
        parts.append(f"{count(numerics.leaves, 'tensor')} equal to eager")
    elif numerics.leaves:
        parts.append(numerics.worst_error)
        if numerics.reference != Reference.NOT_NEEDED.value:
            parts.append(f"reference: {numerics.reference}")
        if numerics.ill_conditioned:
            parts.append(
                f"{count(numerics.ill_conditioned, 'tensor')} passed because the errors are no larger than the errors "
                "of eager runs with perturbed rounding"
            )
    return "Seen: " + ", ".join(parts)


def headline(finding: Finding | Mapping[str, Any]) -> str:
    """Return the one-line message of a finding: ``ranks 0, 1: call 2: output differs from eager: error 0.1, limit 0``.

    A finding from a stored report is a mapping; in reports from older versions, its message already contains the calls
    and the measured values.
    """
    data = finding.to_dict() if isinstance(finding, Finding) else finding
    owners = [numbered(noun, data[noun + "s"]) for noun in ("rank", "call") if data.get(noun + "s")]
    parts = [*owners, data["message"]]
    if data.get("measure"):
        # A report stores infinity as null.
        measured, limit = (data[name] if data[name] is not None else math.inf for name in ("measured", "limit"))
        times = f" ({measured / limit:.3g}x)" if 0 < limit < math.inf and measured < math.inf else ""
        parts.append(f"{data['measure']} {number(measured)}, limit {number(limit)}{times}")
    return ": ".join(parts)


def cudagraphs(runs: Sequence[Mapping[str, Any]]) -> str:
    """Describe how runs used CUDA graphs: ``1 warmed up, 1 recorded, 3 replayed, 2 without``."""
    sums = {name: sum(run[name] for run in runs) for name in ("warmed_up", "recorded", "replayed")}
    sums["without"] = sum(len(run["without"]) for run in runs)
    return ", ".join(f"{total} {name.replace('_', ' ')}" for name, total in sums.items())


def numbered(noun: str, numbers: Sequence[int]) -> str:
    """Format a noun with a list of numbers: ``call 2``, ``calls 1, 2``."""
    return f"{noun}{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


def number(value: float | complex | None, digits: int = 6) -> str:
    """Format a float with up to six significant digits, such as ``0.5``, or four digits if an exponent is needed. If
    ``digits`` is larger than six, use this number of digits. Other types are converted by ``str``.
    """
    if not isinstance(value, float):
        return str(value)
    if value and 1e-3 <= abs(value) < 1e5:
        return f"{value:.{digits}g}"
    return f"{value:.{digits - 1 if digits > 6 else 3}e}" if value else "0"


def digits_apart(one: float | complex | None, other: float | complex | None) -> int:
    """Return the number of digits with which two different numbers look different: 6, 9 (which distinguish all float32
    numbers) or 17 (float64).
    """
    return next(
        (digits for digits in (6, 9) if number(one, digits) != number(other, digits)), 6 if one == other else 17
    )


def count(number: int, noun: str) -> str:
    """Format a count: ``1 graph``, ``2 graphs``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def cut(text: str, width: int) -> str:
    """Cut a string to at most ``width`` characters."""
    return text if len(text) <= width else text[: max(0, width - 3)] + "..."
