"""A process of its own for each test: however it ends, that is a failure of its test, and nothing is left of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from pytest_torch_compile.child import Child, Job  # noqa: E402
from pytest_torch_compile.plugin import isolate  # noqa: E402
from tests.plugin.projects import OPTIONS, SOURCES  # noqa: E402

GOOD = "\ndef test_next(compile_options):\n    pass\n"


def child_of(folder, source):
    (folder / "test_a.py").write_text(source)
    return Child([*OPTIONS, "-q", "test_a.py"], folder, Job())


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()


@pytest.mark.parametrize(
    ("dies", "text"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", "was killed by SIGSEGV"),
        ("os.abort()", "was killed by SIGABRT"),
        (
            "os.kill(os.getpid(), signal.SIGKILL)",
            "was killed by SIGKILL, possibly by the kernel because memory ran out",
        ),
        (
            "sys.__stderr__.write('std::bad_alloc'); sys.__stderr__.flush(); os.abort()",
            "was killed by SIGABRT: it ran out of memory",
        ),
        ("os._exit(3)", "exited with status 3 without a report"),
    ],
    ids=["segfault", "abort", "killed", "bad_alloc", "exit"],
)
def test_process_that_dies_is_a_failure_of_its_test(project, dies, text):
    source = f"import os, signal, sys\ndef test_dies(compile_options):\n    {dies}\n{GOOD}"
    result = project(source, "--compile-isolate", *(["-s"] if "bad_alloc" in dies else []))
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines([f"*the process running *::test_dies {text}*"])


def test_test_without_memory_is_a_failure_of_its_test(project):
    source = "def test_large(compile_check):\n    compile_check(lambda x: x + torch.empty(2**60), torch.ones(2))\n"
    result = project(source + GOOD, "--compile-isolate")
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(["*call 1, eager: out of memory*"])


@pytest.mark.parametrize("start", ["", "tests"])
def test_folder_whose_name_contains_brackets_is_no_obstacle(project, monkeypatch, start):
    folder = project.tester.path / "my [project]"
    (folder / "tests").mkdir(parents=True)
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "tests" / "test_b.py").write_text(
        "import pytest\n@pytest.mark.parametrize('a', ['x/y'])\n" + GOOD[1:].replace("(", "(a, ")
    )
    monkeypatch.chdir(folder / start)
    result = project.tester.runpytest_inprocess(*OPTIONS, "--compile-isolate", "--rootdir", str(folder), ".")
    result.assert_outcomes(passed=1)


HANGS = """
import time

def hang(compile_options):
    open("hangs", "w").close(); time.sleep(600)

def test_hangs(compile_options):
    hang(compile_options)
"""


@pytest.mark.parametrize("option", ["", pytest.param("--compile-timeout=4", marks=pytest.mark.slow)])
def test_hang_outside_a_check_is_a_failure_with_its_line(project, monkeypatch, option):
    monkeypatch.setattr(isolate, "SECONDS", 4.0)
    monkeypatch.setattr(isolate, "OUTSIDE_CHECKS", 0.0)
    result = project(HANGS + GOOD, "--compile-isolate", *filter(None, [option]))
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(["*::test_hangs did not finish: it hung at *.py:14 in hang", "*longer than 4 s"])


def test_hang_in_c_that_holds_the_interpreter_is_ended_with_its_line(project, monkeypatch):
    monkeypatch.setattr(isolate, "OUTSIDE_CHECKS", 2.0)
    source = """
import ctypes

def hang(x):
    libc, mutex = ctypes.PyDLL(None), ctypes.create_string_buffer(64)
    libc.pthread_mutex_lock(mutex)
    libc.pthread_mutex_lock(mutex)

def test_hangs(compile_check):
    compile_check(hang, torch.ones(2))
"""
    result = project(source + GOOD, "--compile-isolate", "--compile-timeout=5")
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(["*::test_hangs did not finish: it hung at *.py:16 in hang*"])


def test_hang_in_a_check_is_found_in_the_child(project):
    source = (
        "import time\ndef test_hangs(compile_check):\n    compile_check(lambda x: time.sleep(600), torch.ones(2))\n"
    )
    result = project(source + GOOD, "--compile-isolate", "--compile-timeout=5")
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(["*timeout: did not finish within 5 s*"])


# What pytest-timeout does with its method "signal", in the parent only. It waits until the test hangs.
TIMEOUT = """
import pathlib
import signal
import pytest
from pytest_torch_compile.plugin.in_child import is_child

