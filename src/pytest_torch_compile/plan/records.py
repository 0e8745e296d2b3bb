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

    ``fuses`` lists the ops that the kernel computes, and ``location`` is the line of user code of the final op in this
    list, if known. ``blocks`` lists the candidates for block sizes and warps, of which Inductor would choose the
    fastest by timing them on the card; often there is only one candidate. ``float64`` is true if the kernel reads,
    writes or computes numbers of this type. With ``compiled=True``, ``registers`` is the number of registers per
    thread, ``spills`` the bytes spilled per thread, and ``shared_memory`` the bytes per block; otherwise they are None.
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
    """One call to a library function, such as ``extern_kernels.mm``. On the card, one call may launch several
    kernels.
    """

    name: str
    computes: tuple[str, ...]
    location: Location | None = None


@dataclass(frozen=True)
class PlannedGraph:
    """One graph for which Inductor generated code.

    ``calls`` contains, for each run of the graph, the number of the call. ``bytes_moved`` is Inductor's count of the
    bytes that the graph's kernels read and write, or None if Inductor has no count.
    """

    code: str
    backward: bool
    kernels: tuple[PlannedKernel, ...]
    library_calls: tuple[LibraryCall, ...]
    bytes_moved: int | None
    calls: tuple[int, ...]

    @property
    def launches(self) -> int:
        """The number of kernels and library calls in one run of the graph."""
        return len(self.kernels) + len(self.library_calls)


@dataclass
class Plan(CompileReport):
    """The code that Inductor generates for a card, planned without the card. Nothing in it was measured.

    ``planned`` contains the graphs in the order in which they were compiled. ``launches`` is the number of kernels and
    library calls in each call of the target. ``peak_memory`` is the maximum memory in bytes that the model, inputs,
    gradients, optimizer state and intermediate tensors take together; libraries' workspaces and the allocator's
    rounding are not included. ``cudagraphs`` is the number of graphs that would be recorded as CUDA graphs;
    ``cudagraph_skips`` contains the reasons why the other graphs would not be recorded. ``assumed`` lists the rules
    that were not checked on this kind of card, and ``fixed`` lists the choices that Inductor makes by timing and that
    the plan fixes.
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
        """The generated source of each graph."""
        return tuple(graph.code for graph in self.planned)

    @property
    def kernels(self) -> tuple[PlannedKernel, ...]:
        """All launches of Triton kernels, graph by graph."""
        return tuple(kernel for graph in self.planned for kernel in graph.kernels)

    @property
    def library_calls(self) -> tuple[LibraryCall, ...]:
        """All library calls, graph by graph."""
        return tuple(call for graph in self.planned for call in graph.library_calls)

    @property
    def bytes_moved(self) -> int | None:
        """The bytes that one run of every graph reads and writes, or None if they are unknown for any graph."""
        moved = [graph.bytes_moved for graph in self.planned]
        return None if None in moved else sum(one for one in moved if one is not None)

    @property
    def cudagraph_skips(self) -> tuple[str, ...]:
        """The reasons why graphs would not be recorded as CUDA graphs although CUDA graphs were requested."""
        return tuple(dict.fromkeys(self.observation.cudagraph_skips))
