"""What a check found out, as one object: the report that tests read and that reports are made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from .findings import Finding
from .observation import Deviation, EagerFallback, Graph, GraphBreak, Observation, Recompile


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
    little. ``ill_conditioned`` counts the leaves that passed because eager itself moves as far when its rounding is
    disturbed.
    """

    leaves: int = 0
    worst_ratio: float = 0.0
    worst_leaf: str = ""
    reference: str = "not needed"
    nondeterministic: bool = False
    ill_conditioned: int = 0
    not_compared: tuple[str, ...] = ()


@dataclass
class CompileReport:
    """Everything that one check observed; ``findings`` is empty when it passed.

    ``checked_mode`` is ``"fullgraph"`` or ``"default"``: on newer torch, fullgraph compiles some code that the default
    mode breaks on, so that each says nothing about the other. ``remarks`` are lines about what is no failure,
    such as an accepted break that is no longer there. ``deviations`` are the settings of torch that were not its
    defaults when the check began.
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
    remarks: list[str] = field(default_factory=list)
    rerun: str = ""
    deviations: list[Deviation] = field(default_factory=list)

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
        return self.observation.not_observable

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    def __str__(self) -> str:
        """What a person wants to read: the verdict, the findings, the sequence of calls and what was seen."""
        from .report.text import failure_text

        return failure_text(self)

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON-ready data."""
        return asdict(self) | {"ok": self.ok}
