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

    ``fuses`` are the ops that it computes, and ``location`` is the user's line of the last op, if known. ``blocks`` are
    the candidate block sizes and warps, which Inductor times on the card to choose the fastest; often there is only one
    candidate. ``float64`` is true if it reads, writes or computes numbers of that type. With ``compiled=True``,
    ``registers`` is the number of registers per thread, ``spills`` the bytes spilled per thread, and ``shared_memory``
    the bytes per block; otherwise they are None.
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
    """One call to a library, such as ``extern_kernels.mm``. On the card it may launch several kernels."""

    name: str
    computes: tuple[str, ...]
    location: Location | None = None


@dataclass(frozen=True)
class PlannedGraph:
    """One graph for which Inductor generated code.

    ``calls`` contains the number of the call for each run of the graph. ``bytes_moved`` is Inductor's count of the
    bytes that its kernels read and write, or None if Inductor has no count.
    """

    code: str
    backward: bool
    kernels: tuple[PlannedKernel, ...]
    library_calls: tuple[LibraryCall, ...]
    bytes_moved: int | None
    calls: tuple[int, ...]

    @property
    def launches(self) -> int:
        """The number of kernels and library calls."""
        return len(self.kernels) + len(self.library_calls)


@dataclass
class Plan(CompileReport):
    """The code that Inductor generates for a card, planned without the card. Nothing in it was measured.

    ``planned`` are the graphs in the order in which they were compiled. ``launches`` is the number of kernels and
    library calls in each call of the target. ``peak_memory`` is the maximum memory in bytes of model, inputs,
    gradients, optimizer state and intermediate tensors, without workspaces of libraries and the allocator's rounding.
    ``cudagraphs`` is the number of graphs that would be recorded as CUDA graphs; ``cudagraph_skips`` are the reasons
    why the other graphs would not. ``assumed`` lists the rules that were not checked on this kind of card, and
    ``fixed`` the choices that Inductor makes by timing.
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
        """The launches of Triton kernels, graph by graph."""
        return tuple(kernel for graph in self.planned for kernel in graph.kernels)

    @property
    def library_calls(self) -> tuple[LibraryCall, ...]:
        """The calls of libraries, graph by graph."""
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
