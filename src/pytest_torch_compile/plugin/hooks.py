"""The plugin's hooks. The hooks import torch only when a test uses the plugin."""

from __future__ import annotations

import signal
from collections.abc import Generator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from .. import settings
from .._torch.warning_filters import calm
from ..cache.folder import CacheFolder
from ..cache.store import ArtifactsRefused
from ..check import acceptance
from ..disk import remove_leftovers
from ..events import hearing_guards, listening, sign_of_life
from ..findings import CompileUsageError
from ..report import safe_text, terminal
from ..report.results import check_entry
from . import in_child, isolate, known_failure, options, payload, termination, torchrun, unwritten, usage, workers
from .collector import Collector
from .orphaned import end_with_session
from .tracebacks import OwnFramesHidden

if TYPE_CHECKING:
    from ..findings import CompileReport

_OUTER: pytest.StashKey[settings.Settings] = pytest.StashKey()
_FOLDER: pytest.StashKey[CacheFolder] = pytest.StashKey()
_CACHE_LINES: pytest.StashKey[list[str]] = pytest.StashKey()
_SPEED_TESTS: pytest.StashKey[list[str]] = pytest.StashKey()
_PLANNABLE_TESTS: pytest.StashKey[list[str]] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    options.add_options(parser)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """If a launcher such as torchrun started this process, record any SIGTERM that arrives while conftest files are
    imported.
    """
    torchrun.note_sigterm(early_config)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> Generator[None, Any, Any]:
    """In child processes of this plugin, and on all ranks except rank 0, reset other plugins' options before those
    plugins read them.
    """
    in_child.begin(config)
    torchrun.begin(config)
    return (yield)


