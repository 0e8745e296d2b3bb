"""Create a page about one model, which shows the model's graphs and breaks, its correctness, and its cost."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

from ..findings import CompileReport, Reference, WrongResult
from ..report.failure_text import count, finding_text, sequence_table
from ..report.safe_text import terminal, terminal_block
from .factory import Example

if TYPE_CHECKING:
    from rich.console import Console

Section = tuple[str, list[str]]


def show(console: Console, report: CompileReport, cost: Sequence[str], test: str) -> None:
    """Print the page about one model: the result, the report's sections, the cost, and a test to copy."""
    from rich.text import Text

    verdict = report.text.splitlines()[0]
    console.print(Text(terminal(verdict), "bold red" if report.findings else "bold green"))
    for heading, lines in [*_sections(report), ("Cost", cost), *_what_next(report), ("As a test", [test])]:
        console.print(Text(f"\n{heading}", "bold"))
        console.print(Text(terminal_block("\n".join(lines))))


def _sections(report: CompileReport) -> Iterator[Section]:
    """Yield the sections about graphs, recompiles and results, each with the findings about its topic."""
    seen = report.observation
    recompiled: list[str] = []
    wrong: list[str] = []
    others: list[str] = []
    for number, finding in enumerate(report.findings, 1):
        is_recompile, is_wrong = finding.kind in ("recompile", "eager-fallback"), finding.kind in get_args(WrongResult)
        (recompiled if is_recompile else wrong if is_wrong else others).append(finding_text(number, finding))
    graphs = (count(len(seen.graphs), "graph"), count(seen.ops, "op"), count(len(seen.graph_breaks), "graph break"))
    yield "Graphs and breaks", [", ".join(graphs), *others]
    recompiles = f"{count(len(seen.recompiles), 'recompile')} in {count(len(report.calls), 'call')}"
    yield "Recompiles", [recompiles, *([sequence_table(report.calls)] if report.calls else []), *recompiled]
    yield "Results against eager", [_numerics(report), *wrong]


def _numerics(report: CompileReport) -> str:
    numerics = report.numerics
    if not numerics.leaves:
        return "nothing was compared"
    tensors = count(numerics.leaves, "tensor")
    if not numerics.worst_ratio:
        text = f"{tensors} compared, equal to eager"
    else:
        text = f"{tensors} compared, {numerics.worst_error}"
    if numerics.reference != Reference.NOT_NEEDED.value:
        text += f", reference: {numerics.reference}"
    skipped = ", ".join(numerics.not_compared)
    return f"{text}; not compared, because the eager results are not deterministic: {skipped}" if skipped else text


def _what_next(report: CompileReport) -> Iterator[Section]:
    if report.findings:
        yield (
            "What helps",
            report.diagnosis
            or [("none of the fixes that were tried made the check pass; see the suggestion under each finding")],
        )
    notes = [f"not observable: {what}" for what in report.observation.not_observable]
    notes += [f"note: {remark}" for remark in report.remarks]
    notes += [f"not torch's default: {deviation}" for deviation in report.deviations]
    if notes:
        yield "Notes", notes


def text_of_test(example: Example, options: Mapping[str, Any]) -> str:
    """Return the source code of a test that runs the same check as this page, with all options that differ from the
    defaults.
    """
    lines = ["import torch"] if "torch." in example.expression else []
    for spec in filter(None, dict.fromkeys([example.factory, example.make_inputs])):
        module, _, name = spec.partition(":")
        lines.append(f"from {module} import {name.partition('.')[0]}")
    name = example.factory.partition(":")[2]
    model, body = (name if example.is_model else f"{name}()"), []
    if example.gives_inputs and "inputs" in re.findall(r"\w+", example.expression):
        parts = f'{model}["model"], {model}["inputs"]' if example.is_dict else model
        body.append(f"    model, inputs = {parts}")
        model = "model"
    elif example.gives_inputs:
        model += '["model"]' if example.is_dict else "[0]"
    given = "".join(f", {key}={value!r}" for key, value in options.items() if value not in (None, False))
    body.append(f"    compile_check({model}, calls={example.expression}{given})")
    title = re.sub(r"\W+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)).lower()
    return "\n".join([*lines, "", "", f"def test_{title}(compile_check):", *body])
