"""Assert in one line that code works under torch.compile."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .budget import Budget
    from .check.check_compile import check_compile
    from .check.compile_guard import compile_guard
    from .check.compile_suite import CompileSuite
    from .findings import CompileCheckFailed, CompileCheckWarning, CompileReport, CompileUsageError, Finding
    from .fresh.against_eager import ArtifactReport
    from .fresh.artifact import check_artifact
    from .fresh.dependence import Invariance, InvarianceReport
    from .fresh.invariance import check_invariance
    from .legs.calls import Call, call, padded, random_lengths, sizes
    from .legs.targets import factory
    from .numerics import Tolerance, Tolerances
    from .observation import Location
    from .plan.cards import Card
    from .plan.check_plan import check_plan
    from .plan.records import LibraryCall, Plan, PlannedGraph, PlannedKernel
    from .ranks.group import RankGroup, run_ranks
    from .ranks.parts import on_parts
    from .speed.measuring.bench import measure_compile

__version__ = "0.1.0.dev0"

# Loaded on first use, because torch must not be imported in a project that has the plugin installed but does not use
# it.
_HOMES = {
    "budget": ("Budget",),
    "check.check_compile": ("check_compile",),
    "check.compile_guard": ("compile_guard",),
    "check.compile_suite": ("CompileSuite",),
    "findings": (
        "CompileCheckFailed",
        "CompileCheckWarning",
        "CompileReport",
        "CompileUsageError",
        "Finding",
    ),
    "fresh.against_eager": ("ArtifactReport",),
    "fresh.artifact": ("check_artifact",),
    "fresh.dependence": ("Invariance", "InvarianceReport"),
    "fresh.invariance": ("check_invariance",),
    "legs.calls": ("Call", "call", "padded", "random_lengths", "sizes"),
    "legs.targets": ("factory",),
    "numerics": ("Tolerance", "Tolerances"),
    "observation": ("Location",),
    "plan.cards": ("Card",),
    "plan.check_plan": ("check_plan",),
    "plan.records": ("LibraryCall", "Plan", "PlannedGraph", "PlannedKernel"),
    "ranks.group": ("RankGroup", "run_ranks"),
    "ranks.parts": ("on_parts",),
    "speed.measuring.bench": ("measure_compile",),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "ArtifactReport",
    "Budget",
    "Call",
    "Card",
    "CompileCheckFailed",
    "CompileCheckWarning",
    "CompileReport",
    "CompileSuite",
    "CompileUsageError",
    "Finding",
    "Invariance",
    "InvarianceReport",
    "LibraryCall",
    "Location",
    "Plan",
    "PlannedGraph",
    "PlannedKernel",
    "RankGroup",
    "Tolerance",
    "Tolerances",
    "call",
    "check_artifact",
    "check_compile",
    "check_invariance",
    "check_plan",
    "compile_guard",
    "factory",
    "measure_compile",
    "on_parts",
    "padded",
    "random_lengths",
    "run_ranks",
    "sizes",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ._torch.warning_filters import calm

    with calm():
        return getattr(import_module(f".{_HOME_OF[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
