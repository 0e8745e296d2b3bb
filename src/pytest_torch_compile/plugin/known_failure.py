"""The marker ``compile_known_failure``: strict expected failures with a reason."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import pytest
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from .. import settings
from ..findings import FINDING_KINDS, NO_LONGER_FAILS, NO_VERDICT, CompileCheckFailed, CompileUsageError

MARKER = "compile_known_failure"
_OPEN = "torch_compile_open"  # attribute of the report of a call that passed, if its teardown decides about the test
_MENDED = "torch_compile_mended"  # attribute of the report of a test that no longer fails


@dataclass
class _Progress:
    """What is known about a test while it runs."""

    calling: bool = False  # whether the call phase is running: its reports are those of subtests
    open: bool = False  # whether nothing failed so far and only the teardown is left
    expected: str = ""  # the first expected failure of the test
    other: bool = False  # whether a part of the test failed in another way, or was skipped


_PROGRESS: pytest.StashKey[_Progress] = pytest.StashKey()


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
    item.stash[_PROGRESS] = _Progress()
    require_valid(item)
    with _undiagnosed(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Do not diagnose a failure that is expected."""
    progress = item.stash[_PROGRESS]
    progress.calling = True
    try:
        with _undiagnosed(item):
            return (yield)
    finally:
        progress.calling = False


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, Any, Any]:
    """Do not diagnose a failure that is expected."""
    with _undiagnosed(item):
        return (yield)


def _undiagnosed(item: pytest.Item) -> AbstractContextManager[None]:
    return settings.undiagnosed() if read(item) else nullcontext()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Apply the test's markers to its outcome."""
    report = yield
    if failures := read(item):
        progress = item.stash.setdefault(_PROGRESS, _Progress())
        apply(report, call.excinfo.value if call.excinfo else None, failures, progress)
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(report: pytest.TestReport | pytest.CollectReport) -> tuple[str, str, str] | None:
    """Show one outcome for each test with a marker, once it is known."""
    if is_open(report):
        return "", "", ""
    return ("failed", "F", "FAILED") if is_mended(report) else None


def is_open(report: pytest.TestReport | pytest.CollectReport) -> bool:
    """Return whether a report is that of a call that passed, although the test is known to fail. The teardown may fail
    as expected.
    """
    return getattr(report, _OPEN, False)


def is_mended(report: pytest.TestReport | pytest.CollectReport) -> bool:
    """Return whether a report says that a known failure no longer fails."""
    return getattr(report, _MENDED, False)


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


def apply(
    report: pytest.TestReport, error: BaseException | None, failures: Sequence[KnownFailure], progress: _Progress
) -> None:
    """Report an expected failure as xfailed. If nothing failed in the whole test, report it as failed.

    Whether a test no longer fails is known only after its teardown, where a ``compile_guard`` of a fixture may end. The
    report of the teardown therefore says so.
    """
    explaining = [failure for failure in failures if error is not None and failure.explains(error)]
    if explaining:
        _expect(report, f"reason: {explaining[0].reason}")
        progress.expected = progress.expected or report.wasxfail
        return
    progress.other = progress.other or not report.passed
    if report.when == "call" and not progress.calling and report.passed and not progress.other:
        if progress.expected:  # a subtest failed as expected
            _expect(report, progress.expected)
        else:
            progress.open = True
            setattr(report, _OPEN, True)
    elif report.when == "teardown" and report.passed and progress.open:
        reasons = "; ".join(failure.reason for failure in failures)
        report.outcome = "failed"
        report.longrepr = f"{NO_LONGER_FAILS}; remove its {MARKER} marker: {reasons}"
        setattr(report, _MENDED, True)


def _expect(report: pytest.TestReport, why: str) -> None:
    report.outcome = "skipped"
    report.wasxfail = why
