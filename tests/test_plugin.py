"""The plugin as a repository meets it: small projects, run by pytest."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from importlib import metadata
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from _pytest.pytester import SysModulesSnapshot  # noqa: E402

from pytest_torch_compile import progress, settings  # noqa: E402

SOURCES = str(Path(settings.__file__).parents[1])
INSTALLED = any(entry.name == "torch_compile" for entry in metadata.entry_points(group="pytest11"))
OPTIONS = ["-p", "no:cacheprovider", *([] if INSTALLED else ["-p", "pytest_torch_compile.plugin"])]

HEAD = """
import pytest, torch

def breaking(x):
    x = x.sin()
    torch._dynamo.graph_break()
    return x.cos()

def changing(x, n):
    return x * n
"""


@pytest.fixture(autouse=True)
def no_worker(monkeypatch):
    """The pytest under test is no worker of pytest-xdist, also where these tests run in one."""
    for variable in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT"):
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def project(pytester, monkeypatch):
    """Run tests of a new project in this process, where torch is loaded already."""
    monkeypatch.setattr(settings, "current", settings.current)
    snapshot = SysModulesSnapshot(preserve=lambda name: not name.startswith(("test_", "conftest")))
    monkeypatch.setattr(pytester, "_Pytester__take_sys_modules_snapshot", lambda: snapshot)
    monkeypatch.setattr(pytester, "_sys_modules_snapshot", snapshot)
    pytester.makeini("[pytest]\ncompile_backend = eager\n")

    def run(source, *options):
        pytester.makepyfile(HEAD + source)
        return pytester.runpytest_inprocess(*OPTIONS, *options)

    run.tester = pytester
    return run


def other_process(folder, *options, environment=()):
    """Run the tests of a folder in a process of their own."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", *OPTIONS, *options],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": SOURCES, "OMP_NUM_THREADS": "1", **dict(environment)},
        capture_output=True,
        text=True,
        check=False,
    )


def lines_with(result, text):
    return [line for line in result.outlines if text in line]


def test_failure_belongs_to_the_test_and_reads_well(project):
    result = project(
        """
def test_break(compile_check):
    compile_check(breaking, torch.ones(4))

def test_after():
    pass
""",
        "--junitxml=junit.xml",
    )
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "E *CompileCheckFailed: breaking does not hold under torch.compile: 1 finding *",
            "E *1. graph-break: graph break 1 of 1, 0 allowed: explicit graph break",
            "E *at *.py:5 in breaking",
            "E *Run again: python -m pytest '*::test_break'",
        ]
    )
    assert not lines_with(result, "symbolic_convert.py")
    assert not lines_with(result, "pytest_torch_compile/check.py")
    cases = {c.get("name"): c for c in ElementTree.parse(project.tester.path / "junit.xml").iter("testcase")}
    assert "graph-break" in cases["test_break"].find("failure").get("message")
    assert cases["test_after"].find("failure") is None


def test_x_stops_at_the_first_failed_check(project):
    source = "def test_break(compile_check):\n    compile_check(breaking, torch.ones(4))\ndef test_after():\n    pass\n"
    project(source, "-x").assert_outcomes(failed=1)


def test_options_come_from_the_call_then_markers_then_the_fixture(project):
    result = project(
        """
@pytest.fixture
def compile_options():
    return {"max_recompiles": 1, "seed": 3}

CALLS = [(torch.ones(2), 2), (torch.ones(2), 3)]

def test_fixture(compile_check):
    assert compile_check(changing, calls=CALLS).budget["max_recompiles"] == 1

@pytest.mark.torch_compile(max_recompiles=2)
def test_marker(compile_check):
    assert compile_check(changing, calls=CALLS).budget["max_recompiles"] == 2

@pytest.mark.torch_compile(max_recompiles=2)
def test_call(compile_check):
    assert compile_check(changing, calls=CALLS, max_recompiles=3).budget["max_recompiles"] == 3

@pytest.mark.torch_compile(max_recompiles=5, max_graph_breaks=4)
class TestMarkers:
    @pytest.mark.torch_compile(max_recompiles=6)
    def test_nearest_wins(self, compile_check):
        assert compile_check(changing, calls=CALLS).budget == {"max_graph_breaks": 4, "max_recompiles": 6}

def test_marker_option_can_come_from_a_variable(compile_check, compile_device):
    assert compile_device == torch.device("cpu")
    assert compile_check(changing, torch.ones(2), 2).backend == "eager"
"""
    )
    result.assert_outcomes(passed=5)


