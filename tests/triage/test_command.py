"""The whole command on a project, with two interpreters."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest

torch = pytest.importorskip("torch")

from pytest_torch_compile.cli import main  # noqa: E402
from tests import preloaded  # noqa: E402

PROJECT = """
import os, pathlib
import pytest
from pytest_torch_compile.events import announce
from pytest_torch_compile.findings import CompileCheckFailed, CompileReport, Finding, Location

NEW = "NEW_TORCH" in os.environ

def check(*findings):
    report = CompileReport("model", "fullgraph", "inductor", "2.13.0", "cpu", findings=list(findings))
    announce(report)
    if findings:
        raise CompileCheckFailed("model failed", report, findings)

BREAK = Finding("graph-break", "one break", Location(__file__, 2, "forward", "print(x)"), "torch says: no")

@pytest.mark.parametrize("size", [1, 2])
def test_breaks_since(size):
    check(*([BREAK] if NEW else []))

class TestKnown:
    def test_fails_on_both(self):
        assert not "wrong"

def test_fails_on_the_old_one_only():
    assert NEW, "old"

def test_now_and_then():
    mark = pathlib.Path("mark")
    if NEW and not mark.exists():
        mark.touch()
        raise OSError("now and then")

def test_passes():
    pass
"""


@pytest.fixture
def interpreters(tmp_path, monkeypatch):
    """A project, this interpreter, and one that knows that it is another."""
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    (tmp_path / "project" / "test_models.py").write_text(PROJECT)
    return ["--old", sys.executable, "--new", preloaded.interpreter(tmp_path / "newer", NEW_TORCH="1")]


def test_command_says_what_fails_since(interpreters, tmp_path, capsys):
    status = main(
        ["torch", *interpreters, "--output", str(tmp_path / "out"), "-p", "no:cacheprovider", "test_models.py"]
    )
    said = capsys.readouterr().out
    assert status == 1, said
    assert "2 new failures in 1 group, 1 gone, 1 known, 1 flaky (6 and 6 tests)" in said
    assert "1. new, 2 tests, dynamo: graph-break: torch says: no at test_models.py in forward" in said
    assert said.count("tests to run again: 4") == 2
    page = (tmp_path / "out" / "triage.md").read_text()
    assert (
        "- `test_models.py::test_breaks_since[1]`" in page and "test_models.py::TestKnown::test_fails_on_both" in page
    )


WITH_A_PRINT = """
import os, torch

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        if self.noisy:
            print("shape", x.shape[0])
        return self.linear(x).relu()

def test_block(compile_check):
    block = Block()
    block.noisy = "NEW_TORCH" in os.environ
    compile_check(block, torch.randn(2, 4), backend="eager")
"""


def test_each_group_has_a_file_that_shows_it(interpreters, tmp_path, capsys):
    (tmp_path / "project" / "test_models.py").write_text(WITH_A_PRINT)
    status = main(["torch", *interpreters, "--output", str(tmp_path / "out"), "-p", "no:cacheprovider", "-n", "0"])
    said = capsys.readouterr().out
    assert status == 1, said
    (file,) = (tmp_path / "out" / "reproductions" / "new").glob("*.py")
    assert f"reproduction: {file}" in said
    ended = subprocess.run([sys.executable, "-I", str(file)], capture_output=True, text=True, check=False)
    assert ended.returncode == 1 and "AssertionError: graph-break" in ended.stderr
    assert "class Block(torch.nn.Module)" in (tmp_path / "out" / "triage.md").read_text()


ENDS = """
import os, pytest

def test_ends_the_process():
    if "NEW_TORCH" in os.environ:
        os._exit(1)

def test_after_it():
    assert "NEW_TORCH" not in os.environ
"""


@pytest.mark.parametrize("workers", [True, False])
def test_test_that_ends_its_process_is_no_pass(workers, interpreters, tmp_path, capsys):
    (tmp_path / "project" / "test_models.py").write_text(ENDS)
    arguments = [] if workers else ["-p", "no:xdist", "-p", "no:benchmark"]
    status = main(["torch", *interpreters, "--output", str(tmp_path / "out"), "-p", "no:cacheprovider", *arguments])
    said = capsys.readouterr()
    if workers:
        assert status == 1 and "2 new failures in 2 groups" in said.out, said
        assert "crash: the test terminated its process at test_models.py" in said.out
    else:
        assert status == 2 and "during test_models.py::test_ends_the_process or the next test" in said.err


SKIPS = """
import os, pytest

