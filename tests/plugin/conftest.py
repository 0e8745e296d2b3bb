"""The project under test."""

from __future__ import annotations

import pytest

from tests.plugin.projects import HEAD, OPTIONS


@pytest.fixture(autouse=True)
def no_worker(monkeypatch):
    """The pytest under test is no worker of pytest-xdist, also where these tests run in one."""
    for variable in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT"):
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def project(folder_of_tests):
    """Run tests of a new project in this process."""
    folder_of_tests.makeini("[pytest]\ncompile_backend = eager\n")

    def run(source, *options):
        folder_of_tests.makepyfile(HEAD + source)
        return folder_of_tests.runpytest_inprocess(*OPTIONS, *options)

    run.tester = folder_of_tests
    return run
