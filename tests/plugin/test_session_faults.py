"""What goes wrong around the tests: nothing of the summary is lost, what was asked for is loud, no other test suffers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from pytest_torch_compile.disk import TemporaryFolder, write_atomically
from tests.plugin.projects import OPTIONS, SOURCES
from tests.report import documents

# Checks are announced by hand, so that nothing has to be compiled.
SUITE = """
from pytest_torch_compile.events import announce
from pytest_torch_compile.findings import CompileReport

def test_holds(compile_options):
    announce(CompileReport("model", "fullgraph", "inductor", "2.13.0", "cpu"))

def test_of_somebody_else():
    assert 1 == 2
"""


@pytest.fixture
def run(pytester):
    def start(*options, **files):
        pytester.makepyfile(**{"test_it": SUITE, **files})
        return pytester.runpytest_subprocess("-p", "no:cacheprovider", *options)

    return start


def test_a_terminal_that_knows_ascii_only_has_a_line_for_each_check(run, monkeypatch):
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    named = SUITE.replace('"model"', '"größe"')
    result = run("-k", "holds", test_it=named, test_other=named)
    result.assert_outcomes(passed=2, deselected=2)
    result.stdout.fnmatch_lines(["check * verdict", r"*test_holds [[]gr\xf6\xdfe]*pass", "*test_holds *pass"])


def in_the_way(folder: Path) -> None:
    folder.write_text("a file where a folder should be")


def name_taken(folder: Path) -> None:
    (folder / "report.json").mkdir(parents=True)


@pytest.mark.parametrize("fault", [in_the_way, name_taken])
def test_a_report_that_cannot_be_written_is_loud_and_the_summary_is_shown(pytester, run, fault):
    fault(pytester.path / "out")
    result = run("--compile-report=out", "-k", "holds")
    result.assert_outcomes(passed=1, deselected=1)
    result.stdout.fnmatch_lines(["*test_holds [[]model[]]*pass", "torch.compile report: *out* not written: *"])
    assert result.ret == 1


@pytest.mark.skipif(os.getuid() == 0, reason="root can write to read-only folders")
def test_a_read_only_folder_is_loud(pytester, run):
    pytester.mkdir("out").chmod(0o500)
    result = run("--compile-report=out", "-k", "holds")
    result.stdout.fnmatch_lines(["torch.compile report: *out* not written: *Permission denied"])
    assert result.ret == 1


def test_a_full_disk_is_loud_and_leaves_the_old_report(pytester, run):
    run("--compile-report=out", "-k", "holds")
    before = (pytester.path / "out" / "report.json").read_bytes()
    full = (
        "import errno, os\ndef full(*_):\n    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))\nos.fsync = full\n"
    )
    result = run("--compile-report=out", "-k", "holds", conftest=full)
    result.assert_outcomes(passed=1, deselected=1)
    result.stdout.fnmatch_lines(["torch.compile report: *out was not written: No space left on device"])
    assert result.ret == 1
    assert (pytester.path / "out" / "report.json").read_bytes() == before
    assert not list((pytester.path / "out").glob(".*"))


def test_failing_tests_keep_their_own_status(pytester, run):
    in_the_way(pytester.path / "out")
    result = run("--compile-report=out")
    result.assert_outcomes(passed=1, failed=1)
    assert result.ret == 1


@pytest.mark.parametrize("history", [5, [{"created": 5, "commit": "", "tests": {}}]], ids=json.dumps)
def test_an_odd_history_in_an_old_report_is_a_remark(pytester, run, history):
    old = {**documents.typical(), "history": history}
    pytester.mkdir("out").joinpath("report.json").write_text(json.dumps(old))
    result = run("--compile-report=out", "-k", "holds")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["torch.compile report: starting a new history: *history*"])
    assert len(json.loads((pytester.path / "out" / "report.json").read_text())["history"]) == 1


def test_accepted_breaks_that_cannot_be_written_are_loud(pytester, run):
    breaks = """
        from pytest_torch_compile.check import acceptance
        def test_breaks(compile_options):
            acceptance.current.found_recompiles = 1
    """
    (pytester.path / "compile-accepted.json").mkdir()
    result = run("--compile-accept", test_it=breaks)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["torch.compile accepted: not written: *compile-accepted.json*"])
    assert result.ret == 1


def no_torch(folder: Path, text: str) -> None:
    (folder / "torch").mkdir()
    (folder / "torch" / "__init__.py").write_text(text)


@pytest.mark.parametrize(
    "text",
    ["raise ImportError('libcudart.so.13: cannot open shared object file')", "raise OSError('bad ELF\\nheader')"],
)
@pytest.mark.parametrize("workers", [[], ["-n", "2"]], ids=["alone", "xdist"])
@pytest.mark.usefixtures("new_interpreters")
def test_a_torch_that_cannot_be_imported_fails_the_tests_that_need_it_alone(pytester, run, monkeypatch, text, workers):
    if workers:
        pytest.importorskip("xdist")
    no_torch(pytester.path, text)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(pytester.path), os.environ.get("PYTHONPATH", "")]))
    tests = "def test_ours(compile_check):\n    pass\n\ndef test_other():\n    pass\n"
    result = run("--compile-report=out", *workers, test_it=tests)
    result.assert_outcomes(errors=1, passed=1)
    if not workers:
        result.stdout.fnmatch_lines(["torch.compile: torch cannot be imported: *"])
    made = json.loads((pytester.path / "out" / "report.json").read_text())
    assert made["summary"]["error"] == 1


SLOW = (
    SUITE
    + """
