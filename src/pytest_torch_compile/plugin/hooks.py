"""The hooks of the plugin. They import no torch until a test uses it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import nullcontext
from types import CodeType
from typing import TYPE_CHECKING, Any

import pytest

from .. import __name__ as PACKAGE
from .. import settings
from .._torch.compiled_before import compiled_codes, drop
from .._torch.warning_filters import calm
from ..cache.folder import CacheFolder
from ..cache.store import ArtifactsRefused
from ..check import acceptance
from ..events import hearing_guards, listening, sign_of_life
from ..report import terminal
from ..report.records import check_entry
from . import isolate, known_failure, options
from .collector import Collector, attach
from .fixtures import MARKER
from .tracebacks import OwnFramesHidden

if TYPE_CHECKING:
    from ..findings import CompileReport

_FIXTURES = {"compile_benchmark", "compile_check", "compile_options", "compile_tolerances", "compile_device"}
_ROWS: pytest.StashKey[list[dict[str, str]]] = pytest.StashKey()
_CHECKS: pytest.StashKey[list[dict[str, Any]]] = pytest.StashKey()
_FOLDER: pytest.StashKey[CacheFolder] = pytest.StashKey()
_LINES: pytest.StashKey[list[str]] = pytest.StashKey()
_BEFORE: pytest.StashKey[list[CodeType]] = pytest.StashKey()
_GUARDED: pytest.StashKey[bool] = pytest.StashKey()
_SPEED_TESTS: pytest.StashKey[list[str]] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    options.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Declare the markers and read the settings."""
    config.addinivalue_line("markers", f"{MARKER}(**options): options of check_compile for this test's compile_check")
    config.addinivalue_line(
        "markers",
        f"{known_failure.MARKER}(reason, kind=None, torch=None): this check is known to fail; passing is an error",
    )
    settings.current = options.read(config)
    config.stash[_ROWS] = []
    if not config.getoption("fulltrace", False):
        config.pluginmanager.register(OwnFramesHidden(), "torch-compile-tracebacks")
    leads = not hasattr(config, "workerinput") and not isolate.is_child()
    try:
        config.stash[_FOLDER] = CacheFolder(settings.current.cache, config.rootpath, leads=leads)
    except ArtifactsRefused as error:
        raise pytest.UsageError(f"--compile-cache={settings.current.cache}: {error}") from None
    if settings.current.report and leads:
        folder = settings.below_root(config.rootpath, settings.current.report)
        config.pluginmanager.register(Collector(folder, config), "torch-compile-report")
    if settings.current.accept or (config.rootpath / acceptance.FILE_NAME).exists():
        from .acceptance_session import AcceptanceSession

        config.pluginmanager.register(AcceptanceSession(config.rootpath), "torch-compile-accept")
    if settings.current.perf != "off" or settings.current.update_baselines:
        from .structure_session import StructureSession

        config.pluginmanager.register(StructureSession(config.rootpath), "torch-compile-structure")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Save the compile cache, where it is kept at a URL."""
    session.config.stash[_LINES] = session.config.stash[_FOLDER].finish()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Put the environment back."""
    if _FOLDER in config.stash:
        config.stash[_FOLDER].close()


