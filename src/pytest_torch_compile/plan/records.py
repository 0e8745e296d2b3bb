"""``Plan``, the result of ``check_plan``, and the classes of its parts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ..findings import CompileReport
from ..observation import Location
from ..speed.deciding.exact import QUANTITIES
from ..speed.sample import Exact
from .cards import CARDS, Card

_NUMBER = re.compile(r"_\d+$")  # Inductor numbers the kernels of a graph


@dataclass(frozen=True)
class PlannedKernel:
    """One launch of a Triton kernel.

    ``fuses`` lists the ops that the kernel computes. ``location`` is the line of user code that called the last of
    these ops, if known. ``blocks`` lists the candidate configurations (block sizes and number of warps); if there are
    several, Inductor would time them on the GPU and choose the fastest. ``float64`` is true if the kernel reads, writes
    or computes float64 values. With ``compiled=True``, ``registers`` and ``spills`` are the numbers of registers and
    spilled bytes per thread, and ``shared_memory`` is the number of bytes of shared memory per block; otherwise, these
    three attributes are None.
    """

    name: str
    fuses: tuple[str, ...]
    location: Location | None = None
    blocks: tuple[Mapping[str, int], ...] = ()
    float64: bool = False
    registers: int | None = None
    spills: int | None = None
    shared_memory: int | None = None


@dataclass(frozen=True)
class LibraryCall:
    """One call to a library function, such as ``extern_kernels.mm``. A call may launch several kernels on the GPU."""

    name: str
    computes: tuple[str, ...]
    location: Location | None = None


@dataclass(frozen=True)
class PlannedGraph:
    """One graph for which Inductor generated code.

    ``calls`` lists the calls (counted from 1) that ran the graph, once for each run. ``bytes_moved`` is the number of
    bytes that the graph's kernels read and write, as counted by Inductor, or None if Inductor could not count them.
    ``lines`` maps each op of the graph to the first line of user code that calls this op, if known. ``flops`` maps each
    dtype to the number of floating-point operations that matrix products, convolutions and attention perform in this
    dtype, or is None if torch cannot count them.
    """

    code: str
    backward: bool
    kernels: tuple[PlannedKernel, ...]
    library_calls: tuple[LibraryCall, ...]
    bytes_moved: int | None
    calls: tuple[int, ...]
    lines: Mapping[str, Location] = field(default_factory=dict)
    flops: Mapping[str, int] | None = field(default_factory=dict)

    @property
    def launches(self) -> int:
        """The number of kernel launches and library calls in one run of the graph."""
        return len(self.kernels) + len(self.library_calls)


@dataclass
class Plan(CompileReport):
    """The code that Inductor generates for a GPU, and predictions of its kernels and memory. A plan is created without
    the GPU, and nothing is measured.

    ``planned`` contains the graphs in the order in which they were compiled. ``launches`` contains, for each call of
    the target, the number of kernel launches and library calls. ``peak_memory`` is the largest number of bytes that the
    model, inputs, gradients, optimizer state and intermediate tensors occupy at the same time. This number excludes the
    workspaces of libraries and the allocator's rounding. ``cudagraphs`` is the number of graphs that would be recorded
    as CUDA graphs. ``assumed`` lists the plan's assumptions about torch that were not verified for this GPU and torch
    version. ``fixed`` describes the settings that the plan overrides, such as ``max_autotune``. ``compared`` is the
    result of the comparison with the baseline; only ``--compile-plan`` sets it.
    """

    gpu: Card = CARDS["H100"]
    planned: tuple[PlannedGraph, ...] = ()
    launches: tuple[int, ...] = ()
    peak_memory: int = 0
    cudagraphs: int = 0
    assumed: tuple[str, ...] = ()
    fixed: tuple[str, ...] = field(default=())
    compared: Mapping[str, Any] = field(default_factory=dict)

    @property
    def code(self) -> tuple[str, ...]:
        """Each graph's generated source code."""
        return tuple(graph.code for graph in self.planned)

    @property
    def kernels(self) -> tuple[PlannedKernel, ...]:
        """All Triton kernel launches, graph by graph."""
        return tuple(kernel for graph in self.planned for kernel in graph.kernels)

    @property
    def library_calls(self) -> tuple[LibraryCall, ...]:
        """All library calls, graph by graph."""
        return tuple(call for graph in self.planned for call in graph.library_calls)

    @property
    def bytes_moved(self) -> int | None:
        """The number of bytes that the graphs read and write if each graph runs once, or None if the number is unknown
        for at least one graph.
        """
        moved = [graph.bytes_moved for graph in self.planned]
        return None if None in moved else sum(one for one in moved if one is not None)

    @property
    def flops(self) -> dict[str, int] | None:
        """For each dtype, the number of floating-point operations in the last call's matrix products, convolutions and
        attention; None if the number is unknown for at least one graph. A graph with dynamic sizes is counted with the
        sizes for which it was compiled. Ops inside ``torch.cond`` and other higher-order ops are not counted.
        """
        found: Counter[str] = Counter()
        for graph, times in self._runs_in_last_call():
            if graph.flops is None:
                return None
            found.update({dtype: flops * times for dtype, flops in graph.flops.items()})
        return dict(found)

    @property
    def cudagraph_skips(self) -> tuple[str, ...]:
        """If CUDA graphs were requested, the reasons why some graphs would not be recorded as CUDA graphs."""
        return tuple(dict.fromkeys(self.observation.cudagraph_skips))

    @property
    def exact(self) -> Exact:
        """The planned counts. ``kernels``, ``library_calls`` and ``bytes_moved`` count only the last call. ``memory``
        is the peak of all calls, and the other counts are totals over all calls.
        """
        runs = self._runs_in_last_call()
        moved = [graph.bytes_moved for graph, _ in runs]
        return Exact(
            kernels=sum(len(graph.kernels) * times for graph, times in runs),
            library_calls=sum(len(graph.library_calls) * times for graph, times in runs),
            memory=self.peak_memory,
            bytes_moved=None if None in moved else sum((graph.bytes_moved or 0) * times for graph, times in runs),
            graphs=len(self.graphs),
            graph_breaks=len(self.graph_breaks),
            recompiles=len(self.recompiles),
            cuda_graphs=self.cudagraphs,
            cudagraph_skips=len(self.observation.cudagraph_skips),
        )

    def launched(self) -> list[tuple[dict[str, Any], Location | None]]:
        """Return each kernel and library function with its number of launches in the last call, and the first line of
        user code that launches it.

        Kernels are combined if they differ only in the number at the end of their names or in the order of their ops.
        """
        times: Counter[tuple[str, tuple[str, ...]]] = Counter()
        lines: dict[tuple[str, tuple[str, ...]], Location | None] = {}
        for graph, runs in self._runs_in_last_call():
            own = [(_NUMBER.sub("", one.name), one.fuses, one.location) for one in graph.kernels]
            own += [(one.name, one.computes, one.location) for one in graph.library_calls]
            for name, ops, location in own:
                key = name, tuple(sorted(ops))
                times[key] += runs
                lines[key] = lines.get(key) or location
        return [({"name": key[0], "ops": [*key[1]], "times": times[key]}, lines[key]) for key in times]

    def _runs_in_last_call(self) -> list[tuple[PlannedGraph, int]]:
        runs = [(graph, graph.calls.count(len(self.launches))) for graph in self.planned]
        return [(graph, times) for graph, times in runs if times]

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as JSON-ready data."""
        counts = self.exact.counted()
        titled = [
            {"quantity": one.name, "title": one.planned, "value": counts[one.name]}
            for one in QUANTITIES
            if one.planned and one.name in counts
        ]
        launches = [{**launch, "location": place and asdict(place)} for launch, place in self.launched()]
        figures = {"gpu": self.gpu.name, "counts": titled, "launches": launches, **self.compared}
        return {**super().to_dict(), "plan": figures}