def test_tolerances_fixture_reaches_the_check(project):
    source = """
from pytest_torch_compile import Tolerance, Tolerances

def inexact(gm, example_inputs):
    return lambda *args: [out + 0.01 for out in gm(*args)]

def test_default(compile_check):
    compile_check(torch.sin, torch.ones(4), backend=inexact)

class TestLoose:
    @pytest.fixture
    def compile_tolerances(self):
        return Tolerances(leaves={"output": Tolerance(rtol=0.0, atol=0.1)})

    def test_loose(self, compile_check):
        compile_check(lambda x: x.sin(), torch.ones(4), backend=inexact)
"""
    project(source.replace("torch.sin,", "lambda x: x.sin(),")).assert_outcomes(passed=1, failed=1)


def test_known_failures_are_strict(project):
    result = project(
        """
known = pytest.mark.compile_known_failure
CALLS = [(torch.ones(2), 2), (torch.ones(2), 3)]

@known("breaks")
def test_expected(compile_check):
    compile_check(breaking, torch.ones(4))

@known("breaks", kind="graph-break")
def test_expected_kind(compile_check):
    compile_check(breaking, torch.ones(4))

@known("recompiles", kind=["recompile", "numerics"])
def test_expected_kinds(compile_check):
    compile_check(changing, calls=CALLS)

@known("recompiles", kind="recompile")
def test_other_kind(compile_check):
    compile_check(breaking, torch.ones(4))

@known("used to break")
def test_mended(compile_check):
    compile_check(changing, torch.ones(2), 2)

@known("breaks on this one", torch=">=2.0")
def test_this_torch(compile_check):
    compile_check(breaking, torch.ones(4))

@known("broke on old ones", torch="<2.0")
def test_other_torch(compile_check):
    compile_check(breaking, torch.ones(4))

@known("broke on old ones", torch="<2.0")
def test_other_torch_passes(compile_check):
    compile_check(changing, torch.ones(2), 2)

@known("breaks")
def test_other_exception(compile_check):
    raise AssertionError("not of a check")

@known("breaks")
def test_usage_error(compile_check):
    compile_check(breaking)

@known("first is known", kind="graph-break")
@known("second is known", kind="recompile")
def test_two_markers(compile_check):
    compile_check(changing, calls=CALLS)
""",
        "-rxf",
    )
    result.assert_outcomes(xfailed=5, failed=5, passed=1)
    failed = {line.split("::")[1].split(" ")[0] for line in lines_with(result, "FAILED")}
    assert failed == {"test_other_kind", "test_mended", "test_other_torch", "test_other_exception", "test_usage_error"}
    result.stdout.fnmatch_lines(
        ["known failure no longer fails, remove its compile_known_failure marker: used to break"]
    )
    result.stdout.fnmatch_lines(["XFAIL *::test_two_markers - *second is known"])


@pytest.mark.parametrize(
    ("marker", "text"),
    [
        ("'x', torch='from 2.8'", "*torch='from 2.8'*: write a version specifier like '>=2.8'*"),
        ("'x', kind='graphbreak'", "*kind='graphbreak'* is none of: graph-break, *"),
        ("", "*write @pytest.mark.compile_known_failure(reason, kind=None, torch=None)*"),
        ("'x', when='now'", "*write @pytest.mark.compile_known_failure(reason, kind=None, torch=None)*"),
    ],
)
def test_wrong_marker_is_refused_before_anything_runs(project, marker, text):
    result = project(f"@pytest.mark.compile_known_failure({marker})\ndef test_a():\n    pass\n")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (result.stderr if lines_with_error(result) else result.stdout).fnmatch_lines([text])


def lines_with_error(result):
    return [line for line in result.errlines if "ERROR" in line]


def test_header_and_summary_appear_when_used(project):
    result = project(
        """
def test_good(compile_check):
    compile_check(changing, torch.ones(2), 2)

def test_bad(compile_check):
    compile_check(breaking, torch.ones(4))
    compile_check(breaking, torch.ones(4))

def test_plain():
    pass
"""
    )
    result.stdout.fnmatch_lines([f"torch.compile: torch {torch.__version__}, device *, backend eager, cache session"])
    result.stdout.fnmatch_lines(["*= torch.compile checks =*", "check *graphs *ops *breaks *recompiles *verdict"])
    rows = [line.split() for line in result.outlines if line.rstrip().endswith(("[changing]", "pass", "graph-break"))]
    good, bad = (next(row for row in rows if name in row) for name in ("[changing]", "[breaking]"))
    assert good[2:6] == ["1", "1", "0", "0"]
    assert bad[2:6] == ["2", "2", "1", "0"]
    table = [line for line in result.outlines if line.startswith("check ") or line.rstrip().endswith("graph-break")]
    assert len({line.rindex(" graph-break") for line in table if "graph-break" in line}) == 1


