"""A failure shows the user's line, not ours."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

OURS = "*pytest_torch_compile*.py:*"


@pytest.mark.parametrize(
    "line",
    [
        "compile_check(3, torch.ones(2))",
        "compile_check(changing, torch.ones(2), calls=[(torch.ones(2),)])",
        "compile_check(changing, torch.ones(2), 2, backend='unknown')",
        "compile_check(changing, torch.ones(2), 2, max_recompiles=-1)",
        "compile_check(breaking, torch.ones(2), 2)",
        "compile_check(breaking, torch.ones(2))",
        "check_compile(breaking, torch.ones(2))",
        "with compile_guard():\n        pass",
        "with compile_guard(max_graph_breaks=-1):\n        pass",
    ],
)
def test_frames_of_ours_are_left_out(project, line):
    source = "from pytest_torch_compile import check_compile, compile_guard\n\n"
    result = project(f"{source}def test_a(compile_check):\n    {line}\n")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f">       {line.splitlines()[0]}"])
    result.stdout.no_fnmatch_line(OURS)
    result.stdout.no_fnmatch_line("*contextlib.py:*")


def test_test_case_of_unittest_is_no_exception(project):
    result = project(
        "import unittest\nfrom pytest_torch_compile import check_compile\n\n"
        "class TestA(unittest.TestCase):\n    def test_a(self):\n        check_compile(3, torch.ones(2))\n"
    )
    result.assert_outcomes(failed=1)
    result.stdout.no_fnmatch_line(OURS)


def test_full_trace_shows_all(project):
    result = project("def test_a(compile_check):\n    compile_check(3, torch.ones(2))\n", "--full-trace")
    result.stdout.fnmatch_lines(["*check_compile.py:*"])


def test_error_that_is_no_finding_keeps_its_frames(project):
    result = project(
        "def test_a(compile_check):\n    compile_check(changing, torch.ones(2), 2, compile=lambda f: 1 / 0)\n"
    )
    result.stdout.fnmatch_lines([OURS])


@pytest.mark.parametrize(
    "line",
    [
        "check_artifact(Fixed(), calls=[torch.ones(3), torch.ones(5)], via='export')",
        "check_invariance(lambda x: x - x.mean(0), torch.randn(4, 3), over='batch')",
        "check_compile(breaking, torch.ones(2))",
    ],
)
def test_events_of_torch_are_no_part_of_the_captured_log(project, line):
    result = project(
        "from pytest_torch_compile import check_artifact, check_compile, check_invariance\n\n"
        "class Fixed(torch.nn.Module):\n    def forward(self, x):\n        return x.sin()\n\n"
        f"def test_a():\n    {line}\n"
    )
    result.assert_outcomes(failed=1)
    result.stdout.no_fnmatch_line("*torch.__trace*")


INVALID = "max_recompiles is '1'; it must be a non-negative integer"


@pytest.mark.parametrize(
    ("marker", "argument"), [("torch_compile(max_recompiles='1')", ""), ("torch_compile()", ", max_recompiles='1'")]
)
def test_invalid_value_of_an_option_is_shown_at_the_call(project, marker, argument):
    line = f"compile_check(torch.sin, torch.ones(2){argument})"
    result = project(f"import pytest\n\n@pytest.mark.{marker}\ndef test_a(compile_check):\n    {line}\n")
    result.stdout.fnmatch_lines([f">       {line}", f"E *CompileUsageError: {INVALID}", "", "test_*.py:*: *"])
    result.stdout.no_fnmatch_line("*dataclasses.py*")


@pytest.mark.parametrize(
    ("marker", "option", "message"),
    [
        ("torch_compile(nope=1)", "", "the marker torch_compile of test_*::test_a: nope is not an option of *"),
        ("torch_compile()", "--compile-cache=tox.ini", "the compile cache folder *tox.ini cannot be created: *"),
    ],
)
def test_usage_error_outside_all_user_code_is_one_line_at_the_test(project, marker, option, message):
    source = f"import pytest\n\n@pytest.mark.{marker}\ndef test_a(compile_check):\n    pass\n"
    result = project(source, *filter(None, [option]))
    hidden = "All traceback entries are hidden.*"
    lines = ["*ERROR at setup of test_a*", f"E *CompileUsageError: {message}", hidden, "*torch.compile checks*"]
    result.stdout.fnmatch_lines(lines, consecutive=True)
    (report,) = result.reprec.getfailures()
    test = project.tester.path / report.location[0]
    assert report.longrepr.reprcrash.path == str(test)
    assert "test_a" in test.read_text().splitlines()[report.longrepr.reprcrash.lineno]


def test_error_in_a_fixture_of_the_user_is_shown_at_its_line(project):
    result = project(
        "import pytest\nfrom pytest_torch_compile import check_compile\n\n"
        "@pytest.fixture\ndef made():\n    check_compile(3, torch.ones(2))\n\ndef test_a(made):\n    pass\n"
    )
    result.stdout.fnmatch_lines([">       check_compile(3, torch.ones(2))"])


@pytest.mark.parametrize("base", ["", "unittest.TestCase"])
@pytest.mark.parametrize("shapes", ["[(2,)]", "[]"])
def test_failure_of_a_suite_starts_at_its_test(project, base, shapes):
    result = project(
        "import unittest\nfrom pytest_torch_compile import CompileSuite\n\n"
        f"class TestSuite(CompileSuite{', ' + base if base else ''}):\n    shapes = {shapes}\n    trains = False\n"
        "    def make_model(self):\n        return lambda x: breaking(x)\n"
        "    def make_inputs(self, shape):\n        return torch.ones(shape)\n"
    )
    result.assert_outcomes(failed=1, skipped=2)
    result.stdout.fnmatch_lines([">*self._check(self._calls()*"])
    for pattern in ("*_pytest?*.py:*", "*pluggy?*.py:*", "*unittest?case.py*"):
        result.stdout.no_fnmatch_line(pattern)
    assert len(result.outlines) < 60
