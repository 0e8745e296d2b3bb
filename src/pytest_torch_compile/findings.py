"""What a check can find, and how much of it is allowed. Plain data: neither torch nor pytest."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import Enum
from typing import Any, Literal, get_args

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from .observation import Deviation, EagerFallback, Graph, GraphBreak, Location, Observation, Recompile

# Every kind of finding is declared here and nowhere else, by how bad it is; a test compares the report's schema.
WrongResult = Literal[
    "numerics", "gradient", "mutation", "state", "aliasing", "exception", "metadata", "rank-divergence"
]
NoVerdict = Literal["not-observable", "timeout"]
NotCompiled = Literal["nothing-compiled", "compile-error", "eager-fallback"]
CompiledBadly = Literal["graph-break", "recompile"]
BrokenPromise = Literal["custom-op", "invariance"]
Slower = Literal["slowdown", "memory", "structure", "host-sync", "compile-time", "cudagraph-skip", "cache-miss"]
FindingKind = Literal[WrongResult, BrokenPromise, NoVerdict, NotCompiled, CompiledBadly, Slower]
FINDING_KINDS: tuple[str, ...] = get_args(FindingKind)
NO_VERDICT: frozenset[str] = frozenset(get_args(NoVerdict))  # kinds that say nothing about the code under check
NO_LONGER_FAILS = "known failure no longer fails"  # how the message begins about a marker that can be removed
SEVERITIES = tuple(  # worst first
    get_args(kinds) for kinds in (WrongResult, BrokenPromise, NoVerdict, NotCompiled, CompiledBadly, Slower)
)


_PACKAGE = re.compile(r"\*|[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


class Reference(Enum):
    """What judged the leaves that no tolerance passed; the value is what people read."""

    NOT_NEEDED = "not needed"
    FP64 = "fp64"
    TWO_EAGER_RUNS = "spread of two eager runs"


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, as data; ``report.failure_text.headline`` makes the sentence that people read.

    ``message`` says what is wrong, without the calls (counted from 1) and the ranks that have it. ``subject`` is the
    leaf or the frame it is about. ``measured`` and ``limit`` are what was seen of it and what is allowed;
    ``measure`` names these figures where the message does not (``largest error``). ``evidence`` is what was seen (guard
    text, worst element, source line), ``hint`` the likely fix. ``cause`` is the setting of torch that made it, if any.
    """

    kind: FindingKind
    message: str
    location: Location | None = None
    evidence: str = ""
    hint: str = ""
    cause: str = ""
    calls: tuple[int, ...] = ()
    ranks: tuple[int, ...] = ()
    subject: str = ""
    measure: str = ""
    measured: float | None = None
    limit: float | None = None

    def __post_init__(self) -> None:
        if self.kind not in FINDING_KINDS:
            raise ValueError(f"unknown finding kind {self.kind!r}; it is one of: {', '.join(FINDING_KINDS)}")

    def to_dict(self) -> dict[str, Any]:
        """The finding as JSON-ready data."""
        return asdict(self)


_COUNTS = (
    *("max_graph_breaks", "max_recompiles", "max_graphs", "max_guards", "max_kernels", "max_cudagraphs"),
    *("max_memory", "max_syncs"),
)


