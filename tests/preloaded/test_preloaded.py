"""A forked process does what a new interpreter does."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import preloaded

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux only")
FACTS = "import os, sys; print(__name__, sys.argv, sys.path[:2], sys.executable, os.getcwd(), os.environ.get('A'))"
PROGRAMS = {
    "code": ["-c", FACTS, "x", "y"],
    "file": ["program.py", "x"],
    "file-alone": ["-I", "program.py"],
    "module": ["-m", "program", "x"],
    "unbuffered": ["-u", "-B", "-c", "import os, sys; print(sys.dont_write_bytecode, end=''); os._exit(0)"],
    "input": ["-c", "import sys; print(sys.stdin.read()); sys.exit(7)"],
    "message": ["-c", "raise SystemExit('the end')"],
    "exception": ["-c", "import torch\n{}['key']"],
    "signal": ["-c", "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"],
    "interrupt": ["-c", "import os, signal; os.kill(os.getpid(), signal.SIGINT)"],
    "at-exit": ["-c", "import atexit; atexit.register(print, 'done')"],
    "nested": ["-c", "import subprocess, sys; sys.exit(subprocess.call([sys.executable, '-c', 'exit(3)']))"],
}


def outcome(program: list[str], folder: Path) -> tuple[int, str, str]:
    done = subprocess.run([sys.executable, *program], input="text", cwd=folder, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr.strip().rpartition("\n")[2]


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_forked_process_ends_and_prints_like_a_new_one(
    program: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "program.py").write_text(FACTS)
    monkeypatch.setenv("A", "set")
    monkeypatch.delenv("PYTHONPATH", raising=False)
    forked = outcome(program, tmp_path)
    monkeypatch.setattr(preloaded, "_can_be_forked", lambda *_: False)
    assert forked == outcome(program, tmp_path)


def test_torch_is_imported_already_and_a_file_stays_open(tmp_path: Path) -> None:
    code = "import sys, os; os.write(int(sys.argv[1]), b'torch' if 'torch' in sys.modules else b'nothing')"
    with (tmp_path / "out").open("wb") as file:
        subprocess.run([sys.executable, "-c", code, str(file.fileno())], pass_fds=[file.fileno()], check=True)
    assert (tmp_path / "out").read_bytes() == b"torch"


def test_process_ends_with_its_launcher() -> None:
    code = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert process.stdout is not None
    forked = int(process.stdout.readline())
    assert forked != process.pid
    process.kill()
    process.wait()
    assert process.stdout.read() == b"", "its end of the pipe is closed"


def test_forked_process_can_use_a_gpu() -> None:
    code = "import torch; print(torch.cuda._is_in_bad_fork())"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


@pytest.mark.parametrize("value", ["0", "1"])
def test_compile_caches_are_disabled_as_in_a_new_process(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv(preloaded.DISABLE_CACHES, value)
    code = "import sys, torch._inductor.config as c; print(c.force_disable_caches, 'torch.export' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(value == "1"), "True"]


def test_process_of_multiprocessing_is_forked_and_its_end_is_seen() -> None:
    context = multiprocessing.get_context("spawn")
    sleeping, ending = context.Process(target=time.sleep, args=(600,)), context.Process(target=os._exit, args=(3,))
    sleeping.start()
    ending.start()
    assert b"launch.py" in Path(f"/proc/{sleeping.pid}/cmdline").read_bytes()
    ending.join(60)
    assert ending.exitcode == 3 and sleeping.is_alive()
    sleeping.terminate()
    sleeping.join(60)
    assert sleeping.exitcode == -signal.SIGTERM