def uses_plugin(item: pytest.Item) -> bool:
    """Whether a test asks for a fixture or marker of the plugin, or stands in a CompileSuite."""
    cls = getattr(item, "cls", None)
    in_suite = any(base.__module__ == f"{PACKAGE}.check.suite" for base in getattr(cls, "__mro__", ()))
    named = _FIXTURES & set(getattr(item, "fixturenames", ()))
    return bool(named) or in_suite or item.get_closest_marker(MARKER) is not None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Refuse wrong markers before anything runs, and note every speed test before any is deselected."""
    config.stash[_SPEED_TESTS] = [item.nodeid for item in items if _is_speed_test(item)]
    for item in items:
        known_failure.read(item)


def pytest_report_collectionfinish(config: pytest.Config, items: list[pytest.Item]) -> list[str]:
    """Say what checks run on, if there are any."""
    if not any(uses_plugin(item) for item in items):
        return []
    with calm():
        import torch

    chosen = settings.current
    device = chosen.device or "where the tests put it"
    backend = f"{chosen.check_backend}{' (--compile-fast: no generated code is checked)' if chosen.fast else ''}"
    return [f"torch.compile: torch {torch.__version__}, device {device}, backend {backend}, cache {chosen.cache}"]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> bool | None:
    """Under ``--compile-isolate``, run the test elsewhere."""
    if not settings.current.isolate or isolate.is_child() or not uses_plugin(item):
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in isolate.run(item):
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, Any, Any]:
    """Start tests that use the plugin or a guard, and only those, with nothing compiled."""
    if uses_plugin(item):
        item.config.stash[_FOLDER].enter_test()
    if uses_plugin(item) or _knows_guard(item):
        _reset()
    item.stash[_BEFORE] = compiled_codes()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Collect a row for each check of the test, and show a sign of life."""
    item.stash[_ROWS], item.stash[_CHECKS] = [], []

    def hear(report: CompileReport) -> None:
        seen = report.to_dict()
        item.stash[_ROWS].append(terminal.row(item.nodeid, seen))
        item.stash[_CHECKS].append(check_entry(seen, item.config.rootpath))

    expected = settings.undiagnosed() if known_failure.read(item) else nullcontext()
    with listening(hear), hearing_guards(lambda: _first_guard(item)), expected:
        if not uses_plugin(item):
            return (yield)
        with sign_of_life(_speaker(item.config), item.nodeid):
            return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, Any, Any]:
    """Leave nothing compiled behind, and note which settings of torch the test left changed."""
    try:
        return (yield)
    finally:
        if uses_plugin(item) or _knows_guard(item) or _GUARDED in item.stash:
            _reset()
        if "torch._dynamo" in sys.modules:
            from .._torch.deviations import note_left_by

            note_left_by(item.nodeid)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Hold known failures to what they say, and send the rows of the checks with the report."""
    report = yield
    if call.when == "call":
        failures = known_failure.read(item)
        if failures:
            known_failure.apply(report, call.excinfo.value if call.excinfo else None, failures)
        vars(report)["torch_compile_rows"] = item.stash.get(_ROWS, [])
        if _is_speed_test(item):
            from .benchmark import RESULTS

            vars(report)["torch_compile_speed"] = item.stash.get(RESULTS, [])
    if settings.current.report and (uses_plugin(item) or item.stash.get(_CHECKS, [])):
        attach(report, item.stash.get(_CHECKS, []))
    if isolate.is_child():
        isolate.save(item.config, report)
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """One aligned row for each check and each speed test, and the update of the baselines."""
    if rows := _rows(terminalreporter):
        terminalreporter.section("torch.compile checks")
        terminalreporter.write_line(terminal.table(rows, max(120, terminalreporter._tw.fullwidth)))
    if speeds := _sent(terminalreporter, "torch_compile_speed"):
        from ..speed import summary as session

        collected: list[str] = config.stash.get(_SPEED_TESTS, [])
        terminalreporter.section("torch.compile speed")
        session.finish(
            terminalreporter.write_line,
            speeds,
            settings.below_root(config.rootpath, settings.current.baselines),
            update=settings.current.update_baselines,
            collected=collected,
            selected=[argument.split("::")[0] for argument in config.args if "::" in argument],
        )

    for line in config.stash.get(_LINES, []):
        terminalreporter.write_line(f"torch.compile cache: {line}")


def _rows(terminalreporter: pytest.TerminalReporter) -> list[dict[str, str]]:
    """The rows of all checks; a failure that the test's markers expect is told as known."""
    reports = [report for reports in terminalreporter.stats.values() for report in reports]
    rows: list[dict[str, str]] = []
    for report in reports:
        expected = bool(getattr(report, "skipped", False) and hasattr(report, "wasxfail"))
        sent = getattr(report, "torch_compile_rows", ())
        rows += [terminal.expected(row, "known failure") for row in sent] if expected else sent
    return rows


def _sent(terminalreporter: pytest.TerminalReporter, name: str) -> list[dict[str, Any]]:
    reports = [report for reports in terminalreporter.stats.values() for report in reports]
    return [row for report in reports for row in getattr(report, name, ())]


def _knows_guard(item: pytest.Item) -> bool:
    """Whether the test's module has imported ``compile_guard``, or the package that it is in."""
    guard = sys.modules.get(f"{PACKAGE}.check.compile_guard")
    known = (sys.modules[PACKAGE], guard, getattr(guard, "compile_guard", guard))
    values = vars(getattr(item, "module", None) or object).values()
    return any(value is one for value in values for one in known if one is not None)


def _first_guard(item: pytest.Item) -> None:
    """What earlier tests compiled would be reused unseen in the first guard of a test: drop it, and only that."""
    if _GUARDED in item.stash:
        return
    item.stash[_GUARDED] = True
    if uses_plugin(item) or _knows_guard(item):
        return  # the test began with nothing compiled
    before = item.stash[_BEFORE]
    if len(compiled_codes()) == len(before):
        _reset()
    else:
        drop(before)


def _is_speed_test(item: pytest.Item) -> bool:
    return "compile_benchmark" in getattr(item, "fixturenames", ())


def _reset() -> None:
    from .._torch.reset import reset_dynamo

    with calm():
        reset_dynamo()


def _speaker(config: pytest.Config) -> Callable[[str], None]:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or not hasattr(reporter, "ensure_newline"):  # a worker of pytest-xdist has no terminal
        return lambda text: None

    capture = config.pluginmanager.get_plugin("capturemanager")

    def say(text: str) -> None:
        with capture.global_and_fixture_disabled() if capture else nullcontext():
            reporter.ensure_newline()
            reporter.write_line(text)

    return say