@dataclass(frozen=True)
class Budget:
    """How much a check allows, in exact units. None: no limit.

    A limit may depend on the torch version: a mapping from a version specifier to a number, for example
    ``{"<2.8": 2, ">=2.8": 0}``. The first specifier that matches decides; without a match it is 0.

    The limit of graph breaks may depend on the package that has the line that breaks, for example
    ``{"mypackage": 0, "*": 3}``: none in mypackage, three in all other code together. The longest name that fits
    decides, ``"mypackage.layers"`` before ``"mypackage"``; without ``"*"`` other code may have none.

    Args:
        max_graph_breaks: Distinct graph breaks, in all or by package.
        max_recompiles: Recompiles.
        accepted_breaks: Fingerprints of graph breaks that do not count.
        max_graphs: Graphs that are compiled, over all calls.
        max_guards: Guards of all these graphs together.
        max_kernels: Kernels of the call with the most. On a GPU those that it launches when it is warm, copies and
            fills included. On a CPU the loops that Inductor generates for it, without calls of libraries.
            ``compile_guard`` counts what Inductor generates in the whole body.
        max_cudagraphs: CUDA graphs that are recorded, over all calls. Those that a backend of your own records are not
            seen.
        max_memory: Bytes on the GPU: the peak of the call that needs the most, once it is warm, with the model and its
            inputs. For ``compile_guard``: the peak in the body, beyond what is in use when it begins.
        max_memory_ratio: The same as a multiple of what eager needs. Not for ``compile_guard``, which runs no eager.
        max_syncs: How often the host waits for the GPU: in the warm call that waits the most, or in the whole body.

    Raises:
        CompileUsageError: a negative limit, a specifier that does not parse, packages beside torch versions, or
            fingerprints that are no strings.
    """

    max_graph_breaks: int | Mapping[str, int] = 0
    max_recompiles: int | Mapping[str, int] = 0
    accepted_breaks: Iterable[str] = frozenset()
    max_graphs: int | Mapping[str, int] | None = None
    max_guards: int | Mapping[str, int] | None = None
    max_kernels: int | Mapping[str, int] | None = None
    max_cudagraphs: int | Mapping[str, int] | None = None
    max_memory: int | Mapping[str, int] | None = None
    max_memory_ratio: float | None = None
    max_syncs: int | Mapping[str, int] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "accepted_breaks", _fingerprints(self.accepted_breaks))
        for name in _COUNTS:
            limit = getattr(self, name)
            if limit is not None or name in _COUNTS[:2]:
                _validate_limit(name, limit)
        ratio = self.max_memory_ratio
        if ratio is not None and not (isinstance(ratio, (int, float)) and not isinstance(ratio, bool) and ratio > 0):
            raise CompileUsageError(f"max_memory_ratio is {ratio!r}; give a multiple of eager's memory, such as 1.1")

    def on(self, torch_version: str) -> Budget:
        """The same budget for one torch version such as ``"2.13.0"``: plain numbers, and limits by package."""
        limits: dict[str, Any] = {name: _limit_on(getattr(self, name), torch_version) for name in _COUNTS}
        return replace(self, **limits)

    @property
    def breaks_by_package(self) -> dict[str, int]:
        """The limits of graph breaks by package; ``*`` is all code that no other name fits.

        Raises:
            TypeError: the budget depends on the torch version.
        """
        limit = self.max_graph_breaks
        if isinstance(limit, int):
            return {"*": limit}
        if not limit or any(map(_is_specifier, limit)):
            raise TypeError("the budget depends on the torch version: give budget.on(version)")
        return {**limit, "*": limit.get("*", 0)}

    def exceeded(self, breaks: Iterable[GraphBreak]) -> dict[str, list[GraphBreak]]:
        """The breaks of each limit by package that has more than it allows; accepted ones do not count."""
        limits = self.breaks_by_package
        counted: dict[str, list[GraphBreak]] = {name: [] for name in limits}
        for found in breaks:
            if found.fingerprint not in self.accepted_breaks:
                fitting = [name for name in limits if f"{found.module}.".startswith(f"{name}.")]
                counted[max(fitting, key=len, default="*")].append(found)
        return {name: found for name, found in counted.items() if len(found) > limits[name]}

    def limits(self) -> dict[str, Any]:
        """The limits that are set, by name, as a report holds them; accepted breaks are not among them."""
        named = {name: getattr(self, name) for name in (*_COUNTS, "max_memory_ratio")}
        return {name: limit for name, limit in named.items() if limit is not None}


