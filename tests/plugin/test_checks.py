"""A check in a test: its failure, its options, its row in the summary."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree

import pytest
from packaging.version import Version

torch = pytest.importorskip("torch")

from pytest_torch_compile import call  # noqa: E402
from pytest_torch_compile import events as progress  # noqa: E402
from pytest_torch_compile._torch import deviations  # noqa: E402
from pytest_torch_compile.legs.converted import on_device  # noqa: E402
from tests.plugin.projects import HEAD, OPTIONS, lines_with  # noqa: E402


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
            "E *CompileCheckFailed: breaking failed the torch.compile check: 1 finding *",
            "E *1. graph-break: graph break 1 of 1, 0 allowed: explicit graph break",
            "E *at *.py:5 in breaking",
            "E *Run again: python -m pytest '*::test_break'",
        ]
    )
    assert not lines_with(result, "symbolic_convert.py")
    assert not lines_with(result, "pytest_torch_compile/check/check_compile.py")
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


def test_sign_of_life_is_shown_live(project, monkeypatch):
    monkeypatch.setattr(progress, "FIRST_SECONDS", 0.05)
    monkeypatch.setattr(progress, "EVERY_SECONDS", 0.05)
    result = project(
        "import time\ndef test_slow(compile_check):\n    time.sleep(0.4)\ndef test_plain():\n    time.sleep(0.2)\n"
    )
    result.assert_outcomes(passed=2)
    assert len(lines_with(result, "::test_slow: compiling and checking for 0 s")) >= 2
    assert not lines_with(result, "::test_plain: compiling")


def test_sign_of_life_of_a_worker_is_shown_live(project, monkeypatch):
    project.tester.makeconftest(
        "from pytest_torch_compile import events\nevents.FIRST_SECONDS = events.EVERY_SECONDS = 0.05\n"
    )
    project.tester.makepyfile("import time\ndef test_slow(compile_check):\n    time.sleep(1)\n")
    result = project.tester.runpytest_subprocess("-n", "1")
    result.assert_outcomes(passed=1)
    shown = [line for line in result.errlines if "::test_slow: compiling and checking for " in line]
    assert 2 <= len(shown) <= 6, "a fourth as often as in one process"
    assert all(line.startswith("[gw0] ") for line in shown)


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


def test_what_torch_did_not_show_is_said_although_the_check_passed(project, monkeypatch):
    monkeypatch.setattr("pytest_torch_compile._torch.support.NEWEST", Version("2.5"))
    result = project(
        """
@pytest.mark.parametrize("n", [1, 2])
def test_a(compile_check, n):
    compile_check(changing, torch.ones(2), n)
"""
    )
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["Not observable in 2 checks: torch * is newer than 2.5, *"])


@pytest.mark.parametrize("option", [[], ["--compile-device=cpu"]], ids=str)
def test_keywords_of_the_target_pass_on_every_device(project, option):
    result = project(
        """
class Scale(torch.nn.Module):
    def forward(self, x, scale=1.0, *, mask=None):
        return x.sin() * scale + mask

def test_a(compile_check):
    report = compile_check(Scale(), torch.ones(2), scale=2.0, mask=torch.ones(2), max_recompiles=1)
    assert report.budget["max_recompiles"] == 1
    assert report.device == WHERE

def test_both_know_it(compile_check):
    compile_check(lambda x, mode: x.sin(), torch.ones(2), mode="bicubic")
""".replace("WHERE", repr(option[0].partition("=")[2] if option else "cpu")),
        *option,
    )
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["E *CompileUsageError: mode is an option of check_compile and an argument of*"])


def test_options_of_the_settings_are_no_arguments_of_the_target(project):
    result = project(
        """
def takes(x, backend="mine", tolerances=None, seed=3):
    return x.sin() + seed

@pytest.mark.torch_compile(seed=5)
def test_a(compile_check):
    compile_check(takes, torch.ones(2))
"""
    )
    result.assert_outcomes(passed=1)


@pytest.mark.parametrize("fixture", ["compile_check", "compile_benchmark"])
def test_unknown_option_of_a_marker_or_a_fixture_names_the_test(project, fixture):
    pytest.importorskip("pytest_benchmark")
    result = project(
        f"""
@pytest.fixture
def compile_options(request):
    return {{"max_graphbreaks": 1}} if "wrong" in request.node.name else {{}}

@pytest.mark.torch_compile(max_recompile=1)
def test_marker({fixture}):
    pass

