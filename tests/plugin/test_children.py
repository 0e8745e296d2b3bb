"""A process that this one starts runs the same tests in the same way: what it takes over, and what it leaves to us."""

from __future__ import annotations

import json

import pytest

torch = pytest.importorskip("torch")

from tests.plugin.projects import HEAD, lines_with, other_process  # noqa: E402

SIZES = """
def test_sizes(compile_check):
    compile_check(changing, calls=[(torch.ones(4), n) for n in {}], max_recompiles=2)
"""


@pytest.mark.parametrize("folder", ["baselines", "elsewhere"])
def test_gate_holds_for_isolated_tests_too(project, folder):
    place = f"--compile-baselines={folder}"
    project(SIZES.format("(1,)"), "--compile-update-baselines", place).assert_outcomes(passed=1)
    result = project(SIZES.format("(1, 2)"), "--compile-perf=gate", "--compile-isolate", place)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E *recompile: 1 recompiles, the baseline has 0"])


def test_baselines_of_isolated_tests_are_written_once_by_the_parent(project):
    result = project(SIZES.format("(1,)"), "--compile-update-baselines", "--compile-isolate")
    result.assert_outcomes(passed=1)
    assert len(lines_with(result, "structure.json: 1 entries changed")) == 1
    (path,) = (project.tester.path / "baselines").glob("cpu_torch-*/structure.json")
    assert [entry["fullname"].partition("::")[2] for entry in json.loads(path.read_text())["tests"]] == ["test_sizes"]


@pytest.mark.parametrize(
    "addopts",
    ["-n 2", "--lf", "--junitxml=junit.xml -s", "--basetemp=kept --maxfail=3"],
    ids=lambda text: text.split()[0],
)
def test_isolated_test_runs_whatever_addopts_ask_for(tmp_path, addopts):
    pytest.importorskip("xdist")
    (tmp_path / "pytest.ini").write_text(f"[pytest]\ncompile_backend = eager\naddopts = {addopts}\n")
    (tmp_path / "test_a.py").write_text(
        HEAD
        + """
import os
PARENT = os.environ.setdefault("OF_THE_PARENT", str(os.getpid()))

def test_elsewhere(compile_check, tmp_path):
    assert PARENT != str(os.getpid())
    compile_check(changing, torch.ones(2), 2)
    (tmp_path / "file").touch()

def test_here(tmp_path):
    (tmp_path / "file").touch()
"""
    )
    result = other_process(tmp_path, "-p", "cacheprovider", "--compile-isolate")
    assert "2 passed" in result.stdout, result.stdout + result.stderr
    if "junit" in addopts:
        assert (tmp_path / "junit.xml").read_text().count("<testcase") == 2
