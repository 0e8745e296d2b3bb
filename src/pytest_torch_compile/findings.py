"""Findings, budgets and reports. Imports neither torch nor pytest."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import Enum
from typing import Any, Literal, get_args

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from .observation import Deviation, EagerFallback, Graph, GraphBreak, Location, Observation, Recompile

# All finding kinds, grouped by severity; a test compares them with the report's schema.
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
NO_VERDICT: frozenset[str] = frozenset(get_args(NoVerdict))  # kinds of findings that are not about the checked code
NO_LONGER_FAILS = "known failure no longer fails"  # messages about markers that can be removed start with this
SEVERITIES = tuple(  # worst first
    get_args(kinds) for kinds in (WrongResult, BrokenPromise, NoVerdict, NotCompiled, CompiledBadly, Slower)
)


_PACKAGE = re.compile(r"\*|[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


class Reference(Enum):
    """The reference against which leaves were judged; the value is shown to users."""

    NOT_NEEDED = "not needed"
    FP64 = "fp64"
    TWO_EAGER_RUNS = "spread of two eager runs"


@dataclass(frozen=True)
class Finding:
    """One problem; ``report.failure_text.headline`` turns it into a sentence.

    ``message`` describes the problem, without the affected calls (counted from 1) and ranks. ``subject`` is the leaf or
    frame that the problem is about. ``measured`` is the observed value and ``limit`` the allowed value; ``measure`` is
    the name of the quantity (``largest error``) if the message does not contain it. ``evidence`` contains details
    (guard text, worst element, source line), and ``hint`` describes the likely fix. ``cause`` is the torch setting that
    caused the problem, or is empty.
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
            raise ValueError(f"unknown finding kind {self.kind!r}; choose one of: {', '.join(FINDING_KINDS)}")

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as JSON-ready data."""
        return asdict(self)


_COUNTS = (
    *("max_graph_breaks", "max_recompiles", "max_graphs", "max_guards", "max_kernels", "max_cudagraphs"),
    *("max_memory", "max_syncs"),
)


@dataclass(frozen=True)
class Budget:
    """The limits of a check on counted quantities. None means no limit.

    A limit may depend on the torch version: a mapping from a version specifier to a number, for example ``{"<2.8": 2,
    ">=2.8": 0}``. The first matching specifier applies; if no specifier matches, the limit is 0.

    The limit on graph breaks may depend on the package that contains the breaking line, for example ``{"mypackage": 0,
    "*": 3}``: no breaks in mypackage, and three in all other code together. The longest matching name applies
    (``"mypackage.layers"`` before ``"mypackage"``); without ``"*"``, no breaks are allowed in other code.

    Args:
        max_graph_breaks: The number of distinct graph breaks, in total or by package.
        max_recompiles: The number of recompiles.
        accepted_breaks: Fingerprints of graph breaks that do not count.
        max_graphs: The number of compiled graphs, over all calls.
        max_guards: The total number of guards in all graphs.
        max_kernels: The number of kernels in the call that has the most kernels. On a GPU, these are the kernels that a
            warm call launches, including copies and fills. On a CPU, these are the loops that Inductor generates for
            the call, not including library calls. ``compile_guard`` counts all kernels that Inductor generates inside
            the ``with`` block.
        max_cudagraphs: The number of recorded CUDA graphs, over all calls. CUDA graphs recorded by a custom backend are
            not counted.
        max_memory: The peak GPU memory in bytes, including the model and its inputs, in the warm call that needs the
            most memory. For ``compile_guard``: the peak inside the ``with`` block, minus the memory in use at its
            start.
        max_memory_ratio: The peak GPU memory as a multiple of the eager run's peak. Not available in ``compile_guard``,
            which does not run the code eagerly.
        max_syncs: The number of times that the host waits for the GPU, in the warm call with the most waits, or inside
            the ``with`` block of ``compile_guard``.

    Raises:
        CompileUsageError: If a limit is negative, a specifier is invalid, packages are mixed with torch versions, or
            fingerprints are not strings.
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
            raise CompileUsageError(
                f"max_memory_ratio is {ratio!r}; it must be a multiple of the memory that eager uses, such as 1.1"
            )

    def on(self, torch_version: str) -> Budget:
        """Return the budget for one torch version such as ``"2.13.0"``, in which no limit depends on the version."""
        limits: dict[str, Any] = {name: _limit_on(getattr(self, name), torch_version) for name in _COUNTS}
        return replace(self, **limits)

    @property
    def breaks_by_package(self) -> dict[str, int]:
        """The limit on graph breaks for each package; ``*`` matches all code that no other name matches.

        Raises:
            TypeError: If the budget depends on the torch version.
        """
        limit = self.max_graph_breaks
        if isinstance(limit, int):
            return {"*": limit}
        if not limit or any(map(_is_specifier, limit)):
            raise TypeError("the budget depends on the torch version: use budget.on(version)")
        return {**limit, "*": limit.get("*", 0)}

    def exceeded(self, breaks: Iterable[GraphBreak]) -> dict[str, list[GraphBreak]]:
        """Return the breaks in each package whose limit is exceeded, without accepted breaks."""
        limits = self.breaks_by_package
        counted: dict[str, list[GraphBreak]] = {name: [] for name in limits}
        for found in breaks:
            if found.fingerprint not in self.accepted_breaks:
                fitting = [name for name in limits if f"{found.module}.".startswith(f"{name}.")]
                counted[max(fitting, key=len, default="*")].append(found)
        return {name: found for name, found in counted.items() if len(found) > limits[name]}

    def limits(self) -> dict[str, Any]:
        """Return the limits that are set, by name, in the form stored in a report; accepted breaks are not included."""
        named = {name: getattr(self, name) for name in (*_COUNTS, "max_memory_ratio")}
        return {name: limit for name, limit in named.items() if limit is not None}