@pytest.mark.torch_compile(1)
def test_number({fixture}):
    pass

def test_wrong_fixture({fixture}):
    pass

@pytest.mark.torch_compile(fullgraph=False, dynamic=True)
def test_right({fixture}):
    pass
"""
    )
    result.assert_outcomes(passed=1, errors=3)
    result.stdout.fnmatch_lines_random(
        [
            "E *the marker torch_compile of *::test_marker: max_recompile is not an option of *; did you mean max_recompiles?",
            "E *::test_number: the marker torch_compile accepts only keyword arguments: *",
            "E *compile_options of *::test_wrong_fixture: max_graphbreaks is not an option of *; did you mean *breaks?",
        ]
    )


def test_dynamic_marks_move_with_the_inputs():
    x = torch.ones(4)
    torch._dynamo.mark_dynamic(x, 0)
    with on_device(None, [call(x)], "meta") as (moved,):
        assert moved.args[0].device.type == "meta"
        assert moved.args[0]._dynamo_dynamic_indices == {0}


def test_device_without_values_is_refused(project):
    result = project(
        "def test_a(compile_check):\n    compile_check(torch.nn.Linear(4, 4), torch.ones(2, 4))\n",
        "--compile-device=meta",
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*CompileUsageError: the model and its inputs are on the meta device*"])


def test_remarks_stand_below_the_table(project):
    result = project(
        """
@pytest.mark.torch_compile(accepted_breaks=["gb-gone"])
@pytest.mark.parametrize("n", [1, 2])
def test_a(compile_check, n):
    compile_check(changing, torch.ones(n), n)
"""
    )
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["Note in 2 checks: accepted_breaks: gb-gone matched no graph break in this check"])


def test_setting_that_an_earlier_test_left_is_named_with_that_test(project):
    before = torch._dynamo.config.disable
    try:
        result = project(
            """
def test_leaks():
    torch._dynamo.config.disable = True

def test_between():
    pass

def test_victim(compile_check):
    compile_check(changing, torch.ones(2), 2)
"""
        )
    finally:
        torch._dynamo.config.disable = before
    result.assert_outcomes(passed=2, failed=1)
    found = "torch._dynamo.config.disable is True (torch's default: False), left by *.py::test_leaks"
    result.stdout.fnmatch_lines([f"E *cause: {found}", "E *Settings that differ from torch's defaults:", f"E *{found}"])


COMPILED = """
import torch
compiled = torch.compile(lambda x: x.sin() + 1, backend="eager")
"""
GUARDED = """
from pytest_torch_compile import compile_guard

def guarded(function, *sizes, **budget):
    with compile_guard(**budget) as seen:
        for size in sizes:
            function(torch.ones(size))
    return len(seen.graphs), len(seen.recompiles)
"""


def test_guard_does_not_depend_on_what_earlier_tests_compiled(project):
    tests = """
def test_first():
    compiled(torch.ones(4))
    compiled(torch.ones(5))

def test_guarded():
    assert guarded(compiled, 4, 5, max_recompiles=1) == (2, 1)

def test_guarded_again():
    assert guarded(compiled, 4, 5, max_recompiles=1) == (2, 1)
"""
    project(COMPILED + GUARDED + tests).assert_outcomes(passed=3)


def test_guard_in_a_helper_of_another_module_does_not_depend_on_earlier_tests(project):
    project.tester.makepyfile(helping="import torch\n" + GUARDED)
    project.tester.syspathinsert()
    tests = """
def test_first():
    compiled(torch.ones(4))
    compiled(torch.ones(5))

def test_guarded():
    import helping
    assert helping.guarded(compiled, 4, 5, max_recompiles=1) == (2, 1)

def test_unguarded():
    assert not torch._dynamo.convert_frame.input_codes.seen
"""
    project(COMPILED + tests).assert_outcomes(passed=3)


@pytest.mark.parametrize("imported", ["import helping", "from pytest_torch_compile import compile_guard"])
def test_guard_keeps_what_its_own_test_compiled(project, imported):
    project.tester.makepyfile(helping="import torch\n" + GUARDED)
    project.tester.syspathinsert()
    tests = f"""
{imported}

def other(x):
    return x.cos() * 2

def test_first():
    compiled(torch.ones(4))

def test_warm():
    import helping
    warm = torch.compile(other, backend="eager")
    warm(torch.ones(4))
    assert helping.guarded(warm, 4, 5, max_recompiles=1) == (1, 1)
