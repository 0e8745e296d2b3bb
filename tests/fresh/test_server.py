"""A fresh process that is forked from one with torch imported is like any other fresh process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

pytest.importorskip("torch")

from pytest_torch_compile.fresh.process import Ended, run_fresh
from pytest_torch_compile.fresh.server import server

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux only"),
    pytest.mark.usefixtures("new_interpreters"),
]
PRELOAD = ("torch",)


def forked(function, *args, seconds: float = 60.0, environment=None) -> Ended:
    return run_fresh(function, *args, seconds=seconds, environment=environment, preload=PRELOAD)


def facts() -> dict[str, object]:
    import random

    import numpy

    return {
        "parent": os.getppid(),
        "session": os.getsid(0) == os.getpid(),
        "folder": os.getcwd(),
        "path": sys.path,
        "variables": dict(os.environ),
        "random": (random.random(), numpy.random.rand()),
    }


def changes_everything() -> None:
    import torch

    torch.sin = torch.cos
    sys.modules["left.behind"] = sys
    os.environ["LEFT_BEHIND"] = "1"


def what_is_left() -> tuple[bool, bool, bool]:
    import torch

    return "left.behind" in sys.modules, "LEFT_BEHIND" in os.environ, torch.sin is torch.cos


def raises() -> None:
    raise KeyError("the key")


def prints_and_dies() -> None:
    print("the last line", flush=True)
    os.kill(os.getpid(), signal.SIGTERM)


def sleeps(file: Path) -> None:
    file.write_text(str(os.getpid()))
    time.sleep(600)


def starts_another() -> object:
    return forked(os.getppid).value


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


def test_processes_have_one_parent_that_is_not_this_process_and_each_its_own_random_numbers():
    first, second = forked(facts).value, forked(facts).value
    assert first["parent"] == second["parent"] != os.getpid()
    assert first["session"]
    assert set(first["random"]).isdisjoint(second["random"])


def test_folder_paths_and_variables_are_those_of_the_caller(tmp_path, monkeypatch):
    before = forked(facts).value["parent"]
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    found = forked(facts).value
    assert found["variables"]["HOME"] == str(tmp_path)
    assert "PYTEST_CURRENT_TEST" not in found["variables"]
    assert found["folder"] == str(tmp_path)
    assert found["path"][0] == str(tmp_path)
    assert found["variables"]["TORCHINDUCTOR_CACHE_DIR"] == str(tmp_path / "cache")
    assert found["parent"] == before


def test_a_variable_that_torch_may_have_read_needs_a_new_server():
    before = forked(facts).value["parent"]
    found = forked(facts, environment={"TORCH_LOGS": "+dynamo"}).value
    assert found["variables"]["TORCH_LOGS"] == "+dynamo"
    assert found["parent"] != before
    assert not alive(before)


def test_nothing_is_left_for_the_next_process():
    assert forked(changes_everything).raised is None
    assert forked(what_is_left).value == (False, False, False)


def test_an_exception_a_signal_and_a_hang_are_reported(tmp_path):
    assert forked(raises).raised.type == "KeyError"
    died = forked(prints_and_dies)
    assert died.without_answer == "was killed by SIGTERM"
    assert "the last line" in died.log
    hung = forked(sleeps, tmp_path / "pid", seconds=5.0)
    assert hung.without_answer == "did not finish within 5 s"
    assert not alive(int((tmp_path / "pid").read_text()))
    assert forked(what_is_left).value == (False, False, False)


def test_a_second_thread_gets_a_process_of_its_own_meanwhile(tmp_path):
    first = threading.Thread(target=forked, args=[sleeps, tmp_path / "pid"], kwargs={"seconds": 8.0})
    first.start()
    while not (tmp_path / "pid").exists():
        time.sleep(0.05)
    assert forked(os.getppid).value == os.getpid()
    first.join()


def test_a_server_that_was_killed_is_replaced():
    pid = forked(os.getppid).value
    os.kill(pid, signal.SIGKILL)
    assert forked(os.getppid).value != pid  # the first may be started, if the end of the server comes as a surprise
    assert forked(os.getppid).value not in (pid, os.getpid())


def test_a_process_that_cannot_be_forked_is_started(monkeypatch):
    server.stop()
    monkeypatch.setattr(subprocess, "Popen", refuses_a_server(subprocess.Popen))
    assert forked(os.getppid).value == os.getpid()


def refuses_a_server(real):
    class Refusing(real):
        def __init__(self, command, **options):
            if any(word.endswith(".server") for word in command):
                raise OSError("no more processes")
            super().__init__(command, **options)

    return Refusing


def test_a_forked_process_has_a_server_of_its_own():
    assert forked(starts_another).value not in (None, os.getpid(), forked(os.getppid).value)


def test_all_processes_end_with_the_one_that_started_them(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import sys\nfrom pathlib import Path\n"
        "from tests.fresh.test_server import forked, sleeps\n"
        "forked(sleeps, Path(sys.argv[1]))\n"
    )
    root = Path(__file__).parents[2]
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root / "src"), str(root)])}
    process = subprocess.Popen([sys.executable, str(program), str(tmp_path / "pid")], env=variables)
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        assert process.poll() is None
        time.sleep(0.05)
    sleeper = int((tmp_path / "pid").read_text())
    its_server = int(Path(f"/proc/{sleeper}/stat").read_text().rpartition(")")[2].split()[1])
    assert its_server != process.pid
    process.kill()
    process.wait()
    end = time.monotonic() + 20
    while (alive(sleeper) or alive(its_server)) and time.monotonic() < end:
        time.sleep(0.05)
    assert not alive(sleeper)
    assert not alive(its_server)