def test_hangs(compile_options, tmp_path_factory):
    import os, pathlib, time
    pathlib.Path("started").write_text(os.environ.get("TORCHINDUCTOR_CACHE_DIR", ""))
    time.sleep(60)
"""
)


def started(
    folder: Path, *options: str, variables: dict[str, str], source: str = SLOW, **popen: Any
) -> tuple[subprocess.Popen, str]:
    """A run in a process of its own that is in the middle of a test, and what the test has written."""
    (folder / "test_it.py").write_text(source)
    (folder / "started").unlink(missing_ok=True)
    run = subprocess.Popen(
        [sys.executable, "-m", "pytest", *OPTIONS, "-k", "holds or hangs", *options],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": SOURCES, **variables},
        stdout=subprocess.PIPE,
        text=True,
        **popen,
    )
    deadline = time.monotonic() + 60
    while not (folder / "started").exists():
        assert time.monotonic() < deadline and run.poll() is None, run.communicate()[0]
        time.sleep(0.05)
    time.sleep(0.1)
    return run, (folder / "started").read_text()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
@pytest.mark.parametrize("options", [(), ("--compile-isolate",)], ids=["one-process", "isolated"])
def test_signal_leaves_a_report_and_no_folders(tmp_path, options, number):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    run, _ = started(tmp_path, "--compile-report=out", *options, variables={"TMPDIR": str(temporary)})
    run.send_signal(number)
    output = run.communicate(timeout=30)[0]
    assert run.returncode == pytest.ExitCode.INTERRUPTED, output
    assert ("the process was terminated (SIGTERM)" in output) is (number == signal.SIGTERM)
    made = json.loads((tmp_path / "out" / "report.json").read_text())
    assert {test["id"].split("::")[1]: (test["outcome"], test["message"]) for test in made["tests"]} == {
        "test_holds": ("passed", ""),
        "test_hangs": ("error", "the run ended before the test finished"),
    }
    assert made["exit_status"] == run.returncode
    assert made["selection"].endswith("stopped early")
    assert not list(temporary.glob("torch-compile-*"))


@pytest.mark.parametrize("options", [(), ("-n", "1")], ids=["one-process", "worker"])
@pytest.mark.usefixtures("new_interpreters")  # a worker that is forked is not in the group
def test_a_signal_to_the_process_and_to_its_group_is_one_request_to_end(tmp_path, options):
    run, _ = started(tmp_path, "--compile-update-baselines", *options, variables={}, start_new_session=True)
    run.send_signal(signal.SIGTERM)
    time.sleep(0.1)  # as `timeout` does, but later: a process that is busy hears of the two at once
    os.killpg(run.pid, signal.SIGTERM)
    output = run.communicate(timeout=60)[0]
    assert run.returncode == pytest.ExitCode.INTERRUPTED, output
    (written,) = tmp_path.glob("baselines/*/structure.json")
    assert [entry["fullname"] for entry in json.loads(written.read_text())["tests"]] == ["test_it.py::test_holds"]


CAUGHT = {
    "by-the-compiler": """
    import torch

    @torch.compile(backend=lambda graph, inputs: hang())
    def compiled(x):
        return x + 1

    compiled(torch.ones(2))
""",
    "as-an-exception": """
    try:
        hang()
    except Exception:
        pass
""",
    "whatever-it-is": """
    try:
        hang()
    except BaseException:
        pass