def as_budget(
    budget: Budget | None,
    max_graph_breaks: int | Mapping[str, int] | None,
    max_recompiles: int | Mapping[str, int] | None,
    accepted_breaks: Iterable[str] | None,
    max_kernels: int | Mapping[str, int] | None = None,
) -> Budget:
    """Return the budget with its limits replaced by the explicit limits. Where an explicit limit is None, the limit in
    the budget applies.

    Raises:
        CompileUsageError: If a limit is invalid, or ``budget`` is not a ``Budget``.
    """
    if budget is not None and not isinstance(budget, Budget):
        raise CompileUsageError(f"budget is {budget!r}; pass a Budget, for example budget=Budget(max_kernels=4)")
    alone: dict[str, Any] = {
        "max_graph_breaks": max_graph_breaks, "max_recompiles": max_recompiles, "accepted_breaks": accepted_breaks,
        "max_kernels": max_kernels,
    }  # fmt: skip
    return replace(budget or Budget(), **{name: limit for name, limit in alone.items() if limit is not None})


def _fingerprints(accepted: Iterable[str]) -> frozenset[str]:
    if isinstance(accepted, str):
        raise CompileUsageError(
            f"accepted_breaks is {accepted!r}, a single string; pass a list of fingerprints: [{accepted!r}]"
        )
    fingerprints = list(accepted) if isinstance(accepted, Iterable) else [accepted]
    for fingerprint in fingerprints:
        if not isinstance(fingerprint, str):
            raise CompileUsageError(
                f"accepted_breaks contains {fingerprint!r}, but a fingerprint is a string such as 'gb-1a2b3c4d5e'"
            )
    return frozenset(fingerprints)