def test_plain_function_in_a_plain_test_has_a_row_too(project):
    result = project(
        "from pytest_torch_compile import check_compile\n"
        "def test_a():\n    check_compile(changing, torch.ones(2), 2, backend='eager')\n"
    )
    result.stdout.fnmatch_lines(["*= torch.compile checks =*", "*[[]changing[]]*pass"])


def test_nothing_is_shown_when_unused(project):
    result = project("def test_a():\n    pass\n")
    result.assert_outcomes(passed=1)
    # pytest itself lists the installed plugins by name.
    shown = [line for line in result.outlines if not line.startswith("plugins:")]
    assert "compile" not in "\n".join(shown).replace("pytest_torch_compile", "")


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_backend_option_reaches_the_check(project, backend):
    source = "def test_a(compile_check, request):\n    from pytest_torch_compile import settings\n"
    source += f"    assert settings.current.backend == {backend!r}\n"
    if backend != "inductor":
        source += f"    assert compile_check(changing, torch.ones(2), 2).backend == {backend!r}\n"
    result = project(source, f"--compile-backend={backend}")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines([f"torch.compile: *backend {backend},*"])


def test_unknown_backend_is_refused(project):
    result = project(
        "def test_a(compile_check):\n    compile_check(changing, torch.ones(2), 2)\n", "--compile-backend=fast"
    )
    result.stdout.fnmatch_lines(["E *CompileUsageError: backend 'fast' is not known to torch*"])


def test_device_option_moves_target_and_inputs(project):
    result = project(
        "def test_a(compile_check, compile_device):\n"
        "    assert compile_device.type == 'cpu'\n"
        "    assert compile_check(torch.nn.Linear(2, 2), torch.ones(2, 2)).device == 'cpu'\n",
        "--compile-device=cpu",
    )
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["torch.compile: *device cpu,*"])


def test_device_that_is_not_there_is_named(project):
    source = "def test_a(compile_check):\n    compile_check(changing, torch.ones(2), 2)\n"
    project(source, "--compile-device=cuda:99").stdout.fnmatch_lines(
        ["E *CompileUsageError: device 'cuda:99' is not there*"]
    )


def test_every_option_has_an_ini_twin(project):
    project.tester.makeini(
        "[pytest]\ncompile_backend = aot_eager\ncompile_device = cpu\ncompile_cache = fresh\ncompile_isolate = false\n"
    )
    result = project(
        "def test_a(compile_check):\n    assert compile_check(changing, torch.ones(2), 2).backend == 'aot_eager'\n"
    )
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["torch.compile: *device cpu, backend aot_eager, cache fresh"])


def test_command_line_wins_over_the_ini_file(project):
    result = project("def test_a(compile_check):\n    pass\n", "--compile-backend=aot_eager")
    result.stdout.fnmatch_lines(["torch.compile: *backend aot_eager,*"])


@pytest.mark.parametrize("key", ["compile_bakend", "compile-backend", "compile_cach"])
def test_typo_in_the_ini_file_is_refused(project, key):
    project.tester.makeini(f"[pytest]\n{key} = eager\n")
    result = project("def test_a():\n    pass\n")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*unknown ini option '{key}': did you mean 'compile_*'?"])


def test_typo_in_pyproject_is_refused(project):
    (project.tester.path / "tox.ini").unlink()
    project.tester.makepyprojecttoml('[tool.pytest.ini_options]\ncompile_bakend = "eager"\n')
    result = project("def test_a():\n    pass\n")
    result.stderr.fnmatch_lines(["*unknown ini option 'compile_bakend': did you mean 'compile_backend'?"])


def test_dynamo_is_reset_between_tests_that_use_the_plugin_and_only_those(project):
    result = project(
        """
compiled_graphs = []

def backend(gm, example_inputs):
    compiled_graphs.append(gm)
    return gm.forward

compiled = torch.compile(lambda x: x.sin(), backend=backend)

def test_a_plain():
    compiled(torch.ones(2))
    assert len(compiled_graphs) == 1

def test_b_plain_keeps_what_was_compiled():
    compiled(torch.ones(2))
    assert len(compiled_graphs) == 1

def test_c_check_starts_with_nothing(compile_options):
    compiled(torch.ones(2))
    assert len(compiled_graphs) == 2

@pytest.mark.torch_compile
def test_d_marker_counts_as_use():
    compiled(torch.ones(2))
    assert len(compiled_graphs) == 3

def test_e_plain_after_a_check_starts_with_nothing():
    compiled(torch.ones(2))
    assert len(compiled_graphs) == 4
"""
    )
    result.assert_outcomes(passed=5)