""",
}


@pytest.mark.parametrize("caught", CAUGHT)
def test_code_that_catches_what_ends_the_session_does_not_keep_it(tmp_path, caught):
    hangs = "\ndef hang():\n    import time\n    open('started', 'w').write('.')\n    time.sleep(60)\n"
    body = f"\ndef test_hangs(compile_options):\n{CAUGHT[caught].strip(chr(10))}\n"
    after = "\ndef test_holds_too(compile_options):\n    assert False, 'this runs after the end'\n"
    run, _ = started(tmp_path, "--compile-update-baselines", variables={}, source=SUITE + hangs + body + after)
    run.send_signal(signal.SIGTERM)
    output = run.communicate(timeout=30)[0]
    assert run.returncode == pytest.ExitCode.INTERRUPTED, output
    assert "the process was terminated (SIGTERM)" in output
    assert "this runs after the end" not in output
    (written,) = tmp_path.glob("baselines/*/structure.json")
    assert "test_it.py::test_holds" in written.read_text()


def test_a_second_signal_after_some_time_ends_a_session_that_does_not_end(tmp_path):
    source = "import time\ndef test_holds_on(compile_options):\n"
    source += "    open('started', 'w').write('.')\n"
    source += (
        "    while True:\n        try:\n            time.sleep(60)\n        except BaseException:\n            pass\n"
    )
    run, _ = started(tmp_path, variables={}, source=source)
    run.send_signal(signal.SIGTERM)
    time.sleep(1.5)
    assert run.poll() is None
    run.send_signal(signal.SIGTERM)
    assert run.wait(timeout=30) == -signal.SIGTERM


def test_a_process_that_a_test_forked_ends_at_once(tmp_path):
    (tmp_path / "test_it.py").write_text(
        "import os, signal, time\n"
        "def test_forks(compile_options):\n"
        "    child = os.fork()\n"
        "    if not child:\n"
        "        time.sleep(60)\n"
        "        os._exit(0)\n"
        "    time.sleep(0.2)\n"
        "    os.kill(child, signal.SIGTERM)\n"
        "    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM\n"
    )
    command = [sys.executable, "-m", "pytest", *OPTIONS]
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": SOURCES}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def test_the_next_run_removes_the_folders_of_a_killed_one(tmp_path):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    run, folder = started(tmp_path, variables={"TMPDIR": str(temporary)})
    other, used = started(tmp_path, variables={"TMPDIR": str(temporary)})
    run.kill()
    run.communicate()
    assert Path(folder).is_dir()
    # Of a run that goes on nothing is taken away.
    (tmp_path / "test_it.py").write_text(SUITE)
    command = [sys.executable, "-m", "pytest", *OPTIONS, "-k", "holds"]
    subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": SOURCES, "TMPDIR": str(temporary)}, check=True
    )
    assert not Path(folder).exists()
    assert Path(used).is_dir()
    other.kill()
    other.communicate()


WRITE = """
import os, sys
from pathlib import Path
from typing import Any
from pytest_torch_compile import disk
os.replace = lambda *_: (print("writing", flush=True), sys.stdin.read())
disk.write_atomically(Path(sys.argv[1]), "new")
"""


@pytest.fixture
def half_written(tmp_path, new_interpreters):
    """A file that a process is in the middle of writing, and the process."""
    path = tmp_path / "cpu_torch-2.13" / "speed.json"
    path.parent.mkdir()
    path.write_text("old")
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITE, str(path)],
        env={**os.environ, "PYTHONPATH": SOURCES},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert writer.stdout.readline() == b"writing\n"
    yield path, writer
    writer.kill()
    writer.communicate()


def parts(path: Path) -> int:
    return len(list(path.parent.iterdir())) - 1


def test_the_next_writer_removes_what_a_killed_one_left_and_only_that(half_written):
    path, writer = half_written
    write_atomically(path, "second")
    assert parts(path) == 1
    writer.kill()
    writer.wait()
    assert (path.read_text(), parts(path)) == ("second", 1)
    write_atomically(path, "third")
    assert (path.read_text(), parts(path)) == ("third", 0)


def test_a_run_that_writes_nothing_removes_it_too(half_written, tmp_path):
    path, writer = half_written
    writer.kill()
    writer.wait()
    (tmp_path / "test_it.py").write_text("def test_a():\n    pass\n")
    command = [sys.executable, "-m", "pytest", *OPTIONS, "--compile-perf=gate", f"--compile-baselines={tmp_path}"]
    subprocess.run(command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": SOURCES}, check=True)
    assert (path.read_text(), parts(path)) == ("old", 0)


def test_a_folder_that_another_process_removes_before_it_is_locked_is_made_again(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    make, made = tempfile.mkdtemp, []

    def removed_at_once(**options):
        made.append(make(**options))
        if len(made) == 1:
            os.rmdir(made[0])
        return made[-1]

    monkeypatch.setattr(tempfile, "mkdtemp", removed_at_once)
    with TemporaryFolder("held-") as folder:
        assert folder.is_dir() and [str(folder)] == made[1:]


def test_the_folder_of_a_living_process_is_left_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    first = TemporaryFolder("held-")
    second = TemporaryFolder("held-")
    assert first.path.is_dir() and second.path.is_dir()
    second.remove()
    first.remove()
    assert not list(tmp_path.iterdir())
