"""What the planning process finds for one target: above all, the graphs that Inductor compiles, with their kernels."""

from __future__ import annotations

from dataclasses import dataclass, field

from .._torch.planning.block_sizes import blocks_of
from .._torch.planning.generated import Generator
from .._torch.planning.ptxas import built
from ..findings import CallReport, Finding
from ..observation import Observation
from .fake_leg import PlanOptions
from .plan_findings import not_compiled
from .recorder import Values
from .records import PlannedGraph
from .source import Kernel, launches, lines_of_ops


@dataclass
class Planned:
    """The result of the planning process for one target."""

    seen: Observation = field(default_factory=Observation)
    rows: list[CallReport] = field(default_factory=list)
    graphs: list[PlannedGraph] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    raised: bool = False
    peak_memory: int = 0
    cudagraphs: int = 0
    assumed: list[str] = field(default_factory=list)
    fixed: list[str] = field(default_factory=list)
    values: Values = field(default_factory=Values)


def add_graphs(found: Planned, generator: Generator, options: PlanOptions) -> None:
    """Add the graphs that Inductor has compiled, and a finding for each kernel that does not compile for the GPU."""
    for graph in generator.graphs:
        known = {
            name: Kernel(
                source,
                blocks_of(name, source),
                built(name, options.changed(name, source)) if options.compiled else None,
            )
            for name, source in graph.kernels.items()
        }
        kernels, libraries = launches(graph.source, graph.stacks, known)
        lines, runs = lines_of_ops(graph.ops), tuple(graph.runs)
        found.graphs.append(
            PlannedGraph(graph.source, graph.backward, kernels, libraries, graph.bytes_moved, runs, lines, graph.flops)
        )
        errors = {name: kernel.build.error for name, kernel in known.items() if kernel.build and kernel.build.error}
        found.findings += [not_compiled(one, errors[one.name]) for one in kernels if one.name in errors]