@pytest.mark.parametrize(("choice", "same"), [("fresh", False), ("session", True), ("kept", True)])
def test_cache_option_chooses_the_folder_and_the_environment_is_put_back(project, monkeypatch, choice, same):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/of/the/user")
    result = project(
        f"""
import os
seen = []

def folder():
    return os.environ["TORCHINDUCTOR_CACHE_DIR"]

def test_a(compile_options):
    seen.append(folder())

def test_b(compile_options):
    assert (folder() == seen[0]) is {same}
    assert os.path.isdir(folder())
    assert folder().endswith("kept") is {choice == "kept"}
""",
        f"--compile-cache={choice}",
    )
    result.assert_outcomes(passed=2)
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == "/of/the/user"
    assert (project.tester.path / "kept").is_dir() is (choice == "kept")


def test_sign_of_life_is_shown_live(project, monkeypatch):
    monkeypatch.setattr(progress, "FIRST_SECONDS", 0.05)
    monkeypatch.setattr(progress, "EVERY_SECONDS", 0.05)
    result = project(
        "import time\ndef test_slow(compile_check):\n    time.sleep(0.4)\ndef test_plain():\n    time.sleep(0.2)\n"
    )
    result.assert_outcomes(passed=2)
    assert len(lines_with(result, "::test_slow: compiling and checking for 0 s")) >= 2
    assert not lines_with(result, "::test_plain: compiling")


def test_suites_work_in_both_styles(project):
    result = project(
        """
import unittest
from pytest_torch_compile import CompileSuite

class Both(CompileSuite):
    shapes = [(2, 4), (3, 4)]
    def make_model(self):
        return torch.nn.Linear(4, 4)
    def make_inputs(self, shape):
        return torch.randn(*shape)

class TestPytest(Both):
    pass

class UnittestCase(Both, unittest.TestCase):
    pass

del Both
"""
    )
    result.assert_outcomes(passed=6)
    assert len(lines_with(result, "[Linear]")) == 6


def test_isolated_test_runs_in_a_process_of_its_own(project):
    source = """
import os
PARENT = {parent}

def test_elsewhere(compile_check):
    assert os.getpid() != PARENT
    compile_check(breaking, torch.ones(4))

def test_here():
    assert os.getpid() == PARENT
"""
    result = project(source.replace("{parent}", str(os.getpid())), "--compile-isolate")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["E *1. graph-break: *", "*[[]breaking[]]*graph-break"])


def test_isolated_process_that_dies_is_a_failed_test(project):
    result = project("import os\ndef test_dies(compile_options):\n    os._exit(7)\n", "--compile-isolate")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*the process of *::test_dies ended with 7 and no report*"])


def test_workers_have_a_cache_folder_each_and_send_their_rows(tmp_path):
    pytest.importorskip("xdist", reason="pytest-xdist is part of the dev extra")
    (tmp_path / "pytest.ini").write_text("[pytest]\ncompile_backend = eager\n")
    (tmp_path / "test_workers.py").write_text(
        HEAD
        + """
import os

@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_good(compile_check, n):
    folder = os.environ["TORCHINDUCTOR_CACHE_DIR"]
    assert folder.endswith(os.path.join("cache", os.environ["PYTEST_XDIST_WORKER"]))
    compile_check(changing, torch.ones(2), n)

def test_bad(compile_check):
    compile_check(breaking, torch.ones(4))
"""
    )
    result = other_process(tmp_path, "-n", "2", "--compile-cache=cache", "--junitxml=junit.xml")
    assert "1 failed, 4 passed" in result.stdout, result.stdout + result.stderr
    assert sum("[changing]" in line for line in result.stdout.splitlines()) == 4
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == ["gw0", "gw1"]
    (suite,) = ElementTree.parse(tmp_path / "junit.xml").iter("testsuite")
    assert (suite.get("failures"), suite.get("errors")) == ("1", "0")


def test_unused_plugin_imports_no_torch_and_says_nothing(tmp_path):
    (tmp_path / "test_a.py").write_text("import sys\ndef test_a():\n    assert 'torch' not in sys.modules\n")
    result = other_process(tmp_path, "-q")
    assert result.returncode == 0, result.stdout
    assert "compile" not in result.stdout
    assert result.stderr == ""


def test_unused_plugin_imports_no_torch_to_collect(tmp_path):
    (tmp_path / "test_a.py").write_text("def test_a():\n    pass\n")
    (tmp_path / "conftest.py").write_text(
        "import sys\ndef pytest_collection_finish(session):\n    assert 'torch' not in sys.modules\n"
    )
    result = other_process(tmp_path, "--collect-only", "-q")
    assert result.returncode == 0, result.stdout + result.stderr