def as_budget(
    budget: Budget | None,
    max_graph_breaks: int | Mapping[str, int] | None,
    max_recompiles: int | Mapping[str, int] | None,
    accepted_breaks: Iterable[str] | None,
) -> Budget:
    """A budget, in which limits that were given on their own take the place of its own; None was not given.

    Raises:
        CompileUsageError: as ``Budget``, or where it is none.
    """
    if budget is not None and not isinstance(budget, Budget):
        raise CompileUsageError(f"budget is {budget!r}; write budget=Budget(max_kernels=4)")
    alone: dict[str, Any] = {
        "max_graph_breaks": max_graph_breaks, "max_recompiles": max_recompiles, "accepted_breaks": accepted_breaks
    }  # fmt: skip
    return replace(budget or Budget(), **{name: limit for name, limit in alone.items() if limit is not None})


def _fingerprints(accepted: Iterable[str]) -> frozenset[str]:
    if isinstance(accepted, str):
        raise CompileUsageError(
            f"accepted_breaks is {accepted!r}, one string; give fingerprints in a list: [{accepted!r}]"
        )
    fingerprints = list(accepted) if isinstance(accepted, Iterable) else [accepted]
    for fingerprint in fingerprints:
        if not isinstance(fingerprint, str):
            raise CompileUsageError(
                f"accepted_breaks holds {fingerprint!r}; a fingerprint is a string such as 'gb-1a2b3c4d5e'"
            )
    return frozenset(fingerprints)


def _validate_limit(name: str, limit: int | Mapping[str, int]) -> None:
    by_version = [key for key in limit if _is_specifier(key)] if isinstance(limit, Mapping) else []
    for key, number in limit.items() if isinstance(limit, Mapping) else [("", limit)]:
        by_package = name == "max_graph_breaks" and _PACKAGE.fullmatch(str(key)) is not None
        if by_package and by_version:
            raise CompileUsageError(
                f"{name} names torch versions ({by_version[0]!r}) and packages ({key!r}); give a limit by one of them"
            )
        if not (by_package or _is_specifier(key)):
            or_package = " or a package; write '>=2.8', 'mypackage' or '*'" if name == "max_graph_breaks" else ""
            raise CompileUsageError(
                f"{name}: {key!r} is not a version specifier{or_package or '; write one like >=2.8 or <2.11'}"
            )
        if isinstance(number, bool) or not isinstance(number, int) or number < 0:
            raise CompileUsageError(f"{name} is {number!r}; it must be a whole number, 0 or more")


def _is_specifier(key: object) -> bool:
    try:
        SpecifierSet(str(key))
    except InvalidSpecifier:
        return False
    return True


def _limit_on(limit: int | Mapping[str, int] | None, torch_version: str) -> int | Mapping[str, int] | None:
    """The limit on a torch version: a number, or by package."""
    if limit is None or isinstance(limit, int):
        return limit
    if limit and not any(map(_is_specifier, limit)):
        return limit
    base = torch_version.split("+")[0]
    return next((n for specifier, n in limit.items() if SpecifierSet(specifier).contains(base, prereleases=True)), 0)


@dataclass(frozen=True)
class CallReport:
    """One row of the sequence table: what was called, and whether it was compiled, reused or ran in eager."""

    label: str
    shapes: str
    outcome: str
    guard: str = ""


@dataclass(frozen=True)
class NumericsReport:
    """How close compiled was to eager. ``worst_ratio`` is error / limit: above 1 is a finding.

    ``not_compared`` names the leaves in which eager differs from itself by more than rounding: that they passed proves
    little. ``ill_conditioned`` counts the leaves that passed because eager is equally sensitive to rounding there.
    """

    leaves: int = 0
    worst_ratio: float = 0.0
    worst_leaf: str = ""
    reference: str = Reference.NOT_NEEDED.value
    nondeterministic: bool = False
    ill_conditioned: int = 0
    not_compared: tuple[str, ...] = ()