@pytest.mark.skipif("NEW_TORCH" in os.environ, reason="no device")
def test_skipped_since():
    pass

def test_passes():
    pass
"""


def test_tests_that_no_longer_run_are_counted_and_first_failures_do_not_hide_the_rest(interpreters, tmp_path, capsys):
    (tmp_path / "project" / "test_models.py").write_text(SKIPS)
    arguments = ["--output", str(tmp_path / "out"), "-p", "no:cacheprovider", "-n", "0", "test_models.py"]
    assert main(["torch", *interpreters, *arguments]) == 0
    assert "1 test ran with torch" in capsys.readouterr().out
    assert main(["torch", *interpreters, *arguments, "-k", "skipped"]) == 2
    assert "no test ran under torch" in capsys.readouterr().err
    (tmp_path / "project" / "test_models.py").write_text(PROJECT)
    main(["torch", *interpreters, *arguments, "-x"])
    assert "2 new failures in 1 group, 1 gone, 1 known, 1 flaky (6 and 6 tests)" in capsys.readouterr().out


def test_command_works_below_the_root_of_the_project(interpreters, tmp_path, capsys, monkeypatch):
    (tmp_path / "project" / "pytest.ini").write_text("[pytest]\n")
    folder = tmp_path / "project" / "tests"
    folder.mkdir()
    (tmp_path / "project" / "test_models.py").rename(folder / "test_models.py")
    monkeypatch.chdir(folder)
    status = main(["torch", *interpreters, "--output", str(tmp_path / "out"), "-p", "no:cacheprovider", "-n", "0"])
    said = capsys.readouterr()
    assert status == 1 and "2 new failures in 1 group, 1 gone, 1 known, 1 flaky" in said.out, said


def test_many_tests_can_be_named(interpreters, tmp_path, capsys):
    many = f"import os, pytest\n\nclass Test{'Long' * 120}:\n    @pytest.mark.parametrize('n', range(280))\n"
    many += "    def test_many(self, n):\n        assert not os.environ.get('NEW_TORCH')\n"
    (tmp_path / "project" / "test_models.py").write_text(many)
    status = main(["torch", *interpreters, "--output", str(tmp_path / "out"), "-p", "no:cacheprovider", "-n", "0"])
    assert status == 1 and "280 new failures in 1 group" in capsys.readouterr().out


def test_nothing_new_is_status_0(interpreters, tmp_path):
    arguments = ["--output", str(tmp_path / "out"), "-p", "no:cacheprovider", "-n", "0", "-k", "passes or both"]
    assert main(["torch", *interpreters, *arguments]) == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--old", "nowhere", "--new", sys.executable], "neither a torch release"),
        (["--old", sys.executable, "--new", sys.executable, "--bisect"], "there are no releases to bisect"),
        (["--old", sys.executable, "--new", sys.executable, "no_such_file.py"], "under torch"),
        (["--old", sys.executable, "--new", "nowhere", "--bisect"], "neither a torch release"),
    ],
)
def test_what_cannot_be_compared_is_one_line(arguments, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["torch", *arguments]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1 and said in lines[0]


HANGS = """
import os, time

def test_before_it():
    pass

def test_hangs():
    if "NEW_TORCH" in os.environ:
        open("hangs", "w").close()
        time.sleep(600)
"""


def test_hanging_test_ends_the_command(interpreters, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("pytest_torch_compile.child.PROGRESS_SECONDS", 0.2)
    monkeypatch.setattr("pytest_torch_compile.triage.runs.STUCK_SECONDS", 600.0)

    def lower_the_limit_once_the_test_hangs():
        while not (tmp_path / "project" / "hangs").exists():
            time.sleep(0.1)
        monkeypatch.setattr("pytest_torch_compile.triage.runs.STUCK_SECONDS", 1.0)

    (tmp_path / "project" / "test_models.py").write_text(HANGS)
    threading.Thread(target=lower_the_limit_once_the_test_hangs, daemon=True).start()
    assert main(["torch", *interpreters, "--output", str(tmp_path / "out"), "-p", "no:cacheprovider"]) == 2
    said = capsys.readouterr()
    assert (
        f"no test finished for 0 minutes under torch {torch.__version__.partition('+')[0]}, after 1 of 2 tests."
        in said.err
    )
    assert (
        "Still running: test_models.py::test_hangs. To stop a check that hangs, use --compile-timeout=SECONDS"
        in said.err
    )
