"""Findings and reports. This module imports neither torch nor pytest."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import Enum
from typing import Any, Literal, get_args

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
NO_LONGER_FAILS = "known failure no longer fails"  # start of messages about markers that can be removed
SEVERITIES = tuple(  # worst first
    get_args(kinds) for kinds in (WrongResult, BrokenPromise, NoVerdict, NotCompiled, CompiledBadly, Slower)
)


class Reference(Enum):
    """The reference by which results were judged that are not close to eager's; the enum value is shown to users."""

    NOT_NEEDED = "not needed"
    FP64 = "fp64"
    TWO_EAGER_RUNS = "spread of two eager runs"
    TOLERANCE = "tolerance for the dtype"


@dataclass(frozen=True)
class Finding:
    """One problem that a check found.

    ``message`` describes the problem. The affected calls (counted from 1) and ranks are not in the message, but in
    ``calls`` and ``ranks``. ``subject`` is the name of the affected value (such as an output), function, op or limit.
    ``measured`` is the observed value and ``limit`` is the allowed value. ``measure`` is the name of the measured
    quantity (such as ``largest error``) if the message does not contain it; otherwise, it is empty. ``evidence``
    contains details (guard text, worst element, source line), and ``hint`` describes the likely fix. ``cause`` is the
    torch setting that caused the problem, or is empty. ``report.failure_text.headline`` combines the message with the
    calls, ranks and values.
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


def merged_over_calls(findings: Iterable[Finding]) -> list[Finding]:
    """Merge identical findings of several calls into one finding."""
    groups: dict[Finding, list[int]] = {}
    for finding in findings:
        groups.setdefault(replace(finding, calls=()), []).extend(finding.calls)
    return [replace(finding, calls=tuple(calls)) for finding, calls in groups.items()]


def categories_of(finding: Finding, breaks: Iterable[GraphBreak]) -> list[str]:
    """Return the categories of the graph breaks that the finding is about; empty if it is not about a graph break."""
    return [one.category for one in breaks if finding.kind == "graph-break" and one.location == finding.location]


@dataclass(frozen=True)
class CallReport:
    """One row of the call table: the call, and whether it was compiled, reused a graph, or ran eagerly."""

    label: str
    shapes: str
    outcome: str
    guard: str = ""


@dataclass(frozen=True)
class NumericsReport:
    """The differences between compiled and eager results. ``worst_ratio`` is the largest ratio of an error to its
    limit; if it is greater than 1, there is a finding.

    A leaf is a single tensor, or another single value, in the results. ``not_compared`` lists the leaves in which two
    eager runs differ by more than rounding errors, so a comparison with an eager run would prove little.
    ``ill_conditioned`` is the number of leaves that passed only because eager runs with perturbed rounding have errors
    of similar size.
    """

    leaves: int = 0
    worst_ratio: float = 0.0
    worst_leaf: str = ""
    reference: str = Reference.NOT_NEEDED.value
    nondeterministic: bool = False
    ill_conditioned: int = 0
    not_compared: tuple[str, ...] = ()

    @property
    def worst_error(self) -> str:
        """The worst error in words: ``worst error 3 times its limit at output``. The ratio is left out if it is
        infinite, that is, if the limit is 0 or a value is not finite.
        """
        ratio = f" {self.worst_ratio:.2g} times its limit" if math.isfinite(self.worst_ratio) else ""
        return f"worst error{ratio} at {self.worst_leaf}"


@dataclass(frozen=True)
class Fault:
    """The origin of a failure, as far as the diagnosis could determine it; a field that the diagnosis did not determine
    is empty.

    ``stage`` is the first backend that fails: ``eager`` (dynamo), ``aot_eager``, ``aot_eager_decomp_partition`` or
    ``inductor``. ``op`` is the op whose decomposition or generated code is wrong, and ``switch`` is the first Inductor
    option that makes the check pass. ``module`` is the path of the smallest submodule that reproduces the problem on
    its own, and ``module_type`` is the class of this submodule.
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

    In reports of ``check_compile``, ``checked_mode`` is ``"fullgraph"`` (``fullgraph=True``) or ``"default"``
    (``fullgraph=False``). On newer torch versions, some code compiles with ``fullgraph=True`` but causes a graph break
    with ``fullgraph=False``, so a check that passes in one mode may fail in the other mode. ``remarks`` contains notes
    that do not make the check fail, for example that an accepted break no longer occurs. ``deviations`` contains the
    torch settings that differed from their defaults when the check started. ``fault`` is the cause that the diagnosis
    found, in machine-readable form. ``reproduction`` is the file that ``--compile-repro`` wrote. ``text`` is the whole
    report as text.
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
        """The recompiles, in order. Each recompile lists the guard that failed for each cache entry."""
        return self.observation.recompiles

    @property
    def fallbacks(self) -> list[EagerFallback]:
        """Code that ran eagerly although it should have been compiled."""
        return self.observation.fallbacks

    @property
    def not_observable(self) -> list[str]:
        """The information that the check needed but this torch version did not provide. Usually empty."""
        return [*self.observation.undecided, *self.observation.not_observable]

    @property
    def ok(self) -> bool:
        """Whether there are no findings."""
        return not self.findings

    def __str__(self) -> str:
        """Return the report as text: the result, the findings, the calls and a summary of the observations."""
        return self.text or repr(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON-ready data."""
        return asdict(replace(self, text="")) | {"ok": self.ok}


class CompileCheckFailed(AssertionError):
    """Raised when a check has findings. ``report`` contains everything that the check observed."""

    def __init__(self, text: str, report: CompileReport | None = None, findings: Iterable[Finding] = ()) -> None:
        super().__init__(text)
        self.report = report
        self.findings = tuple(findings)


class CompileUsageError(ValueError):
    """Raised when a check was called incorrectly or cannot run; the message explains the cause."""


class CompileCheckWarning(UserWarning):
    """The warning that a check issues if it could not compare all results. With
    ``-W error::pytest_torch_compile.CompileCheckWarning``, a check that issues this warning fails.
    """


# Test reports show these classes under the names that users import.
for _public in (CompileCheckFailed, CompileUsageError, CompileCheckWarning):
    _public.__module__ = __name__.rpartition(".")[0]
