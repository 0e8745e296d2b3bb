"""Differences put into words: findings that name the limit, the measured value, the worst element and a likely fix."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

from .._torch.error_text import error_summary
from ..findings import Finding, FindingKind
from .leaves import Judgement, LeafVerdict
from .record import CallRecord

_LISTED = 5
_STRUCTURE_KINDS: dict[str, FindingKind] = {
    "output": "metadata",
    "argument": "mutation",
    "state": "mutation",
    "kept": "state",
}

# Rounding that adds up badly misses its limit by a little; a wrong kernel, index or mask by orders of magnitude.
CLOSE, FAR = 10, 1000
_STAGES = "compare with backend='eager' and 'aot_eager': the first of them that goes wrong is the stage at fault"
_LOOSEN = (
    "if the difference is expected, loosen this leaf by name: "
    "tolerances=Tolerances(leaves={{{path!r}: Tolerance(rtol=..., atol=...)}})"
)
_HINTS = {
    "close": _LOOSEN,
    "between": f"{_STAGES}; {_LOOSEN}",
    "far": f"this is more than rounding, so look for a defect: {_STAGES}. A looser tolerance would only hide it",
    "gradient": _STAGES,
    "lost": "return the new value instead of writing it in place, or write with copy_() on the tensor itself",
    "unexpected": "clone the tensor before it is handed to the compiled function",
    "mutation": _STAGES,
    "state": "make compiled code write it too, or move the write out of the compiled function; if the difference is "
    "meant, leave it out by name: tolerances=Tolerances(ignored=[{path!r}])",
    "compiled raises": "compare with backend='eager' to see whether tracing or the backend raises",
    "eager raises": "what is checked in eager is lost compiled: check data with torch._check(), shapes before the call",
    "both raise": "catch what both modes raise, or raise outside of the compiled function",
    "random": "compiled code drew other random numbers: check for seeds set inside, or custom random ops; "
    "tolerances=Tolerances(rng=False) switches this comparison off",
}


def value_finding(
    record: CallRecord, kind: str, write: str, found: Sequence[LeafVerdict], result: Judgement
) -> Finding:
    """One finding for all leaves of one kind that are wrong: the worst is told in full, the others are named."""
    worst = max(found, key=lambda leaf: leaf.ratio)
    return Finding(
        cast(FindingKind, kind),
        f"{record.label}: {_what(worst, write)}",
        evidence="\n".join(_evidence(worst, found, result)),
        hint=_HINTS[write or (_size(worst) if kind == "numerics" else kind)].format(path=worst.path),
    )


def _size(leaf: LeafVerdict) -> str:
    """How far over its limit a leaf is."""
    if leaf.note or not leaf.ratio <= FAR:
        return "far"
    return "close" if leaf.ratio <= CLOSE else "between"


def _what(leaf: LeafVerdict, write: str) -> str:
    if write == "lost":
        return f"the write to {leaf.path} is lost: eager changes it, compiled leaves it as it was"
    if write == "unexpected":
        return f"{leaf.path} is changed by the compiled function, and not by eager"
    if leaf.note:
        return f"{leaf.path} differs from eager: {leaf.note}"
    if not isinstance(leaf.eager, (float, complex)):
        return f"{leaf.path} differs from eager in {leaf.differing} of {leaf.elements} elements; they must be equal"
    return f"{leaf.path} differs from eager: {leaf.measure} {_number(leaf.error)}, limit {_limit(leaf)}"


def _limit(leaf: LeafVerdict) -> str:
    return f"{_number(leaf.limit)} ({leaf.ratio:.3g}x)" if math.isfinite(leaf.ratio) else _number(leaf.limit)


def _evidence(worst: LeafVerdict, found: Sequence[LeafVerdict], result: Judgement) -> list[str]:
    where = f"worst element {list(worst.index)}" if worst.index else "value"
    values = f"{where} of {worst.path}: eager {_number(worst.eager)}, compiled {_number(worst.compiled)}"
    if worst.reference is not None:
        values += f", fp64 {_number(worst.reference)}"
    lines = [values]
    if worst.rule == "fp64":
        more = (
            f", or what {worst.other_roundings} eager runs with other rounding reach" if worst.other_roundings else ""
        )
        limit = f"the limit is a multiple of eager's own error{more}"
        lines.append(f"errors are measured against an fp64 run of eager; {limit}")
    elif worst.rule == "spread":
        lines.append("eager differs from itself here; the limit is a multiple of the spread of two eager runs")
    elif result.reference == "spread of two eager runs":
        lines.append("no fp64 run was possible; the limit is the tolerance of the dtype")
    others = [leaf.path for leaf in found if leaf is not worst]
    if others:
        more = f" and {len(others) - _LISTED} more" if len(others) > _LISTED else ""
        lines.append(f"also wrong: {', '.join(others[:_LISTED])}{more}")
    return lines


def _number(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}" if value and 1e-3 <= abs(value) < 1e5 else f"{value:.3e}" if value else "0"
    return str(value)


def structure_finding(record: CallRecord, section: str, path: str, line: str) -> Finding:
    """A container, a length, a key or a ``None`` that differs."""
    kind = _STRUCTURE_KINDS.get(section, "gradient")
    return Finding(kind, f"{record.label}: {line}", hint=_structure_hint(kind, path))


def _structure_hint(kind: str, path: str) -> str:
    if kind == "state":
        return _HINTS["state"].format(path=path)
    if kind == "gradient":
        return "a gradient that only one leg has: look for detach(), no_grad() or unused branches near this tensor"
    return "return the same containers in every branch of the checked function"


def metadata_finding(record: CallRecord, section: str, path: str, lines: Sequence[str]) -> Finding:
    """Shape, dtype, device, layout, strides or ``requires_grad`` of one tensor."""
    kinds: dict[str, FindingKind] = {"argument": "mutation", "kept": "state"}
    kind = kinds.get(section, "metadata")
    hint = "call .contiguous() (or .contiguous(memory_format=...)) on it, in both modes, before it is returned"
    only_strides = all(line.startswith("strides") for line in lines)
    return Finding(
        kind,
        f"{record.label}: {path} differs from eager in {lines[0]}",
        evidence="\n".join(lines[1:]),
        hint=hint if only_strides else "",
    )


def plain_finding(record: CallRecord, section: str, path: str, line: str) -> Finding:
    """A value that is not a tensor."""
    kinds: dict[str, FindingKind] = {"argument": "mutation", "kept": "state"}
    hint = _HINTS["state"].format(path=path) if section == "kept" else ""
    return Finding(kinds.get(section, "numerics"), f"{record.label}: {line}", hint=hint)


def aliasing_finding(record: CallRecord, line: str) -> Finding:
    """Memory that is shared in one leg only."""
    hint = "clone() the output if the caller may write to it; a view in one mode and a copy in the other is a bug"
    return Finding("aliasing", f"{record.label}: {line}", hint=hint)


def random_finding(record: CallRecord, devices: Sequence[str]) -> Finding:
    """Generators that stand elsewhere after the call."""
    message = f"{record.label}: the random stream of {', '.join(devices)} was consumed differently than in eager"
    return Finding("numerics", message, hint=_HINTS["random"])


def exception_findings(eager: CallRecord, compiled: CallRecord) -> list[Finding]:
    """One leg raises and the other does not, or they raise exceptions that are not of one kind."""
    left, right = eager.error, compiled.error
    if left is not None and right is not None:
        if _same_exception(left, right):
            return []
        message = f"eager raises {type(left).__name__}, compiled raises {type(right).__name__}"
        evidence = f"eager: {error_summary(left)}\ncompiled: {error_summary(right)}"
        return [_exception(eager, message, evidence, "both raise")]
    if left is not None:
        message = f"eager raises {type(left).__name__}, compiled does not"
        return [_exception(eager, message, error_summary(left), "eager raises")]
    assert right is not None
    message = f"compiled raises {type(right).__name__}, eager does not"
    return [_exception(eager, message, error_summary(right), "compiled raises")]


def _exception(record: CallRecord, message: str, evidence: str, who: str) -> Finding:
    return Finding("exception", f"{record.label}: {message}", evidence=evidence, hint=_HINTS[who])


def _same_exception(eager: BaseException, compiled: BaseException) -> bool:
    """Same class, one a subclass of the other, or compiled's wraps eager's."""
    if isinstance(compiled, type(eager)) or isinstance(eager, type(compiled)):
        return True
    name = type(eager).__name__
    chain: BaseException | None = compiled
    seen: set[int] = set()
    while chain is not None and id(chain) not in seen:
        seen.add(id(chain))
        if type(chain).__name__ == name:
            return True
        chain = getattr(chain, "inner_exception", None) or chain.__cause__ or chain.__context__
    return f"{name}(" in str(compiled) or f"{name}:" in str(compiled)
