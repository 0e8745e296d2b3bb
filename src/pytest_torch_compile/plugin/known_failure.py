"""The marker ``compile_known_failure``: strict expected failures that name their reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import pytest
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from ..findings import FINDING_KINDS, NO_LONGER_FAILS, NO_VERDICT, CompileCheckFailed, CompileUsageError

MARKER = "compile_known_failure"


@dataclass(frozen=True)
class KnownFailure:
    """One marker: ``compile_known_failure(reason, kind=None, torch=None)``."""

    reason: str
    kinds: tuple[str, ...] = ()
    torch: SpecifierSet | None = None

    def applies(self) -> bool:
        """Whether it is about the installed torch."""
        if self.torch is None:
            return True
        try:
            return self.torch.contains(metadata.version("torch").split("+")[0], prereleases=True)
        except metadata.PackageNotFoundError:
            return False

    def explains(self, error: BaseException) -> bool:
        """Whether this is the failure that was expected: a failed check with findings of these kinds only.

        Without kinds it is any, but for what says nothing about the code under check.
        """
        if not isinstance(error, CompileCheckFailed):
            return False
        kinds = {finding.kind for finding in error.findings}
        return kinds <= set(self.kinds) if self.kinds else kinds.isdisjoint(NO_VERDICT)


def read(item: pytest.Item) -> list[KnownFailure]:
    """The known failures of a test that apply on this torch; a marker that is wrong is left out."""
    try:
        failures = [_parse(item.nodeid, *marker.args, **marker.kwargs) for marker in item.iter_markers(MARKER)]
    except CompileUsageError:  # an error of this test, from its setup
        return []
    return [failure for failure in failures if failure.applies()]


def require_valid(item: pytest.Item) -> None:
    """Refuse a test whose marker is wrong.

    Raises:
        CompileUsageError: a marker without a reason, with an unknown kind, or with a specifier that does not parse.
    """
    for marker in item.iter_markers(MARKER):
        _parse(item.nodeid, *marker.args, **marker.kwargs)


def _parse(test: str, *positional: Any, **named: Any) -> KnownFailure:
    try:
        reason, kind, torch = _arguments(*positional, **named)
    except TypeError:
        reason, kind, torch = None, None, None
    if not (isinstance(reason, str) and reason):
        raise CompileUsageError(f"{test}: write @pytest.mark.{MARKER}(reason, kind=None, torch=None)")
    kinds = tuple(kind) if isinstance(kind, (list, tuple, set, frozenset)) else () if kind is None else (kind,)
    for name in kinds:
        if name not in FINDING_KINDS:
            raise CompileUsageError(f"{test}: {MARKER}(kind={name!r}): it is one of {', '.join(FINDING_KINDS)}")
    try:
        return KnownFailure(reason, kinds, SpecifierSet(torch) if torch is not None else None)
    except (InvalidSpecifier, TypeError, AttributeError):
        raise CompileUsageError(f"{test}: {MARKER}(torch={torch!r}): write a version specifier like '>=2.8'") from None


def _arguments(reason: Any = "", kind: Any = None, torch: Any = None) -> tuple[Any, Any, Any]:
    return reason, kind, torch


def apply(report: pytest.TestReport, error: BaseException | None, failures: Sequence[KnownFailure]) -> None:
    """Turn the expected failure into an xfail, and a test that no longer fails into an error."""
    if error is None and report.passed:
        reasons = "; ".join(failure.reason for failure in failures)
        report.outcome = "failed"
        report.longrepr = f"{NO_LONGER_FAILS}, remove its {MARKER} marker: {reasons}"
        return
    explaining = [failure for failure in failures if error is not None and failure.explains(error)]
    if explaining:
        report.outcome = "skipped"
        report.wasxfail = f"reason: {explaining[0].reason}"
