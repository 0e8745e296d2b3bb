"""A process that this one starts runs the same tests in the same way: what it takes over, and what it leaves to us."""

from __future__ import annotations

import json
import sys
from fnmatch import fnmatch
from pathlib import Path
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from pytest_torch_compile.child import Child, Ended, Job  # noqa: E402
from tests.plugin.projects import HEAD, OPTIONS, SOURCES, lines_with, other_process  # noqa: E402

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
    result.stdout.fnmatch_lines(["*recompile: 1 recompiles, but the baseline has 0"])


def test_baselines_of_isolated_tests_are_written_once_by_the_parent(project):
    result = project(SIZES.format("(1,)"), "--compile-update-baselines", "--compile-isolate")
    result.assert_outcomes(passed=1)
    assert len(lines_with(result, "structure.json: 1 entry changed")) == 1
    (path,) = (project.tester.path / "baselines").glob("cpu_torch-*/structure.json")
    assert [entry["fullname"].partition("::")[2] for entry in json.loads(path.read_text())["tests"]] == ["test_sizes"]


@pytest.mark.parametrize(
    "addopts",
    [
        "-n 2",
        "--junitxml=junit.xml -s",
        pytest.param("--lf", marks=pytest.mark.slow),
        pytest.param("--basetemp=kept --maxfail=3", marks=pytest.mark.slow),
    ],
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


# A test that runs itself once more in a child, and shows there what the child took over.
REPEATED = """
import os
import warnings
import pytest
from pytest_torch_compile.plugin.in_child import child_for

@pytest.mark.parametrize("path", ["a//b::c"])
@pytest.mark.filterwarnings("default::ResourceWarning")
def test_repeated(request, path, tmp_path):
    option = request.config.option
    if "SECOND" in os.environ:
        assert request.config.getoption("--size", None) in (None, "big")
        assert option.xmlpath is None and not option.usepdb and not getattr(option, "numprocesses", 0)
        assert [item.name for item in request.session.items] == [request.node.name]
        assert request.config.getini("compile_cache") == os.environ.get("CACHE")
    else:
        ended = child_for(request.node).run({"SECOND": "1"}, 120)
        assert [report["outcome"] for report in ended.results] == ["passed"] * 3, ended.output
        assert {report["nodeid"] for report in ended.results} == {request.node.nodeid}

def test_of_the_parent_only():
    assert "SECOND" not in os.environ
"""
CONFTEST = """
def pytest_addoption(parser):
    parser.addoption("--size")

def pytest_collection_modifyitems(items):
    del items[2:]
"""


@pytest.mark.parametrize(
    ("arguments", "variables"),
    [
        (["inner", "--size=big"], {}),
        (["inner", "-k", "repeated", "-m", "not slow", "--strict-markers", "-W", "error"], {}),
        (["inner", "--deselect", "inner/test_a.py::test_of_the_parent_only", "--import-mode=importlib"], {}),
        (["inner", "-o", "compile_cache=kept", "--confcutdir=inner"], {"CACHE": "kept"}),
        (["-c", "other.ini", "--rootdir=."], {"CACHE": "other"}),
        (["inner", "-p", "cacheprovider", "--lf", "--pdb", "--junitxml=junit.xml", "--basetemp=base"], {}),
        (["inner"], {"PYTEST_ADDOPTS": "--size=big -n2"}),
        (["inner", "-p", "pytest_torch_compile.action.shard"], {"PYTEST_TORCH_COMPILE_SHARD": "2/2"}),
    ],
    ids=["conftest", "selection", "deselect", "ini", "other ini", "files", "environment", "shard"],
)
def test_child_repeats_the_command_line(tmp_path, arguments, variables):
    pytest.importorskip("xdist")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = slow\n")
    (tmp_path / "other.ini").write_text("[pytest]\ncompile_cache = other\ntestpaths = inner\n")
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "conftest.py").write_text(CONFTEST)
    (tmp_path / "inner" / "test_a.py").write_text(REPEATED)
    result = other_process(tmp_path, *arguments, environment=variables)
    assert result.returncode == 0, result.stdout + result.stderr
    assert not list(tmp_path.glob("base/*/file"))


def test_child_starts_where_its_parent_did(tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "conftest.py").write_text(CONFTEST)
    (inner / "test_a.py").write_text(REPEATED.replace("option =", f"assert os.getcwd() == {str(inner)!r}; option ="))
    result = other_process(inner, "test_a.py", "--size=big")
    assert result.returncode == 0, result.stdout + result.stderr


def test_processes_that_the_test_of_a_child_starts_are_no_children(tmp_path):
    (tmp_path / "test_a.py").write_text(
        "import os\nfrom pytest_torch_compile import child\n"
        "def test_a(compile_options):\n    assert child.VARIABLE not in os.environ and child.take_job() is None\n"
    )
    assert "1 passed" in other_process(tmp_path, "--compile-isolate").stdout


