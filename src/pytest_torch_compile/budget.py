"""The limits of a check: the allowed numbers of graph breaks, recompiles, kernels and other quantities. This module
imports neither torch nor pytest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from .findings import CompileUsageError
from .observation import GraphBreak

_PACKAGE = re.compile(r"\*|[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_ALWAYS_LIMITED = ("max_graph_breaks", "max_recompiles")


@dataclass(frozen=True)
class Budget:
    """A check's limits on graph breaks, recompiles, kernels, memory and other quantities. None means no limit.

    A limit can be a mapping from torch version specifiers to numbers, for example ``{"<2.8": 2, ">=2.8": 0}``. The
    first matching specifier applies; if no specifier matches, the limit is 0.

    The limit on graph breaks can be a mapping from packages to numbers, for example ``{"mypackage": 0, "*": 3}``: no
    breaks at lines in mypackage, and at most three breaks in all other code together. The longest matching name applies
    (``"mypackage.layers"`` before ``"mypackage"``); without ``"*"``, no breaks are allowed in other code.

    Args:
        max_graph_breaks: The number of distinct graph breaks, in total or by package.
        max_recompiles: The number of recompiles.
        accepted_breaks: Fingerprints of graph breaks that do not count toward ``max_graph_breaks``.
        max_graphs: The number of compiled graphs, over all calls.
        max_guards: The total number of guards of all graphs.
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
        max_syncs: The number of times that the host waits for the GPU. In a check, the limit applies to each warm call;
            in ``compile_guard``, to the whole ``with`` block.

    Raises:
        CompileUsageError: If a limit is negative, a specifier is invalid, a limit mixes packages and torch versions, or
            the fingerprint of an accepted graph break is not a string.
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
            if limit is not None or name in _ALWAYS_LIMITED:
                _validate_limit(name, limit)
        ratio = self.max_memory_ratio
        if ratio is not None and not (isinstance(ratio, (int, float)) and not isinstance(ratio, bool) and ratio > 0):
            raise CompileUsageError(
                f"max_memory_ratio is {ratio!r}; it must be a positive number, such as 1.1 (a multiple of the eager "
                "run's peak)"
            )

    def on(self, torch_version: str) -> Budget:
        """Return the budget that applies to one torch version, such as ``"2.13.0"``: limits that depend on the version
        are replaced by numbers.
        """
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

    @property
    def recompiles(self) -> int:
        """The limit on recompiles.

        Raises:
            TypeError: If the budget depends on the torch version.
        """
        if isinstance(self.max_recompiles, Mapping):
            raise TypeError("the budget depends on the torch version: use budget.on(version)")
        return self.max_recompiles

    def exceeded(self, breaks: Iterable[GraphBreak]) -> dict[str, list[GraphBreak]]:
        """For each package that exceeds its limit, return the package's breaks, without accepted breaks."""
        limits = self.breaks_by_package
        counted: dict[str, list[GraphBreak]] = {name: [] for name in limits}
        for found in breaks:
            if found.fingerprint not in self.accepted_breaks:
                fitting = [name for name in limits if f"{found.module}.".startswith(f"{name}.")]
                counted[max(fitting, key=len, default="*")].append(found)
        return {name: found for name, found in counted.items() if len(found) > limits[name]}

    def limits(self) -> dict[str, Any]:
        """Return a dict with the limits that are set, as stored in a report, without ``accepted_breaks``."""
        named = {name: getattr(self, name) for name in (*_COUNTS, "max_memory_ratio")}
        return {name: limit for name, limit in named.items() if limit is not None}


# All limits on counts. A ratio does not depend on the torch version, and need not be an integer.
_COUNTS = tuple(one.name for one in fields(Budget) if one.name.startswith("max_") and one.name != "max_memory_ratio")


def as_budget(
    budget: Budget | None,
    max_graph_breaks: int | Mapping[str, int] | None,
    max_recompiles: int | Mapping[str, int] | None,
    accepted_breaks: Iterable[str] | None,
    max_kernels: int | Mapping[str, int] | None = None,
) -> Budget:
    """Return a budget in which the other arguments override the limits in ``budget``. An argument that is None does not
    override any limit.

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
                f"accepted_breaks contains {fingerprint!r}; fingerprints must be strings such as 'gb-1a2b3c4d5e'"
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
                f"{name}: {key!r} is not a version specifier{or_package or '; use a specifier such as >=2.8 or <2.11'}"
            )
        if isinstance(number, bool) or not isinstance(number, int) or number < 0:
            raise CompileUsageError(f"{name} is {number!r}; it must be a non-negative integer")


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
