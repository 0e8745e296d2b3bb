"""The contents of a plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..findings import CompileReport
from ..observation import Location
from .cards import CARDS, Card


@dataclass(frozen=True)
class PlannedKernel:
    """One launch of a Triton kernel.

    ``fuses`` lists the ops that the kernel computes. ``location`` is the line of user code that called the last of
    these ops, if known. ``blocks`` lists the candidate configurations (block sizes and number of warps); if there are
    several, Inductor would time them on the GPU and choose the fastest. ``float64`` is true if the kernel reads, writes
    or computes float64 values. With ``compiled=True``, ``registers`` and ``spills`` are the registers and the spilled
    bytes per thread, and ``shared_memory`` is the bytes of shared memory per block; otherwise, these three attributes
    are None.
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

    ``calls`` has one entry per run of the graph: the number of the call that ran it. ``bytes_moved`` is the number of
    bytes that the graph's kernels read and write, as counted by Inductor, or None if Inductor could not count them.
    """

    code: str
    backward: bool
    kernels: tuple[PlannedKernel, ...]
    library_calls: tuple[LibraryCall, ...]
    bytes_moved: int | None
    calls: tuple[int, ...]

    @property
    def launches(self) -> int:
        """The number of kernel launches and library calls in one run of the graph."""
        return len(self.kernels) + len(self.library_calls)


@dataclass
class Plan(CompileReport):
    """The code that Inductor generates for a GPU, planned without the GPU. Nothing in a plan is measured.

    ``planned`` contains the graphs in the order in which they were compiled. ``launches`` contains, for each call of
    the target, the number of kernel launches and library calls. ``peak_memory`` is the maximum number of bytes that the
    model, inputs, gradients, optimizer state and intermediate tensors occupy together at any time; libraries'
    workspaces and the allocator's rounding are not included. ``cudagraphs`` is the number of graphs that would be
    recorded as CUDA graphs. ``assumed`` lists the rules that the plan relies on although they were not verified for
    this GPU and torch version. ``fixed`` lists the choices that Inductor would make by timing on the GPU, but that are
    the same in every plan.
    """

    gpu: Card = CARDS["H100"]
    planned: tuple[PlannedGraph, ...] = ()
    launches: tuple[int, ...] = ()
    peak_memory: int = 0
    cudagraphs: int = 0
    assumed: tuple[str, ...] = ()
    fixed: tuple[str, ...] = field(default=())

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
        """The number of bytes that the graphs read and write if each runs once, or None if it is unknown for any
        graph.
        """
        moved = [graph.bytes_moved for graph in self.planned]
        return None if None in moved else sum(one for one in moved if one is not None)

    @property
    def cudagraph_skips(self) -> tuple[str, ...]:
        """If CUDA graphs were requested, the reasons why some graphs would not be recorded as CUDA graphs."""
        return tuple(dict.fromkeys(self.observation.cudagraph_skips))
