"""A worker of pytest-xdist does not outlive its session, however that ends."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.plugin.projects import OPTIONS, SOURCES

pytest.importorskip("xdist")
pytestmark = pytest.mark.usefixtures("new_interpreters")  # the tests kill the processes that they start
SLEEPS = """
import os, pathlib, time

def sleep():
    pathlib.Path("started.part").write_text(str(os.getpid()))
    os.rename("started.part", "started")
    time.sleep(60)
"""
TESTS = {
    "in-a-test": ("def test_sleeps(compile_check):\n    sleep()\n", True),
    "in-an-import": ("sleep()\n\ndef test_check(compile_check):\n    pass\n", True),
    "not-used": ("def test_sleeps():\n    sleep()\n", False),
    "not-used-in-an-import": ("sleep()\n\ndef test_nothing():\n    pass\n", False),
}


def wait_for(done, seconds):
    end = time.monotonic() + seconds
    while not (is_done := done()) and time.monotonic() < end:
        time.sleep(0.1)
    return is_done


def has_ended(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked for in /proc")
@pytest.mark.parametrize(("test", "ends"), TESTS.values(), ids=TESTS)
def test_a_worker_of_a_killed_session_ends_at_once_if_it_uses_the_plugin(tmp_path, test, ends):
    (tmp_path / "test_sleeps.py").write_text(SLEEPS + test)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    environment = {**os.environ, "PYTHONPATH": SOURCES}
    for variable in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT"):
        environment.pop(variable, None)
    command = [sys.executable, "-m", "pytest", *OPTIONS, "-n", "1"]
    session = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL)
    started = tmp_path / "started"
    assert wait_for(started.exists, 120)
    worker = int(started.read_text())
    session.kill()
    session.wait()
    # pytest-xdist interrupts a worker after 5 s, and ends it after 10 more.
    assert wait_for(lambda: has_ended(worker), 4) == ends
    assert wait_for(lambda: has_ended(worker), 30)