def test_isolated_test_that_dies_is_a_failure_in_the_report(project):
    source = "import os\ndef test_dies(compile_options):\n    os._exit(7)\n"
    project(source, "--compile-isolate", "--compile-report=out").assert_outcomes(failed=1)
    (entry,) = json.loads((project.tester.path / "out" / "report.json").read_text())["tests"]
    assert entry["outcome"] == "failed" and "exited with status 7" in entry["message"]


def test_flag_of_the_ini_file_can_be_switched_off_in_a_child(project):
    project.tester.makeini("[pytest]\ncompile_update_baselines = true\n")
    source = """
from pytest_torch_compile import settings
from pytest_torch_compile.plugin import options

def test_a(request):
    assert settings.current.update_baselines
    request.config.option.compile_update_baselines = False
    assert not options.read(request.config).update_baselines
"""
    project(source).assert_outcomes(passed=1)


def test_gate_of_an_isolated_test_allows_for_all_speed_tests_of_the_run(project):
    pytest.importorskip("pytest_benchmark")
    source = """
from pytest_torch_compile.plugin import in_child

def test_a(compile_benchmark, request):
    assert in_child.is_child(request.config) and in_child.speed_tests(request.node) == 3

def test_b(compile_benchmark):
    pass

def test_c(compile_benchmark):
    pass
"""
    project(source, "--compile-isolate").assert_outcomes(passed=3)


@pytest.mark.parametrize("workers", [0, 2])
def test_options_that_a_child_is_for_reach_its_workers(tmp_path, workers):
    (tmp_path / "test_it.py").write_text(
        "def test_asks(request):\n    assert request.config.getoption('--compile-repro') == 'files'\n"
    )
    job = Job(["test_it.py::test_asks"], {"numprocesses": workers, "dist": "load", "compile_repro": "files"})
    ended = Child([*OPTIONS, "-q", "test_it.py"], tmp_path, job).run({"PYTHONPATH": SOURCES})
    assert ended.status == 0, ended.output


USAGE = """ERROR: usage: __main__.py [options] [file_or_dir] [file_or_dir] [...]
__main__.py: error: unrecognized arguments: --compile-perf=track
  inifile: None
  rootdir: /repository
"""
TWICE = f"""Traceback (most recent call last):
  File "plugin.py", line 1, in register
ValueError: Plugin already registered under a different name: plugin=<module 'plugin'>
{{{"'name': <module 'name'>, " * 100}}}
"""
PASSED = "E   ValueError: no\nValueError: printed by a test\n==== 1 failed, 2 passed in 3.10s ====\n"


@pytest.mark.parametrize(
    ("ended", "summary"),
    [
        (Ended(4, USAGE), "__main__.py: error: unrecognized arguments: --compile-perf=track"),
        (
            Ended(1, TWICE),
            "ValueError: Plugin already registered under a different name: plugin=<module 'plugin'>",
        ),
        (Ended(1, PASSED), "==== 1 failed, 2 passed in 3.10s ===="),
        (Ended(None, "ValueError: printed\nit took longer than 9 s"), "it took longer than 9 s"),
        (Ended(0, "x" * 1000), "x" * 300),
        (Ended(-9, ""), "exit status -9, no output"),
    ],
    ids=["usage", "plugin registered twice", "summary of pytest", "time limit", "long line", "killed"],
)
def test_summary_is_the_error_if_pytest_could_not_run(ended, summary):
    assert ended.summary == summary


@pytest.mark.parametrize("given", [".coverage", "data/of_coverage", "/elsewhere/.coverage"])
def test_child_has_a_coverage_file_that_its_parent_combines_with_its_own(tmp_path, monkeypatch, given):
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho "$COVERAGE_FILE"\n')
    python.chmod(0o755)
    monkeypatch.setenv("COVERAGE_FILE", given)
    current = SimpleNamespace(get_option={"run:data_file": given}.get)
    monkeypatch.setitem(sys.modules, "coverage", SimpleNamespace(Coverage=SimpleNamespace(current=lambda: current)))

    def file() -> Path:
        return Path(Child([], tmp_path, python=str(python)).run().output.strip())

    files = {file() for _ in range(2)}
    assert len(files) == 2
    assert {one.parent for one in files} == {(tmp_path / given).parent}
    assert all(fnmatch(one.name, f"{Path(given).name}.*") for one in files)  # what coverage combines
    current = None
    assert file() == Path(given)
    monkeypatch.setitem(sys.modules, "coverage", SimpleNamespace())  # a module of the project
    assert file() == Path(given)