def _validate_limit(name: str, limit: int | Mapping[str, int]) -> None:
    by_version = [key for key in limit if _is_specifier(key)] if isinstance(limit, Mapping) else []
    for key, number in limit.items() if isinstance(limit, Mapping) else [("", limit)]:
        by_package = name == "max_graph_breaks" and _PACKAGE.fullmatch(str(key)) is not None
        if by_package and by_version:
            raise CompileUsageError(
                f"{name} mixes torch versions ({by_version[0]!r}) and packages ({key!r}); use only versions or "
                "only packages"
            )
        if not (by_package or _is_specifier(key)):
            or_package = " or a package; write '>=2.8', 'mypackage' or '*'" if name == "max_graph_breaks" else ""
            raise CompileUsageError(
                f"{name}: {key!r} is not a version specifier{or_package or '; write one such as >=2.8 or <2.11'}"
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
    """Return the limit for a torch version: a number, or a number for each package."""
    if limit is None or isinstance(limit, int):
        return limit
    if limit and not any(map(_is_specifier, limit)):
        return limit
    base = torch_version.split("+")[0]
    return next((n for specifier, n in limit.items() if SpecifierSet(specifier).contains(base, prereleases=True)), 0)


@dataclass(frozen=True)
class CallReport:
    """One row of the call table: the call, and whether it was compiled, reused a graph, or ran eagerly."""

    label: str
    shapes: str
    outcome: str
    guard: str = ""


@dataclass(frozen=True)
class NumericsReport:
    """How close compiled results were to eager results. ``worst_ratio`` is the largest ratio of an error to its limit;
    a value above 1 is a finding.

    ``not_compared`` lists the leaves in which two eager runs differ by more than rounding, so agreement with an eager
    run proves little. ``ill_conditioned`` is the number of leaves that passed because they are as sensitive to rounding
    in eager as in compiled code.
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
    """The origin of a failure, as far as the diagnosis could determine it; a field that the diagnosis did not determine
    is empty.

    ``stage`` is the first backend that fails: ``eager`` (dynamo), ``aot_eager``, ``aot_eager_decomp_partition`` or
    ``inductor``. ``op`` is the op whose decomposition or generated code is wrong, and ``switch`` is the first Inductor
    option that makes the check pass. ``module`` is the path of the smallest submodule that shows the finding on its
    own, and ``module_type`` is its class.
    """

    stage: str = ""
    op: str = ""
    switch: str = ""
    module: str = ""
    module_type: str = ""


@dataclass(frozen=True)
class Reproduction:
    """A script that reproduces a finding. The plugin verified the script by running it. ``needs`` lists the packages
    other than torch that the script needs.

    ``finding`` is the index of the finding in its report.
    """

    path: str
    needs: tuple[str, ...] = ()
    finding: int = 0

    def __str__(self) -> str:
        needs = f"needs {', '.join(self.needs)}" if self.needs else "needs only torch"
        return f"reproduction: {self.path} ({needs})"


@dataclass
class CompileReport:
    """Everything that one check observed; ``findings`` is empty if the check passed.

    ``checked_mode`` is ``"fullgraph"`` or ``"default"``: on newer torch versions, fullgraph compiles some code at which
    the default mode breaks the graph, so passing in one mode does not imply passing in the other mode. ``remarks``
    contains notes about facts that are not failures, such as an accepted break that no longer occurs. ``deviations``
    contains the torch settings that differed from their defaults when the check started. ``fault`` is the cause that
    the diagnosis found, in machine-readable form. ``reproduction`` is the file that ``--compile-repro`` wrote. ``text``
    is the whole report as text.
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
        """The graphs passed to the backend."""
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
        """Code that ran eagerly although it should have been compiled."""
        return self.observation.fallbacks

    @property
    def not_observable(self) -> list[str]:
        """Information that this torch version did not provide. Usually empty."""
        return [*self.observation.undecided, *self.observation.not_observable]

    @property
    def ok(self) -> bool:
        """Whether there are no findings."""
        return not self.findings

    def __str__(self) -> str:
        """Return the report as text: the verdict, the findings, the calls and a summary of the observations."""
        return self.text or repr(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON-ready data."""
        return asdict(replace(self, text="")) | {"ok": self.ok}


class CompileCheckFailed(AssertionError):
    """Raised if a check found a problem or the checked code exceeded its budget. ``report`` contains all
    observations.
    """

    def __init__(self, text: str, report: CompileReport | None = None, findings: Iterable[Finding] = ()) -> None:
        super().__init__(text)
        self.report = report
        self.findings = tuple(findings)


class CompileUsageError(ValueError):
    """Raised if a check was called incorrectly or cannot run; the message explains the cause."""


class CompileCheckWarning(UserWarning):
    """A warning that a check could not compare everything. With ``-W error::pytest_torch_compile.CompileCheckWarning``,
    a check that raises this warning fails.
    """


# Test reports show these classes under the names that users import.
for _public in (CompileCheckFailed, CompileUsageError, CompileCheckWarning):
    _public.__module__ = __name__.rpartition(".")[0]
