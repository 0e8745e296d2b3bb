"""Turn differences between eager and compiled results into findings with the worst element and a fix."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import torch

from .. import advice
from .._torch.error_text import error_summary
from .._torch.object_text import message_of
from ..findings import Finding, FindingKind
from ..report.failure_text import MEASURED_AGAINST, digits_apart, number
from .aliasing import aliasing_differences
from .leaves import LeafVerdict
from .metadata import MetadataDifference
from .record import CallRecord
from .sections import SectionName, sharing_in

_DOUBLE_BACKWARD = "does not currently support double backward"  # in AOTAutograd's exception
Write = Literal["", "lost", "unexpected"]
VALUE_KINDS: dict[SectionName, FindingKind] = {
    "output": "numerics",
    "argument": "mutation",
    "state": "mutation",
    "kept": "state",
    "grad": "gradient",
    "input grad": "gradient",
}
STRUCTURE_KINDS: dict[SectionName, FindingKind] = {**VALUE_KINDS, "output": "metadata"}
METADATA_KINDS: dict[SectionName, FindingKind] = {"argument": "mutation", "kept": "state"}

_LISTED = 5
# An error that exceeds its limit by at most the factor ``_CLOSE`` may be accumulated rounding. An error that exceeds it
# by more than the factor ``_FAR`` indicates a bug, such as a wrong kernel, index or mask.
_CLOSE, _FAR = 10, 1000


def value_finding(
    record: CallRecord,
    kind: FindingKind,
    write: Write,
    leaves: Sequence[LeafVerdict],
    metadata: Mapping[str, Sequence[MetadataDifference]],
    fp64_ran: bool | None,
) -> Finding:
    """Return one finding for all wrong tensors of one kind. The finding contains the errors of the worst tensor and the
    paths of the other tensors.

    ``metadata`` contains the metadata differences of these tensors. The finding includes these differences, so that no
    tensor has two findings.
    """
    worst = max(leaves, key=lambda leaf: leaf.worst.ratio)
    figures = worst.worst
    message = {
        "lost": f"the write to {worst.path} is lost: eager changes it, but compiled code does not",
        "unexpected": f"compiled code changes {worst.path}, but eager does not",
        "": f"{worst.path} differs from eager",
    }[write]
    if worst.nonfinite and not write:
        message += ": NaN or infinity at different positions"
    names_figures = not (write or worst.nonfinite)
    return Finding(
        kind,
        message,
        evidence="\n".join([*_evidence(worst, leaves, fp64_ran), *_metadata_lines(worst.path, metadata)]),
        hint=_value_hint(kind, write, worst),
        calls=(record.number,),
        subject=worst.path,
        measure=figures.name if names_figures else "",
        measured=figures.error,
        limit=figures.limit,
    )


def _value_hint(kind: FindingKind, write: Write, worst: LeafVerdict) -> str:
    if write == "lost":
        return advice.LOST_WRITE
    if write:
        # An attribute of an argument cannot be cloned before the call.
        is_argument = worst.path.startswith("argument") and "." not in worst.path
        return advice.UNEXPECTED_WRITE if is_argument else advice.ONLY_COMPILED_WRITES
    if kind == "state" and not worst.path.endswith(".grad"):
        return advice.keep_out_of_state(worst.path)
    if kind != "numerics":
        return advice.FIND_STAGE
    ratio = worst.worst.ratio
    if worst.nonfinite or not ratio <= _FAR:
        return advice.LOOK_FOR_A_DEFECT
    loosen = advice.loosen(worst.path)
    return loosen if ratio <= _CLOSE else f"{advice.FIND_STAGE}; {loosen}"


def _evidence(worst: LeafVerdict, leaves: Sequence[LeafVerdict], fp64_ran: bool | None) -> list[str]:
    where = f"worst element {list(worst.index)}" if worst.index else "value"
    digits = digits_apart(worst.eager, worst.compiled)
    eager, compiled, fp64 = (number(one, digits) for one in (worst.eager, worst.compiled, worst.reference))
    values = f"{where} of {worst.path}: eager {eager}, compiled {compiled}"
    lines = [values + (f", fp64 {fp64}" if worst.reference is not None else "")]
    if worst.worst.name == "wrong elements":
        lines.append(f"{worst.differing} of {worst.elements} elements differ, but they must be equal")
    elif worst.rule == "fp64":
        runs = f", or of the largest error in {worst.perturbed_runs} eager runs with perturbed rounding"
        limit = f"the limit is a multiple of the eager run's error{runs if worst.perturbed_runs else ''}"
        lines.append(f"{MEASURED_AGAINST} an eager fp64 run; {limit}")
    elif worst.rule == "spread":
        lines.append(
            "two eager runs differ in this value; the limit is a multiple of the difference between these runs"
        )
    elif worst.rule == "given":
        lines.append("the limit is the tolerance set for this check")
    elif fp64_ran is not None and not worst.nonfinite:
        why = "the fp64 run does not compute the same result as eager" if fp64_ran else "an fp64 run was not possible"
        reached = f"a multiple of the largest error in {worst.perturbed_runs} eager runs with perturbed rounding"
        lines.append(f"{why}, so the limit is {reached if worst.perturbed_runs else 'the tolerance for the dtype'}")
    others = [leaf.path for leaf in leaves if leaf is not worst]
    if others:
        more = f" and {len(others) - _LISTED} more" if len(others) > _LISTED else ""
        lines.append(f"also wrong: {', '.join(others[:_LISTED])}{more}")
    return lines


def _metadata_lines(worst: str, metadata: Mapping[str, Sequence[MetadataDifference]]) -> list[str]:
    lines = [
        f"{'also' if path == worst else path + ' also'} differs in {difference}"
        for path, differences in metadata.items()
        for difference in differences
    ]
    return lines[:_LISTED]


def structure_finding(record: CallRecord, section: SectionName, path: str, line: str) -> Finding:
    """Return the finding for a container, a length, a key or a ``None`` that differs."""
    kind = STRUCTURE_KINDS[section]
    hints = {"state": advice.keep_out_of_state(path), "gradient": advice.ONE_SIDED_GRADIENT}
    hint = hints.get(kind, advice.SAME_CONTAINERS)
    return Finding(kind, line, hint=hint, calls=(record.number,), subject=path)


def metadata_finding(
    record: CallRecord, section: SectionName, path: str, differences: Sequence[MetadataDifference]
) -> Finding:
    """Return the finding for a tensor whose shape, dtype, device, layout, strides or ``requires_grad`` differs."""
    return Finding(
        METADATA_KINDS.get(section, "metadata"),
        f"{path} differs from eager in {differences[0]}",
        evidence="\n".join(map(str, differences[1:])),
        hint=advice.METADATA[differences[0].what],
        calls=(record.number,),
        subject=path,
    )


def plain_finding(record: CallRecord, section: SectionName, path: str, line: str) -> Finding:
    """Return the finding for a differing value that is not a tensor."""
    hint = advice.keep_out_of_state(path) if section == "kept" else ""
    return Finding(VALUE_KINDS[section], line, hint=hint, calls=(record.number,), subject=path)


def exception_findings(eager: CallRecord, compiled: CallRecord) -> list[Finding]:
    """Return the finding if only one run raises an exception, or if the two runs raise different exceptions."""
    left, right = eager.error, compiled.error
    part = compiled.part if left is None else eager.part
    where = "" if part == "forward" else f" in the {part}"
    if left is not None and right is not None:
        if _same_exception(left, right):
            return []
        message = f"eager raises {type(left).__name__}{where}, but compiled code raises {type(right).__name__}"
        evidence, hint = f"eager: {error_summary(left)}\ncompiled: {error_summary(right)}", advice.BOTH_RAISE
    elif left is not None:
        message = f"eager raises {type(left).__name__}{where}, but compiled code does not"
        evidence, hint = error_summary(left), advice.FAILS_IN_EAGER
    elif right is not None:
        message = f"compiled code raises {type(right).__name__}{where}, but eager does not"
        evidence = error_summary(right)
        hint = advice.NO_DOUBLE_BACKWARD if _DOUBLE_BACKWARD in evidence else advice.ONLY_COMPILED_RAISES
    else:
        return []
    return [Finding("exception", message, evidence=evidence, hint=hint, calls=(eager.number,))]


def _same_exception(eager: BaseException, compiled: BaseException) -> bool:
    """Return whether two exceptions match. Two exceptions match if their classes are equal, if one class is a subclass
    of the other, or if the compiled run's exception wraps or mentions an exception with the eager exception's class
    name.
    """
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
    return f"{name}(" in message_of(compiled) or f"{name}:" in message_of(compiled)


def aliasing_findings(eager: CallRecord, compiled: CallRecord) -> Iterator[Finding]:
    """Yield a finding for each value that shares memory with other values than in eager."""
    for name, line in aliasing_differences(sharing_in(eager), sharing_in(compiled)):
        yield Finding("aliasing", line, hint=advice.ALIASING, calls=(eager.number,), subject=name)


def random_stream_findings(eager: CallRecord, compiled: CallRecord) -> Iterator[Finding]:
    """Yield a finding if a random number generator is in a different state than after the eager run."""
    devices = [d for d in eager.rng if d in compiled.rng and not torch.equal(eager.rng[d], compiled.rng[d])]
    if devices:
        message = f"compiled code advanced the random number generator of {', '.join(devices)} differently from eager"
        yield Finding("numerics", message, hint=advice.RANDOM_STREAM, calls=(eager.number,))