@dataclass(frozen=True)
class Fault:
    """Where a failure comes from, as far as its diagnosis looked; empty where it did not, or could not tell.

    ``stage`` is the first backend that goes wrong: ``eager`` (dynamo), ``aot_eager``, ``aot_eager_decomp_partition`` or
    ``inductor``. ``op`` is the one whose decomposition or generated code is wrong, ``switch`` the first option of
    Inductor that makes it right. ``module`` is the path of the smallest submodule that alone shows the same,
    ``module_type`` its class.
    """

    stage: str = ""
    op: str = ""
    switch: str = ""
    module: str = ""
    module_type: str = ""


@dataclass(frozen=True)
class Reproduction:
    """A file that shows a finding again, and that was run to prove it; ``needs`` are packages beside torch.

    ``finding`` is the number of the finding in its report, from 0.
    """

    path: str
    needs: tuple[str, ...] = ()
    finding: int = 0

    def __str__(self) -> str:
        needs = f"needs {', '.join(self.needs)}" if self.needs else "needs only torch"
        return f"reproduction: {self.path} ({needs})"


@dataclass
class CompileReport:
    """Everything that one check observed; ``findings`` is empty when it passed.

    ``checked_mode`` is ``"fullgraph"`` or ``"default"``: on newer torch, fullgraph compiles some code that the default
    mode breaks on, so that each says nothing about the other. ``remarks`` are lines about what is no failure,
    such as an accepted break that is no longer there. ``deviations`` are the settings of torch that were not its
    defaults when the check began. ``fault`` is what ``diagnosis`` says of the place of a failure, as data.
    ``reproduction`` is the file that ``--compile-repro`` wrote. ``text`` is the whole report as a person reads it.
    """

    target: str
    checked_mode: str
    backend: str
    torch: str
    device: str
    budget: Mapping[str, Any] = field(default_factory=dict)
    calls: list[CallReport] = field(default_factory=list)
    observation: Observation = field(default_factory=Observation)
    numerics: NumericsReport = field(default_factory=NumericsReport)
    findings: list[Finding] = field(default_factory=list)
    diagnosis: list[str] = field(default_factory=list)
    fault: Fault = Fault()
    reproduction: Reproduction | None = None
    remarks: list[str] = field(default_factory=list)
    rerun: str = ""
    deviations: list[Deviation] = field(default_factory=list)
    text: str = field(default="", repr=False, compare=False)

    @property
    def graphs(self) -> list[Graph]:
        """The graphs handed to the backend."""
        return self.observation.graphs

    @property
    def graph_breaks(self) -> list[GraphBreak]:
        """The distinct places where a graph broke."""
        return self.observation.graph_breaks

    @property
    def recompiles(self) -> list[Recompile]:
        """The recompiles, in order, each with the guard that failed for every cache entry."""
        return self.observation.recompiles

    @property
    def fallbacks(self) -> list[EagerFallback]:
        """Code that ran in eager although it was meant to be compiled."""
        return self.observation.fallbacks

    @property
    def not_observable(self) -> list[str]:
        """What this torch did not let the check see. Empty is the rule."""
        return [*self.observation.undecided, *self.observation.not_observable]

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    def __str__(self) -> str:
        """What a person wants to read: the verdict, the findings, the sequence of calls and what was seen."""
        return self.text or repr(self)

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON-ready data."""
        return asdict(replace(self, text="")) | {"ok": self.ok}


class CompileCheckFailed(AssertionError):
    """A check found something that its budget does not allow. ``report`` holds everything observed."""

    def __init__(self, text: str, report: CompileReport | None = None, findings: Iterable[Finding] = ()) -> None:
        super().__init__(text)
        self.report = report
        self.findings = tuple(findings)


class CompileUsageError(ValueError):
    """The check was asked for something that cannot be done; the message says what to change."""


class CompileCheckWarning(UserWarning):
    """A check could not compare everything. ``-W error::pytest_torch_compile.CompileCheckWarning`` makes it fail."""


# Shown in test reports under the name they are imported by.
for _public in (CompileCheckFailed, CompileUsageError, CompileCheckWarning):
    _public.__module__ = __name__.rpartition(".")[0]
