"""The plugin, where the tests run from a source tree that is not installed."""

import gc
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib import metadata

import pytest
from _pytest.pytester import SysModulesSnapshot

from pytest_torch_compile import settings
from tests import preloaded
from tests.plugin.projects import WITHOUT_DIAGNOSIS

if not any(entry.name == "torch_compile" for entry in metadata.entry_points(group="pytest11")):
    pytest_plugins = ["pytest_torch_compile.plugin"]


@pytest.hookimpl(trylast=True)
def pytest_configure() -> None:
    """Look into no failure of which a test says itself that it must come. Fork the Python processes that tests start."""
    settings.current = replace(settings.current, diagnose="off")
    preloaded.install()


def pytest_collection_finish() -> None:
    """Collect garbage less often, because each collection visits all objects of torch and its compiler."""
    gc.set_threshold(*preloaded.GC_THRESHOLDS)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """With ``-n auto``, start three workers for two cores, because many tests wait for another process."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 2
    return cores + cores // 2


@pytest.fixture(autouse=True)
def no_default_device_is_left() -> Iterator[None]:
    """Remove the None that ``torch.set_default_device(None)`` leaves: torch 2.6 and 2.8 fail where they read it."""
    yield
    current = getattr(sys.modules.get("torch"), "_GLOBAL_DEVICE_CONTEXT", None)
    if hasattr(current, "device_context") and current.device_context is None:
        del current.device_context


@pytest.fixture
def pytester(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """Keep the modules that sessions in this process import. By default, pytester removes them from ``sys.modules``.
    torch cannot be imported twice, and a second import of a module leaves two objects for it.
    Let these sessions print the same lines in CI, where pytest does not shorten its summary.
    """
    for variable in ("CI", "BUILD_NUMBER"):
        monkeypatch.delenv(variable, raising=False)
    snapshot = SysModulesSnapshot(preserve=lambda name: not name.startswith(("test_", "conftest")))
    monkeypatch.setattr(pytester, "_Pytester__take_sys_modules_snapshot", lambda: snapshot)
    monkeypatch.setattr(pytester, "_sys_modules_snapshot", snapshot)
    return pytester


@pytest.fixture
def folder_of_tests(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A folder whose tests run in this process, and not as a pytest-xdist worker."""
    for variable in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT"):
        monkeypatch.delenv(variable, raising=False)
    for name, value in WITHOUT_DIAGNOSIS.items():
        monkeypatch.setenv(name, value)
    return pytester


@pytest.fixture
def new_interpreters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start each Python process as usual, without a preloaded torch."""
    monkeypatch.setattr(preloaded, "_can_be_forked", lambda *_: False)
