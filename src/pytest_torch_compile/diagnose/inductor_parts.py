"""Within the stage at fault: the op and the switch of Inductor without which the result is right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from .._torch.op_tables import Table, is_set, noting, without
from .._torch.support import options_of_mode
from ..findings import CompileReport
from .stage import KINDS
from .subject import Subject

# Options of Inductor that take one part of it out, with that part; those people can live with come first.
SWITCHES: tuple[tuple[str, Any, str], ...] = (
    ("post_grad_custom_post_pass", None, "that pass of your own"),
    ("joint_custom_post_pass", None, "that pass of your own"),
    ("emulate_precision_casts", True, "the higher precision between fused ops"),
    ("pattern_matcher", False, "a pattern that it replaces"),
    ("epilogue_fusion", False, "the fusion into matrix products"),
    ("layout_optimization", False, "the choice of layouts"),
    ("split_reductions", False, "the splitting of reductions"),
    ("inplace_buffers", False, "the reuse of buffers in place"),
    ("allow_buffer_reuse", False, "the reuse of buffers"),
    ("joint_graph_constant_folding", False, "the folding of constants"),
    ("cpp.simdlen", 1, "vectorised code"),
    ("max_fusion_size", 1, "the fusion of kernels"),
)
TABLES: dict[str, Table] = {"aot_eager_decomp_partition": "decomposition", "inductor": "lowering"}


def part_of_inductor(subject: Subject) -> Iterator[str]:
    """The op whose decomposition or code is wrong, and each switch that makes the check pass."""
    stage, kinds = subject.report.fault.stage, subject.kinds & KINDS
    if stage not in TABLES or not kinds:
        return
    yield from _op(subject, TABLES[stage])
    if stage == "inductor":
        yield from _switches(subject)


def _switches(subject: Subject) -> Iterator[str]:
    own = _own_options(subject)
    for name, value, part in SWITCHES:
        if name in own or (value is None and not is_set(name)):
            continue
        changes: dict[str, Any] = {"mode": None, "options": {**own, name: value}}
        if subject.smallest:  # is cheaper to try, and what does not help it does not help the whole
            alone = subject.again(**{**subject.smallest, **changes})
            if alone is not None and alone.findings:
                continue
        report = subject.again(**changes)
        if report is not None and not report.findings:
            fault = subject.report.fault
            subject.report.fault = replace(fault, switch=fault.switch or name)
            yield f"tried: options={{{name!r}: {value!r}}}: {_error(report)}. Without {part}, the result is right"


def _own_options(subject: Subject) -> dict[str, Any]:
    """The check's options, and what its mode stands for: torch.compile takes a mode or options, not both."""
    return {**options_of_mode(subject.compiling.mode), **(subject.compiling.options or {})}


def _error(report: CompileReport) -> str:
    return f"worst error {report.numerics.worst_ratio:.2g} of its limit" if report.numerics.leaves else "no finding"


def _op(subject: Subject, table: Table) -> list[str]:
    """The op without whose entry the check passes. It is looked for by halves among those that are used."""
    ops = _of_part(subject, table, subject.smallest) if subject.smallest else []
    if not ops or not _right_without(subject, table, ops, {}):
        ops = _of_part(subject, table, {})
    if not ops:
        return []
    subject.report.fault = replace(subject.report.fault, op=", ".join(ops))
    how = "not decomposed" if table == "decomposition" else "run by the eager kernel in place of Inductor's code"
    return [f"op: the result is right with {', '.join(ops)} {how} (tried)"]


def _of_part(subject: Subject, table: Table, part: dict[str, Any]) -> Sequence[str]:
    """The ops without whose entries one part of the target is right, or all of it where there are no changes."""
    used: list[str] = []
    with noting(table, used):
        subject.again(**part)
    return _fewest(subject, table, used, part) if used and _right_without(subject, table, used, part) else []


def _fewest(subject: Subject, table: Table, ops: Sequence[str], part: dict[str, Any]) -> Sequence[str]:
    """The half of the ops that suffices, over and over; as they are where no half does."""
    while len(ops) > 1:
        middle = len(ops) // 2
        halves = (ops[:middle], ops[middle:])
        enough = next((half for half in halves if _right_without(subject, table, half, part)), None)
        if enough is None:
            return ops
        ops = enough
    return ops


def _right_without(subject: Subject, table: Table, ops: Sequence[str], part: dict[str, Any]) -> bool:
    with without(table, ops):
        report = subject.again(**part)
    return subject.is_right_in(report, subject.kinds & KINDS)
