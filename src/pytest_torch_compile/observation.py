"""What torch did while a check ran: graphs, breaks, recompiles, errors. An observer fills in these objects; checks and
reports read them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol, TypeVar


def file_line(file: str, line: int | str) -> str:
    """Return the text by which all messages and reports refer to a line."""
    return f"{file}:{line}"


@dataclass(frozen=True)
class Location:
    """A place in source code.

    If the observed event happened inside torch or another library, ``library`` is the line in the library, and the
    other fields describe the line of user code that led to the event.
    """

    file: str
    line: int
    function: str = ""
    source: str = ""
    library: Location | None = None

    def __str__(self) -> str:
        where = file_line(self.file, self.line)
        return f"{where} in {self.function}" if self.function else where

    def shown(self) -> str:
        """Return ``file:line in function``. The path is relative if the file is below the current folder."""
        try:
            relative = os.path.relpath(self.file)
        except ValueError:  # the file is on another drive
            relative = self.file
        return str(replace(self, file=self.file if relative.startswith("..") else relative))


def is_late(call: int, warmup: int | None) -> bool:
    """Return whether a call comes after the first ``warmup`` calls. Calls are counted from 1. Call 0 is the block of
    ``compile_guard``, whose warm-up took place before the block.
    """
    return warmup is not None and (call > warmup or call == 0)


class _OfCall(Protocol):
    @property
    def call(self) -> int: ...


_T = TypeVar("_T", bound=_OfCall)


@dataclass(frozen=True)
class Graph:
    """One graph that dynamo passed to the backend. ``guards`` is the number of guards that must pass before the graph
    is reused.
    """

    frame: str
    ops: tuple[str, ...]
    call: int = 0
    compile_id: str = ""
    guards: int | None = None


@dataclass
class GraphBreak:
    """A graph break at one location, reached through one chain of function calls.

    ``stack`` is the chain of function calls from the compiled function to the break, outermost first and without
    torch's functions. ``callers`` contains the lines of user code in this chain that lead to ``location``. ``times`` is
    the number of compilations in which this break occurred. ``module`` is the module that contains the line that caused
    the break (``kornia.filters.canny``); ``installed`` is true if this module belongs to an installed package.
    ``numbers`` lists the NumPy scalars that this line uses. ``skipped`` is the compiled function that runs eagerly as a
    whole because of this break, or an empty string.
    """

    location: Location
    reason: str
    category: str
    fingerprint: str
    call: int = 0
    explanation: str = ""
    hints: tuple[str, ...] = ()
    skipped: str = ""
    times: int = 1
    stack: tuple[Location, ...] = ()
    callers: tuple[Location, ...] = ()
    module: str = ""
    installed: bool = False
    numbers: tuple[str, ...] = ()

    @property
    def package(self) -> str:
        """The package or top-level module that contains the line that caused the break."""
        return self.module.partition(".")[0]

    def shown(self) -> str:
        """Return one line: ``data-dependent branch at models.py:12 in forward``."""
        return f"{self.category} at {self.location.shown()}"


@dataclass(frozen=True)
class FailedGuard:
    """A guard that prevented the reuse of one cache entry.

    ``entry`` is dynamo's name for the entry (``0/1``), ``names`` is the argument or attribute that the guard reads, and
    ``cause`` is the kind of guard (``size``, ``dtype``, ``python-number``, ...).
    """

    entry: str
    text: str
    names: str
    cause: str


@dataclass(frozen=True)
class Recompile:
    """One recompilation, and the guard that failed for each cache entry.

    ``guards`` starts with the most informative guard. The most informative guard is the first guard whose cause did not
    occur in earlier recompiles of the same frame. If all causes occurred earlier, the most informative guard is the
    guard of the newest cache entry. If the recompiled code is the part of a function after a graph break,
    ``after_break`` is the line of the break; otherwise, ``after_break`` is 0. ``static_sizes`` is true if torch makes
    no size dynamic, because of ``dynamic=False`` or a setting.
    """

    frame: str
    location: Location | None
    guards: tuple[FailedGuard, ...]
    call: int = 0
    compile_id: str = ""
    after_break: int = 0
    static_sizes: bool = False

    @property
    def guard(self) -> str:
        """The most informative failed guard, as a string."""
        return self.guards[0].text if self.guards else ""


@dataclass(frozen=True)
class EagerFallback:
    """Code that ran eagerly although it should have been compiled. ``cause`` is the kind of guard that failed most
    recently.

    ``why`` is ``earlier-limit`` if a function reached the recompile limit before the observed code ran, and
    ``dispatch-mode`` if it was called under a ``TorchDispatchMode``, whose name is ``detail``. torch reports neither.
    ``limit`` is the number of graphs at which torch stopped compiling, or 0 if torch did not report it.
    """

    frame: str
    why: Literal["recompile-limit", "earlier-limit", "dispatch-mode"]
    detail: str
    location: Location | None = None
    call: int = 0
    cause: str = ""
    limit: int = 0


@dataclass(frozen=True)
class CompileError:
    """A frame whose compilation failed; ``error`` is the name of the exception's class.

    ``swallowed`` is true if torch, because of its settings, ran the frame eagerly instead of raising the exception.
    ``backward`` is true if the forward graph was compiled, and the compilation of its backward graph failed.
    """

    frame: str
    error: str
    message: str
    call: int = 0
    compile_id: str = ""
    location: Location | None = None
    swallowed: bool = False
    backward: bool = False


@dataclass(frozen=True)
class LateCompilation:
    """A compilation or autotuning that happened after the warm-up calls.

    ``frame`` is the compiled function, and ``location`` is the first line of this function. ``caller`` is the line of
    user code that was running.
    """

    what: Literal["compiled", "compiled the backward", "autotuned"]
    frame: str
    location: Location | None = None
    caller: Location | None = None
    call: int = 0
    compile_id: str = ""


@dataclass(frozen=True)
class Deviation:
    """A torch setting that differs from its default: a config entry, a stance, a global mode, or an environment
    variable.

    ``value`` and ``default`` are strings; ``where`` describes where the setting was changed, or is empty if that is
    unknown.
    """

    name: str
    value: str
    default: str
    where: str = ""

    def __str__(self) -> str:
        where = f", {self.where}" if self.where else ""
        return f"{self.name} is {self.value} (torch's default: {self.default}){where}"


@dataclass(frozen=True)
class CudagraphRuns:
    """The CUDA graph activity of one call: each compiled graph warms up once, is recorded once, and is then replayed.

    ``without`` contains the reason for each run that should have used a CUDA graph but did not. By design, warm-up runs
    do not use a CUDA graph, so they are not in ``without``.
    """

    call: int = 0
    warmed_up: int = 0
    recorded: int = 0
    replayed: int = 0
    without: tuple[str, ...] = ()


@dataclass(frozen=True)
class Collective:
    """A collective in a graph. ``ranks`` lists the ranks in the collective's ``group``, or is empty if the ranks are
    unknown.

    ``how`` contains the collective's other arguments, such as the reduction. ``graph`` is the kind of graph that
    contains the collective: ``captured`` by dynamo, or AOTAutograd's ``forward`` or ``backward``.
    """

    op: str
    size: str = ""
    how: tuple[str, ...] = ()
    group: str = ""
    ranks: tuple[int, ...] = ()
    graph: str = "captured"
    call: int = 0
    compile_id: str = ""

    def shown(self) -> str:
        """Return the op with its arguments, for example ``all_reduce sum f32[4, 8] over ranks 0, 1``."""
        over = f"over ranks {', '.join(map(str, self.ranks))}" if self.ranks else ""
        return " ".join(filter(None, [self.op, *self.how, self.size, over]))


@dataclass
class CacheCounts:
    """The number of hits, misses and bypasses in Inductor's graph cache (``fx``) and AOTAutograd's cache (``aot``)."""

    fx_hits: int = 0
    fx_misses: int = 0
    fx_bypasses: int = 0
    aot_hits: int = 0
    aot_misses: int = 0
    aot_bypasses: int = 0


@dataclass
class CompileSeconds:
    """Compile time in seconds. ``total`` is the time for compiling whole frames. The other fields contain the times of
    single stages, as torch reports them.
    """

    total: float = 0.0
    dynamo: float = 0.0
    aot_autograd: float = 0.0
    inductor: float = 0.0
    backward: float = 0.0


@dataclass
class Observation:
    """Everything that a check or a ``compile_guard`` block observed about compilation. Each list is in chronological
    order.

    ``undecided`` and ``not_observable`` list information that torch did not provide. If ``undecided`` is not empty, the
    check fails, because its result depends on this information. ``not_observable`` does not make the check fail.

    ``frames`` counts how often dynamo started to compile a function. For a ``compile_guard`` block,
    ``compiled_calls`` counts the calls to compiled functions (None if not observed), and ``compiled_before`` lists the
    functions that already had graphs when the block started.
    """

    graphs: list[Graph] = field(default_factory=list)
    graph_breaks: list[GraphBreak] = field(default_factory=list)
    recompiles: list[Recompile] = field(default_factory=list)
    fallbacks: list[EagerFallback] = field(default_factory=list)
    errors: list[CompileError] = field(default_factory=list)
    collectives: list[Collective] = field(default_factory=list)
    cudagraph_skips: list[str] = field(default_factory=list)
    cudagraph_runs: list[CudagraphRuns] = field(default_factory=list)
    cache: CacheCounts = field(default_factory=CacheCounts)
    compile_seconds: CompileSeconds = field(default_factory=CompileSeconds)
    undecided: list[str] = field(default_factory=list)
    not_observable: list[str] = field(default_factory=list)
    frames: int = 0
    compiled_calls: int | None = None
    compiled_before: tuple[Location, ...] = ()

    @property
    def ops(self) -> int:
        """The total number of ops in all graphs."""
        return sum(len(graph.ops) for graph in self.graphs)

    def during_warm_up(self, warmup: int | None) -> Observation:
        """Return the observation without the recompiles after the warm-up, because these recompiles are reported
        separately.
        """
        return replace(self, recompiles=[one for one in self.recompiles if not is_late(one.call, warmup)])

    def during(self, call: int) -> Observation:
        """Return the graphs, graph breaks, recompiles, fallbacks and errors of one call; calls are counted from 1."""

        def of(items: Sequence[_T]) -> list[_T]:
            return [item for item in items if item.call == call]

        return Observation(
            of(self.graphs), of(self.graph_breaks), of(self.recompiles), of(self.fallbacks), of(self.errors)
        )