"""
    project(COMPILED + tests).assert_outcomes(passed=2)


def test_guard_keeps_what_its_own_test_compiled_after_a_reset(project):
    project.tester.makepyfile(helping="import torch\n" + GUARDED)
    project.tester.syspathinsert()
    tests = """
def other(x):
    return x.cos() * 2

def test_first():
    compiled(torch.ones(4))

def test_as_many_functions_as_before():
    import helping
    torch.compiler.reset()
    warm = torch.compile(other, backend="eager")
    warm(torch.ones(4))
    assert helping.guarded(warm, 4, 5, max_recompiles=1) == (1, 1)
"""
    project(COMPILED + tests).assert_outcomes(passed=2)


def test_tests_without_a_guard_keep_what_earlier_ones_compiled(project):
    tests = """
graphs = []
compiled = torch.compile(lambda x: x.sin(), backend=lambda graph, inputs: graphs.append(graph) or graph.forward)

def test_first():
    compiled(torch.ones(4))

def test_second():
    compiled(torch.ones(4))
    assert len(graphs) == 1
"""
    project(tests).assert_outcomes(passed=2)


def test_marker_takes_a_limit_of_breaks_by_package(project):
    result = project(
        """
        def loud(x):
            print("own")
            return x.sin()


        @pytest.mark.torch_compile(max_graph_breaks={"OWN": 0, "*": 3})
        def test_own(compile_check):
            compile_check(loud, torch.ones(3))


        @pytest.mark.torch_compile(max_graph_breaks={"mypackage": 0, "*": 3})
        def test_other(compile_check):
            compile_check(loud, torch.ones(3))
        """.replace("\n        ", "\n").replace("OWN", "test_marker_takes_a_limit_of_breaks_by_package")
    )
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*graph break 1 of 1 in test_marker_takes_a_limit_of_breaks_by_package, 0 allowed: *"])


@pytest.mark.parametrize("imported", ["at the top", "in a test"])
def test_library_that_changes_a_setting_is_named_and_no_test(project, imported, monkeypatch):
    library = f"library_{imported.replace(' ', '_')}"  # each is imported once
    project.tester.makepyfile(**{library: "import torch\n\ntorch._dynamo.config.disable = True\n"})
    monkeypatch.syspath_prepend(project.tester.path)
    before, line = torch._dynamo.config.disable, f"import {library}\n"
    # Before the first test nothing was noted; before a later one all that was imported by then.
    monkeypatch.setattr(deviations, "_imported", set() if imported == "at the top" else set(sys.modules))
    monkeypatch.setattr(deviations, "_left_by", {})
    try:
        result = project(
            f"""
{line if imported == "at the top" else ""}
def test_first():
    {line}

def test_victim(compile_check):
    compile_check(changing, torch.ones(2), 2)
"""
        )
    finally:
        torch._dynamo.config.disable = before
        sys.modules.pop(library, None)
    result.assert_outcomes(passed=1, failed=1)
    found = f"torch._dynamo.config.disable is True (torch's default: False), set when {library} was imported (*.py:3)"
    result.stdout.fnmatch_lines([f"*{found}*"])
    result.stdout.no_fnmatch_line("*left by*")


def test_fixture_that_forgets_to_return_its_options_is_named(project):
    result = project("@pytest.fixture\ndef compile_options():\n    {}\n\ndef test_a(compile_check):\n    pass\n")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["E *the fixture compile_options of *::test_a returns None, but it must return a dict*"]
    )


def test_command_to_run_again_starts_in_the_folder_where_pytest_started(project, monkeypatch):
    tester = project.tester
    package = tester.mkdir("package")
    (package / "pytest.ini").write_text("[pytest]\ncompile_backend = eager\n")
    (package / "test_b.py").write_text(
        f"{HEAD}def test_b(compile_check):\n    compile_check(breaking, torch.ones(2))\n"
    )
    result = tester.runpytest_inprocess(*OPTIONS, "package")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*Run again: python -m pytest 'package/test_b.py::test_b'"])


def test_command_to_run_again_repeats_the_options_that_change_results(project):
    project.tester.makeini("[pytest]\ncompile_timeout = 90\n")
    result = project(
        "def test_a(compile_check):\n    compile_check(breaking, torch.ones(2))\n",
        "--compile-device=cpu",
        "--compile-fast",
        "--compile-diagnose=off",
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*Run again: python -m pytest '*::test_a' --compile-device=cpu --compile-fast"])
