"""Find the op and the Inductor option that cause a wrong result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from .._torch.op_tables import Table, is_set, noting, without
from .._torch.support import options_of_mode
from .stage import KINDS
from .subject import Subject

# Inductor options, each with the value that turns off one part of Inductor, and with the part's name. Options with the
# least impact come first.
SWITCHES: tuple[tuple[str, Any, str], ...] = (
    ("post_grad_custom_post_pass", None, "this custom pass"),
    ("joint_custom_post_pass", None, "this custom pass"),
    ("emulate_precision_casts", True, "the higher precision inside fused kernels"),
    ("pattern_matcher", False, "the pattern matcher"),
    ("epilogue_fusion", False, "fusion into matrix products"),
    ("layout_optimization", False, "layout optimization"),
    ("split_reductions", False, "splitting reductions"),
    ("inplace_buffers", False, "in-place reuse of buffers"),
    ("allow_buffer_reuse", False, "reuse of buffers"),
    ("joint_graph_constant_folding", False, "constant folding"),
    ("cpp.simdlen", 1, "vectorized code"),
    ("max_fusion_size", 1, "kernel fusion"),
)
TABLES: dict[str, Table] = {"aot_eager_decomp_partition": "decomposition", "inductor": "lowering"}


def part_of_inductor(subject: Subject) -> Iterator[str]:
    """Yield lines that report the op whose decomposition or generated code is wrong, and each option that makes the
    check pass.
    """
    stage, kinds = subject.report.fault.stage, subject.kinds & KINDS
    if stage not in TABLES or not kinds:
        return
    yield from _op(subject, TABLES[stage])
    if stage == "inductor":
        yield from _switches(subject)


def _switches(subject: Subject) -> Iterator[str]:
    # A switch is an option, and torch.compile does not accept a mode beside options.
    own = {**options_of_mode(subject.compiling.mode), **(subject.compiling.options or {})}
    for name, value, part in SWITCHES:
        if name in own or (value is None and not is_set(name)):
            continue
        changes: dict[str, Any] = {"mode": None, "options": {**own, name: value}}
        # Try the smallest module first: it is faster to check, and the target can be correct only if the module is.
        if subject.smallest:
            alone = subject.again(**{**subject.smallest, **changes})
            if alone is not None and alone.findings:
                continue
        report = subject.again(**changes)
        if report is not None and not report.findings:
            fault = subject.report.fault
            subject.report.fault = replace(fault, switch=fault.switch or name)
            numerics = report.numerics
            error = numerics.worst_error if numerics.leaves else "no finding"
            yield f"tried: options={{{name!r}: {value!r}}}: {error}. The result is correct without {part}"


def _op(subject: Subject, table: Table) -> list[str]:
    """Return a line about the op whose decomposition or lowering makes the check fail. The op is found by bisecting the
    list of ops that the check uses.
    """
    ops = _of_part(subject, table, subject.smallest) if subject.smallest else []
    if not ops or not _right_without(subject, table, ops, {}):
        ops = _of_part(subject, table, {})
    if not ops:
        return []
    subject.report.fault = replace(subject.report.fault, op=", ".join(ops))
    how = "without the decomposition of" if table == "decomposition" else "if Inductor calls the eager kernel of"
    return [f"op: in a trial run, the result is correct {how} {', '.join(ops)}"]


def _of_part(subject: Subject, table: Table, part: dict[str, Any]) -> Sequence[str]:
    """Return the ops whose decompositions or lowerings must be turned off so that the result is correct. If ``part`` is
    not empty, it contains the changes that turn the check into a check of one module.
    """
    used: list[str] = []
    with noting(table, used):
        subject.again(**part)
    return _fewest(subject, table, used, part) if used and _right_without(subject, table, used, part) else []


def _fewest(subject: Subject, table: Table, ops: Sequence[str], part: dict[str, Any]) -> Sequence[str]:
    """Return a short list of ops. The result is correct if the decompositions or lowerings of these ops are turned off.
    The list is halved as long as turning off one of the halves is sufficient.
    """
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
