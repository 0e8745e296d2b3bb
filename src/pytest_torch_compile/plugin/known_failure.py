"""The marker ``compile_known_failure``: strict expected failures with a reason."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import pytest
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from .. import settings
from ..findings import FINDING_KINDS, NO_LONGER_FAILS, NO_VERDICT, CompileCheckFailed, CompileUsageError

MARKER = "compile_known_failure"


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line(
        "markers",
        f"{MARKER}(reason, kind=None, torch=None): mark a test whose check is known to fail; the test fails if the "
        "check passes",
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, Any, Any]:
    """Reject a test with an invalid marker."""
    require_valid(item)
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Do not diagnose a failure that is expected."""
    with settings.undiagnosed() if read(item) else nullcontext():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Apply the test's markers to its outcome."""
    report = yield
    if call.when == "call" and (failures := read(item)):
        apply(report, call.excinfo.value if call.excinfo else None, failures)
    return report


@dataclass(frozen=True)
class KnownFailure:
    """One ``compile_known_failure(reason, kind=None, torch=None)`` marker."""

    reason: str
    kinds: tuple[str, ...] = ()
    torch: SpecifierSet | None = None

    def applies(self) -> bool:
        """Return whether the marker applies to the installed torch version."""
        if self.torch is None:
            return True
        try:
            return self.torch.contains(metadata.version("torch").split("+")[0], prereleases=True)
        except metadata.PackageNotFoundError:
            return False

    def explains(self, error: BaseException) -> bool:
        """Return whether ``error`` is the expected failure: a failed check whose findings all have one of the marker's
        kinds.

        If the marker does not specify a kind, return False if there is a ``timeout`` or ``not-observable`` finding,
        because these findings are not about the checked code.
        """
        if not isinstance(error, CompileCheckFailed):
            return False
        kinds = {finding.kind for finding in error.findings}
        return kinds <= set(self.kinds) if self.kinds else kinds.isdisjoint(NO_VERDICT)


def read(item: pytest.Item) -> list[KnownFailure]:
    """Return a test's known failures that apply to this torch version. If a marker is invalid, return an empty list."""
    try:
        failures = [_parse(item.nodeid, *marker.args, **marker.kwargs) for marker in item.iter_markers(MARKER)]
    except CompileUsageError:  # reported as an error in the test's setup
        return []
    return [failure for failure in failures if failure.applies()]


def require_valid(item: pytest.Item) -> None:
    """Reject a test with an invalid marker.

    Raises:
        CompileUsageError: If a marker has no reason, an unknown kind, or an invalid specifier.
    """
    for marker in item.iter_markers(MARKER):
        _parse(item.nodeid, *marker.args, **marker.kwargs)


def _parse(test: str, *positional: Any, **named: Any) -> KnownFailure:
    # Python itself binds the marker's arguments, which can be given by position or by name, as in a call.
    def arguments(reason: Any = "", kind: Any = None, torch: Any = None) -> tuple[Any, Any, Any]:
        return reason, kind, torch

    try:
        reason, kind, torch = arguments(*positional, **named)
    except TypeError:
        reason, kind, torch = None, None, None
    if not (isinstance(reason, str) and reason):
        raise CompileUsageError(f"{test}: write @pytest.mark.{MARKER}(reason, kind=None, torch=None)")
    kinds = tuple(kind) if isinstance(kind, (list, tuple, set, frozenset)) else () if kind is None else (kind,)
    for name in kinds:
        if name not in FINDING_KINDS:
            raise CompileUsageError(f"{test}: {MARKER}(kind={name!r}): choose one of {', '.join(FINDING_KINDS)}")
    try:
        return KnownFailure(reason, kinds, SpecifierSet(torch) if torch is not None else None)
    except (InvalidSpecifier, TypeError, AttributeError):
        raise CompileUsageError(f"{test}: {MARKER}(torch={torch!r}): write a version specifier like '>=2.8'") from None


def apply(report: pytest.TestReport, error: BaseException | None, failures: Sequence[KnownFailure]) -> None:
    """Report an expected failure as xfailed. If the test no longer fails, report it as failed."""
    if error is None and report.passed:
        reasons = "; ".join(failure.reason for failure in failures)
        report.outcome = "failed"
        report.longrepr = f"{NO_LONGER_FAILS}; remove its {MARKER} marker: {reasons}"
        return
    explaining = [failure for failure in failures if error is not None and failure.explains(error)]
    if explaining:
        report.outcome = "skipped"
        report.wasxfail = f"reason: {explaining[0].reason}"