@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    def ring(number, frame):
        if pathlib.Path("hangs").exists():
            pytest.fail("Timeout >20.0s")
    if not is_child(item.config):
        pathlib.Path("hangs").unlink(missing_ok=True)
        signal.signal(signal.SIGALRM, ring)
        signal.setitimer(signal.ITIMER_REAL, 0.5, 0.5)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
"""


def test_hang_under_pytest_timeout_is_no_internal_error(project):
    project.tester.makeconftest(TIMEOUT)
    before = signal.getsignal(signal.SIGALRM)
    try:
        result = project(HANGS + GOOD, "--compile-isolate")
    finally:
        signal.signal(signal.SIGALRM, before)
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(["*did not finish: it hung at *.py:14 in hang", "*Timeout >20.0s*"])
    result.stdout.no_fnmatch_line("*INTERNALERROR*")


def test_exception_that_says_too_long_ends_the_child(tmp_path):
    class Stop(Exception):
        pass

    def stop(number, frame):
        if (tmp_path / "hangs").exists():
            raise Stop("over the limit of another plugin")

    child = child_of(tmp_path, "import time\ndef test_a():\n    open('hangs', 'w').close(); time.sleep(600)\n")
    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.5, 0.5)
    try:
        ended = child.run(too_long=(Stop,))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert ended.status is None and "over the limit of another plugin" in ended.output
    assert "in test_a" in ended.stacks


@pytest.mark.usefixtures("new_interpreters")
def test_grandchild_that_stays_does_not_hold_the_parent(tmp_path):
    source = """
import subprocess, sys
def test_a():
    grandchild = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    open("pid", "w").write(str(grandchild.pid))
"""
    start = time.monotonic()
    ended = child_of(tmp_path, source).run()
    assert ended.status == 0 and time.monotonic() - start < 120, ended.output
    assert wait_for(lambda: not is_running((tmp_path / "pid").read_text()), 10)


def test_output_that_is_no_utf8_does_not_end_the_session(project):
    source = """
import os, sys
def test_bytes(compile_options):
    os.write(1, b"\\xff\\xfe\\n")
    sys.stdout.flush()
    raise ValueError(os.fsdecode(b"\\xff"))
"""
    for options in ([], ["-s"]):
        result = project(source + GOOD, "--compile-isolate", "--junitxml=junit.xml", "--compile-report=out", *options)
        result.assert_outcomes(failed=1, passed=1)


def test_output_that_the_terminal_cannot_show_does_not_end_the_session(tmp_path):
    source = "import os\ndef test_a(compile_options):\n    os.write(1, '\u20ac'.encode())\n"
    (tmp_path / "test_a.py").write_text(source, encoding="utf-8")
    result = subprocess.run(
        [sys.executable, "-m", "pytest", *OPTIONS, "--compile-isolate", "-s"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": SOURCES, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=False,
    )
    assert b"1 passed" in result.stdout and b"INTERNALERROR" not in result.stdout, result.stdout + result.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL], ids=lambda number: number.name)
def test_child_and_grandchild_end_with_the_parent(tmp_path, number):
    (tmp_path / "test_a.py").write_text(
        """
import os, subprocess, sys, time
def test_hangs(compile_options):
    grandchild = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    with open("pids.part", "w") as file:
        file.write(f"{os.getpid()} {grandchild.pid}")
    os.rename("pids.part", "pids")
    time.sleep(600)
"""
    )
    parent = subprocess.Popen(
        [sys.executable, "-m", "pytest", *OPTIONS, "--compile-isolate"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": SOURCES, "TMPDIR": str(tmp_path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background job ignores it
    )
    try:
        assert wait_for(lambda: (tmp_path / "pids").exists(), 120)
        pids = (tmp_path / "pids").read_text().split()
        assert all(map(is_running, pids))
        parent.send_signal(number)
        assert parent.wait(30) == (-number if number == signal.SIGKILL else pytest.ExitCode.INTERRUPTED)
        assert wait_for(lambda: not any(map(is_running, pids)), 10)
        assert not list(tmp_path.glob("torch-compile-child-*"))
    finally:
        parent.kill()
        parent.wait()
