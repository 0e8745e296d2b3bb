"""The project under test."""

from __future__ import annotations

import pytest
from _pytest.pytester import SysModulesSnapshot

from tests.plugin.projects import HEAD, OPTIONS


@pytest.fixture(autouse=True)
def no_worker(monkeypatch):
    """The pytest under test is no worker of pytest-xdist, also where these tests run in one."""
    for variable in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT"):
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def project(pytester, monkeypatch):
    """Run tests of a new project in this process, where torch is loaded already."""
    snapshot = SysModulesSnapshot(preserve=lambda name: not name.startswith(("test_", "conftest")))
    monkeypatch.setattr(pytester, "_Pytester__take_sys_modules_snapshot", lambda: snapshot)
    monkeypatch.setattr(pytester, "_sys_modules_snapshot", snapshot)
    pytester.makeini("[pytest]\ncompile_backend = eager\n")

    def run(source, *options):
        pytester.makepyfile(HEAD + source)
        return pytester.runpytest_inprocess(*OPTIONS, *options)

    run.tester = pytester
    return run
