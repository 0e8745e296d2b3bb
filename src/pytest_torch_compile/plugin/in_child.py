"""Create a child process that runs tests with the options of this run, and adapt pytest inside the child process."""

from __future__ import annotations

import json
import os
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import pytest

from .. import child, settings
from .usage import is_speed_test

_JOB: pytest.StashKey[child.Job] = pytest.StashKey()
_OF_CHILD = "torch_compile_child"  # the key in a pytest-xdist worker's ``workerinput`` for a child's tests and options
_OF_XDIST = {"numprocesses", "dist"}  # options that are not passed to a worker


def child_for(item: pytest.Item) -> child.Child:
    """Create a child that runs one test with the options of this run."""
    config = item.config
    # Use the absolute path of the test file, because the path in an id is relative to the root directory.
    _, separator, name = item.nodeid.partition("::")
    job = child.Job([f"{item.path}{separator}{name}"], speed_tests=speed_tests(item))
    arguments = [str(argument) for argument in config.invocation_params.args]
    return child.Child(arguments, Path(config.invocation_params.dir), job)


def is_child(config: pytest.Config) -> bool:
    """Return whether another pytest process started this run. The process that started this run shows and stores the
    run's results.
    """
    return _JOB in config.stash


def speed_tests(item: pytest.Item) -> int:
    """Return the number of speed tests in this run or, in a child, in the parent's run."""
    if is_child(item.config) and item.config.stash[_JOB].speed_tests:
        return item.config.stash[_JOB].speed_tests
    return sum(map(is_speed_test, item.session.items)) or 1


def begin(config: pytest.Config) -> None:
    """In a child process, apply the tests and options that the parent sent. The parent's tests and options are applied
    before other plugins read the options.
    """
    job = child.take_job()
    if job is None:
        return
    config.stash[_JOB] = job
    child.follow(job)
    for name, value in {**child.NOT_INHERITED, **job.options}.items():
        if hasattr(config.option, name):
            setattr(config.option, name, value)
    if job.tests is not None:
        _run_only(config, job.tests)
    config.pluginmanager.register(_InChild(config, job), "torch-compile-child")


def begin_worker(config: pytest.Config) -> None:
    """In a child's pytest-xdist worker, apply the tests and options that the child received. pytest-xdist itself passes
    only the command line to the worker.
    """
    sent = getattr(config, "workerinput", {}).get(_OF_CHILD)
    if sent is None:
        return
    for name, value in sent["options"].items():
        setattr(config.option, name, value)
    if sent["tests"] is not None:
        _run_only(config, sent["tests"])


def _run_only(config: pytest.Config, tests: Sequence[str]) -> None:
    # Ids are relative to the root directory, but pytest resolves arguments relative to the current folder. Only the
    # part before the first :: is a path, because parameters may contain slashes. The paths are not absolute, because
    # pytest rejects a [ in them, and the path of the current folder may contain one.
    parts = [test.partition("::") for test in tests]
    here = config.invocation_params.dir
    config.args = [f"{os.path.relpath(config.rootpath / path, here)}{sep}{name}" for path, sep, name in parts]
    if hasattr(config.option, "pyargs"):
        config.option.pyargs = False  # these arguments are paths, not module names


class _InChild:
    """Hooks that are registered only in a child process."""

    def __init__(self, config: pytest.Config, job: child.Job) -> None:
        self._config = config
        self._job = job

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        """Unregister the plugins that select or order tests by the stored results of earlier runs."""
        for name in child.UNREGISTERED:
            if config.pluginmanager.has_plugin(name):
                config.pluginmanager.unregister(name=name)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell a pytest-xdist worker which tests to run, and with which options."""
        options = {name: value for name, value in self._job.options.items() if name not in _OF_XDIST}
        node.workerinput[_OF_CHILD] = {"tests": self._job.tests, "options": options}

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> Generator[None, Any, Any]:
        """Keep all tests that the parent requested.

        The parent has already selected these tests, and a sharding plugin in the child would drop some of them. Under
        ``--collect-only``, also keep the tests that ``addopts`` deselects.
        """
        collected = list(items)
        result = yield
        if self._job.tests or self._config.option.collectonly:
            items[:] = collected
        return result

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Send the parent the ids of the collected tests. Under ``--collect-only``, also send the root directory, the
        baselines folder, and the files from which only some tests were selected.
        """
        if session.config.option.collectonly:
            config = session.config
            partly = [argument.split("::")[0] for argument in config.args if "::" in argument]
            files = [os.path.relpath(config.invocation_params.dir / path, config.rootpath) for path in partly]
            stored = settings.below_root(config.rootpath, settings.current.baselines)
            self._say({"root": str(config.rootpath), "baselines": str(stored), "partly": files})
            for item in session.items:
                self._say(item.nodeid)

        else:
            self._say({child.OF_RUN: {"collected": [item.nodeid for item in session.items]}})

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        """Report the tests that the workers collected, because the controller does not collect any."""
        self._say({child.OF_RUN: {"collected": list(ids)}})

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """Report that pytest finished. Without this report, the parent concludes that pytest did not finish, for
        example because a test terminated the process.
        """
        self._say({child.OF_RUN: {"finished": True}})

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Send the parent the reason why a file could not be collected."""
        if report.failed and not self._config.option.collectonly:
            self._say(self._config.hook.pytest_report_to_serializable(config=self._config, report=report))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Send every report to the parent."""
        self._say(self._config.hook.pytest_report_to_serializable(config=self._config, report=report))

    def _say(self, result: Any) -> None:
        with Path(self._job.results).open("a", encoding="utf-8") as file:
            file.write(json.dumps(result, default=str) + "\n")