def pytest_configure(config: pytest.Config) -> None:
    """Declare the markers, read the settings, and register the plugins that the settings require."""
    config.addinivalue_line(
        "markers", f"{usage.MARKER}(**options): check_compile options that this test's compile_check uses"
    )
    config.addinivalue_line(
        "markers",
        f"{known_failure.MARKER}(reason, kind=None, torch=None): mark a test whose check is known to fail; the test "
        "fails if the check passes",
    )
    in_child.begin_worker(config)
    chosen, root, register = options.read(config), config.rootpath, config.pluginmanager.register
    if chosen.perf != "off":
        workers.share_a_gpu(config, settings.below_root(root, chosen.baselines))
    config.stash[_OUTER], settings.current = settings.current, chosen
    if not config.getoption("fulltrace", False):
        register(OwnFramesHidden(), "torch-compile-tracebacks")
    own = not hasattr(config, "workerinput") and not in_child.is_child(config)
    asked = torchrun.was_asked_to_end(config)
    if own and torchrun.takes_part(config):
        register(torchrun.LaunchedSession(config, asked), "torch-compile-launched")
    elif asked:
        signal.raise_signal(signal.SIGTERM)
    leads = own and not torchrun.follows(config)
    try:
        config.stash[_FOLDER] = CacheFolder(chosen.cache, root, leads=leads)
    except ArtifactsRefused as error:
        raise pytest.UsageError(f"--compile-cache={chosen.cache}: {error}") from None
    if leads and (chosen.report or chosen.perf != "off" or chosen.plan or chosen.update_baselines):
        termination.end_in_order(config)
    if chosen.report and leads:
        register(Collector(settings.below_root(root, chosen.report), config), "torch-compile-report")
    if chosen.accept or (root / acceptance.FILE_NAME).exists():
        from .acceptance_session import AcceptanceSession

        register(AcceptanceSession(root), "torch-compile-accept")
    if chosen.existing:
        from ..existing.session import ExistingSession

        backend = options.backend_asked_for(config)
        register(ExistingSession(config, backend, lambda line: usage.speaker(config)(line)), "torch-compile-existing")
    if chosen.perf != "off" or chosen.update_baselines:
        if leads:
            remove_leftovers(settings.below_root(root, chosen.baselines), nested=True)
        from .structure_session import StructureSession

        register(StructureSession(root), "torch-compile-structure")
    if chosen.plan:
        from ..plan.planned_counts import PlanSession

        folder = settings.below_root(root, chosen.baselines)
        register(PlanSession(folder, _planned, _plannable_tests, unwritten.say), "torch-compile-plan")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Save the compile cache if it is at a URL. If saving fails, the next run starts with an older cache."""
    try:
        session.config.stash[_CACHE_LINES] = session.config.stash[_FOLDER].finish()
    except Exception as error:  # an exception would suppress pytest's summary
        session.config.stash[_CACHE_LINES] = [f"the cache was not saved: {unwritten.reason(error)}"]


def pytest_unconfigure(config: pytest.Config) -> None:
    """Restore the environment variables. If this session ran inside another session, also restore the settings of the
    outer session.
    """
    if _FOLDER in config.stash:
        config.stash[_FOLDER].close()
    if _OUTER in config.stash:
        settings.current = config.stash[_OUTER]


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """With ``-n auto`` and ``--compile-perf``, start as many workers as can compile at the same time."""
    return workers.as_many_as_can_compile(config)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Restore ``PYTEST_XDIST_WORKER`` for the tests."""
    workers.say_so_again(session.config)


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> None:
    """When a pytest-xdist worker collects a test file that uses the plugin, make sure that the worker exits soon after
    its controller exits.
    """
    if hasattr(parent.config, "workerinput") and usage.names_plugin(module_path):
        end_with_session()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Record all collected speed tests, and tests that may have a plan, before any test is deselected."""
    if not (items and all(map(usage.shows_existing, items))):
        config.stash[_SPEED_TESTS] = [item.nodeid for item in items if usage.is_speed_test(item)]
        config.stash[_PLANNABLE_TESTS] = [item.nodeid for item in items if usage.can_be_planned(item)]


def pytest_report_collectionfinish(config: pytest.Config, items: list[pytest.Item]) -> list[str]:
    """Report the torch version, device and backend if the session contains tests that use the plugin."""
    if not any(usage.uses_plugin(item) for item in items):
        return []
    try:
        with calm():
            import torch
    except Exception as error:  # only the tests that need torch fail
        return [f"torch.compile: torch cannot be imported: {unwritten.reason(error)}"]

    chosen = settings.current
    device = chosen.device or "chosen by each test"
    backend = f"{chosen.check_backend}{' (--compile-fast: generated code is not checked)' if chosen.fast else ''}"
    return [f"torch.compile: torch {torch.__version__}, device {device}, backend {backend}, cache {chosen.cache}"]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> bool | None:
    """Under ``--compile-isolate``, run the test in a separate process."""
    if not settings.current.isolate or in_child.is_child(item.config) or not usage.uses_plugin(item):
        return None
    if usage.shows_existing(item):
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in isolate.run(item):
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, Any, Any]:
    """Before a test that uses the plugin or ``compile_guard``, discard the code that earlier tests compiled."""
    payload.begin(item)
    known_failure.require_valid(item)
    if usage.uses_plugin(item):
        if hasattr(item.config, "workerinput"):
            end_with_session()
        else:
            termination.end_in_order(item.config)
        item.config.stash[_FOLDER].enter_test()
    usage.enter(item)
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Record each check that the test runs, and show progress."""

    def hear(report: CompileReport) -> None:
        observed, noted = report.to_dict(), payload.of(item)
        if not usage.shows_existing(item):  # checks of --compile-existing have a separate table
            noted.rows.append(terminal.row(item.nodeid, observed))
        noted.checks.append(check_entry(observed, item.config.rootpath))

    expected = settings.undiagnosed() if known_failure.read(item) else nullcontext()
    speaker = usage.speaker(item.config)
    alive = sign_of_life(speaker, item.nodeid) if usage.uses_plugin(item) else nullcontext()
    with listening(hear), hearing_guards(lambda: usage.first_guard(item)), expected, alive:
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, Any, Any]:
    """Discard compiled code, and record the torch settings that the test changed and did not restore."""
    try:
        return (yield)
    finally:
        usage.leave(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Apply the test's known-failure markers to its outcome, and attach the recorded checks and measurements to the
    report.
    """
    report = yield
    failures = known_failure.read(item)
    if call.when == "call" and failures:
        known_failure.apply(report, call.excinfo.value if call.excinfo else None, failures)
    wrong = call.excinfo is not None and isinstance(call.excinfo.value, CompileUsageError)
    payload.attach(item, report, always=usage.uses_plugin(item), usage_error=wrong and report.failed)
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print a row for each check and each speed test and, if requested, update the baselines."""
    rows: list[dict[str, str]] = []
    timings: list[dict[str, Any]] = []
    for report, sent in payload.received(terminalreporter):
        expected = report.skipped and hasattr(report, "wasxfail")
        rows += [terminal.expected(row, "known failure") for row in sent.rows] if expected else sent.rows
        timings += sent.timings
    if rows:
        terminalreporter.section("torch.compile checks")
        with unwritten.saying(terminalreporter, "the table of checks could not be shown"):
            # Write each line separately: if the terminal cannot encode a character, pytest escapes the whole text of
            # the call, including its newlines.
            for line in terminal.table(rows, max(120, terminalreporter._tw.fullwidth)).splitlines():
                terminalreporter.write_line(line)
    if timings:
        terminalreporter.section("torch.compile speed")
        with unwritten.saying(terminalreporter, "the summary of the speed tests is incomplete"):
            _speed_summary(terminalreporter, config, timings)
    for line in config.stash.get(_CACHE_LINES, []):
        terminalreporter.write_line(safe_text.terminal(f"torch.compile cache: {line}"))


def _speed_summary(reporter: pytest.TerminalReporter, config: pytest.Config, timings: list[dict[str, Any]]) -> None:
    from ..speed import summary

    collected, selected = _speed_tests(config)
    summary.finish(
        lambda line, **colors: reporter.write_line(safe_text.terminal(line), **colors),
        timings,
        settings.below_root(config.rootpath, settings.current.baselines),
        say_not_written=lambda line: unwritten.say(reporter, line),
        update=settings.current.update_baselines,
        collected=collected,
        selected=selected,
    )


def _planned(reporter: pytest.TerminalReporter) -> list[tuple[bool, dict[str, Any]]]:
    """Return a (passed, result) pair for each test that was planned, under ``--compile-plan``."""
    return [(report.passed, result) for report, sent in payload.received(reporter) for result in sent.plans]


def _speed_tests(config: pytest.Config) -> tuple[list[str], list[str]]:
    """Return the collected speed tests, and the file of each command-line argument that selects tests by id."""
    return config.stash.get(_SPEED_TESTS, []), _partly_selected(config)


def _plannable_tests(config: pytest.Config) -> tuple[list[str], list[str]]:
    """Return the collected tests that may have a plan, and the files in which tests were selected by id."""
    return config.stash.get(_PLANNABLE_TESTS, []), _partly_selected(config)


def _partly_selected(config: pytest.Config) -> list[str]:
    return [argument.split("::")[0] for argument in config.args if "::" in argument]
