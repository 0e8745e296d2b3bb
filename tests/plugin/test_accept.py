"""``--compile-accept``: what is there today is accepted, what is new fails, what is gone is taken away."""

from __future__ import annotations

import json

import pytest

torch = pytest.importorskip("torch")

from pytest_torch_compile.check import acceptance  # noqa: E402
from tests.plugin.projects import FIXTURES_THAT_CHECK, lines_with, other_process  # noqa: E402

MINOR = ".".join(torch.__version__.split(".")[:2])
BREAKS = """
def test_a(compile_check):
    compile_check(breaking, torch.ones(4))

def test_b(compile_check):
    compile_check(changing, calls=[(torch.ones(2), n) for n in (2, 3)])

def test_sound(compile_check):
    compile_check(changing, torch.ones(2), 2)
"""
SOUND = BREAKS.replace("breaking", "torch.sin").replace("(2, 3)", "(2,)")
WORSE = (
    BREAKS
    + """
def breaking(x):
    x = x.sin()
    torch._dynamo.graph_break()
    print("new")
    return x.cos()
"""
)
TWO = """
def test_two(compile_check):
    compile_check(breaking, torch.ones(4))
    compile_check(changing, torch.ones(2), 2)
"""


def accepted(project):
    return json.loads((project.tester.path / "compile-accepted.json").read_text())


def test_accepted_breaks_and_recompiles_pass_from_then_on(project):
    project(BREAKS).assert_outcomes(failed=2, passed=1)
    result = project(BREAKS, "--compile-accept")
    result.assert_outcomes(passed=3)
    assert lines_with(result, "::test_a: + gb-") and lines_with(result, "::test_b: recompiles 0 -> 1")
    project(BREAKS).assert_outcomes(passed=3)
    document = accepted(project)
    assert document["schema_version"] == 1
    (a, b) = document["tests"].values()
    ((name, found),) = a["breaks"].items()
    assert name.startswith("gb-") and found["reason"] == "explicit graph break" and found["torch"] == [MINOR]
    file, line = found["location"].split(":")
    assert "torch._dynamo.graph_break()" in (project.tester.path / file).read_text().splitlines()[int(line) - 1]
    assert b == {"breaks": {}, "recompiles": {MINOR: 1}}


def test_new_break_and_new_recompile_still_fail(project):
    project(BREAKS, "--compile-accept")
    result = project(WORSE.replace("(2, 3)", "(2, 3, 4.5)"))
    result.assert_outcomes(failed=2, passed=1)
    result.stdout.fnmatch_lines(
        ["*graph break 1 of 1, 0 allowed: call to print or a logger", "*2 recompiles, 1 allowed"]
    )


def test_the_effects_of_expected_exceptions_are_not_accepted(project):
    raising = """
from pytest_torch_compile import call

def refusing(x, allowed):
    if not allowed:
        raise ValueError("not allowed")
    return x.sin()

def test_refused(compile_check):
    calls = [call(torch.ones(2), True), call(torch.ones(2), False).raises(ValueError)]
    report = compile_check(refusing, calls=calls)
    assert report.recompiles or report.graph_breaks
"""
    project(raising, "--compile-accept").assert_outcomes(passed=1)
    assert not (project.tester.path / "compile-accepted.json").exists()


def test_what_is_gone_is_reported_and_taken_away(project):
    project(BREAKS, "--compile-accept")
    result = project(SOUND)
    result.assert_outcomes(passed=3)
    assert lines_with(result, "::test_a: no longer needed: gb-") and lines_with(
        result, "accepted recompiles: 1, but only 0 needed"
    )
    assert lines_with(project(SOUND, "--compile-accept", "-k", "test_a"), "::test_a: - gb-")
    assert [test.split("::")[1] for test in accepted(project)["tests"]] == ["test_b"]
    project(SOUND, "--compile-accept")
    assert not (project.tester.path / "compile-accepted.json").exists()


def test_break_of_one_check_is_no_remark_in_another_check_of_its_test(project):
    project(TWO, "--compile-accept").assert_outcomes(passed=1)
    result = project(TWO)
    result.assert_outcomes(passed=1)
    assert not lines_with(result, "matched no ")


def test_nothing_is_said_where_nothing_changed(project):
    project(BREAKS, "--compile-accept")
    assert not lines_with(project(BREAKS), "torch.compile accepted")
    before = accepted(project)
    assert lines_with(project(BREAKS, "--compile-accept"), "is unchanged")
    assert accepted(project) == before


def test_a_file_that_is_not_there_is_not_called_unchanged(project):
    assert not lines_with(project(BREAKS, "--compile-accept", "--collect-only"), "torch.compile accepted")
    result = project("def test_a(compile_check):\n    compile_check(torch.sin, torch.ones(2))\n", "--compile-accept")
    (line,) = lines_with(result, "torch.compile accepted")
    assert line.endswith("nothing to accept in the tests that passed; compile-accepted.json was not written")
    assert not (project.tester.path / "compile-accepted.json").exists()


def test_other_findings_and_failed_tests_are_not_accepted(project):
    result = project(
        """
class Lying(torch.nn.Module):
    def forward(self, x):
        torch._dynamo.graph_break()
        return x * 2 if torch.compiler.is_compiling() else x * 3

def test_numbers(compile_check):
    compile_check(Lying(), torch.ones(4))

def test_fails_later(compile_check):
    compile_check(breaking, torch.ones(4))
    assert False
""",
        "--compile-accept",
    )
    result.assert_outcomes(failed=2)
    assert not (project.tester.path / "compile-accepted.json").exists()


def test_known_failure_is_not_accepted_away(project):
    source = "@pytest.mark.compile_known_failure('breaks')\ndef test_a(compile_check):\n    compile_check(breaking, torch.ones(4))\n"
    project(source, "--compile-accept").assert_outcomes(xfailed=1)
    assert not (project.tester.path / "compile-accepted.json").exists()


def test_check_with_a_budget_and_a_mode_of_its_own(project):
    source = """
from pytest_torch_compile import check_compile, compile_guard

def test_budget(compile_check):
    compile_check(breaking, torch.ones(4), max_graph_breaks=1)

def test_fullgraph():
    check_compile(breaking, torch.ones(4), fullgraph=True)

def test_region(compile_options):
    with compile_guard():
        torch.compile(breaking, backend="eager")(torch.ones(4))
"""
    project(source, "--compile-accept").assert_outcomes(passed=3)
    assert [test.split("::")[1] for test in accepted(project)["tests"]] == ["test_fullgraph", "test_region"]
    project(source).assert_outcomes(passed=3)


@pytest.mark.parametrize("text", ["{", "[]", '{"tests": {"a": {}}}', '{"schema_version": 1, "tests": 3}'])
def test_damaged_file_is_one_line_and_is_kept(project, text):
    path = project.tester.path / "compile-accepted.json"
    path.write_text(text)
    result = project(BREAKS)
    result.assert_outcomes(failed=2, passed=1)
    assert len(lines_with(result, "compile-accepted.json")) == 1 and path.read_text() == text
    assert lines_with(project(BREAKS, "--compile-accept"), "could not be read and was moved to")
    assert path.with_name("compile-accepted.json.corrupt-1").read_text() == text
    project(BREAKS).assert_outcomes(passed=3)


def test_file_of_another_version_is_left_alone(project):
    path = project.tester.path / "compile-accepted.json"
    path.write_text('{"schema_version": 9, "tests": {}}')
    assert lines_with(
        project(BREAKS, "--compile-accept"), "not written: *schema version 9".replace("*", f"{path} has ")
    )
    assert json.loads(path.read_text())["schema_version"] == 9


@pytest.mark.parametrize(
    "options", [["-n", "2"], pytest.param(["--compile-isolate"], marks=pytest.mark.slow)], ids=["xdist", "isolated"]
)
def test_other_processes_send_what_they_found(project, options):
    if options[0] == "-n":
        pytest.importorskip("xdist")
    project("")  # writes the ini file and the module
    project.tester.makepyfile(
        test_it="from test_other_processes_send_what_they_found import *\nimport pytest, torch\n" + BREAKS
    )
    folder = project.tester.path
    other_process(folder, "test_it.py", "--compile-accept", *options)
    assert [test.split("::")[1] for test in accepted(project)["tests"]] == ["test_a", "test_b"]
    assert other_process(folder, "test_it.py", *options).returncode == 0


def entry(recompiles=None, **breaks):
    made = {name: {"location": f"{name}.py:1", "reason": "r", "torch": versions} for name, versions in breaks.items()}
    return {"breaks": made, "recompiles": recompiles or {}}


def found(*names, recompiles=0):
    return {"breaks": {name: {"location": f"{name}.py:2", "reason": "r"} for name in names}, "recompiles": recompiles}


def test_run_on_one_torch_leaves_what_another_one_shows():
    after = acceptance.merged(entry({"2.6": 2}, a=["2.6", "2.13"], b=["2.6"]), found(), "2.13")
    assert after == entry({"2.6": 2}, a=["2.6"], b=["2.6"])
    assert acceptance.merged(entry(a=["2.13"]), found(), "2.13") is None
    assert acceptance.merged(None, found("a", recompiles=1), "2.6")["recompiles"] == {"2.6": 1}
    assert acceptance.merged(entry(a=["2.13"]), found("a"), "2.6")["breaks"]["a"]["torch"] == ["2.6", "2.13"]


def test_what_another_torch_shows_is_not_stale():
    assert acceptance.stale(entry({"2.6": 2}, a=["2.6"]), found(), "2.13") == []
    assert acceptance.stale(entry({"2.13": 2}, a=["2.13"]), found(recompiles=1), "2.13") == [
        "a at a.py:1 (r)",
        "accepted recompiles: 2, but only 1 needed",
    ]


def test_recompiles_on_a_torch_that_was_never_run_are_those_of_the_others():
    assert acceptance.allowed_recompiles(entry({"2.6": 2, "2.8": 3}), "2.13") == 3
    assert acceptance.allowed_recompiles(entry({"2.6": 2, "2.13": 1}), "2.13") == 1
    assert acceptance.allowed_recompiles(entry(), "2.13") == 0


LATE = """
def test_late(compile_check):
    calls = [(torch.ones(2), 2), (torch.ones(2), 2), (torch.ones(2), 3)]
    compile_check(changing, calls=calls, warmup=2)

def test_in_a_steady_block():
    compiled = torch.compile(changing, backend="eager")
    compiled(torch.ones(2), 2)
    with compile_guard(steady=True):
        compiled(torch.ones(2), 3)
"""


def test_recompiles_after_the_warm_up_cannot_be_accepted(project):
    result = project("from pytest_torch_compile import compile_guard\n" + LATE, "--compile-accept")
    result.assert_outcomes(failed=2)
    assert len(lines_with(result, "after the warm-up, 0 allowed")) >= 2
    assert not (project.tester.path / "compile-accepted.json").exists()


def test_tests_with_an_xfail_marker_are_not_accepted(project):
    source = """
@pytest.mark.xfail(strict=True)
def test_strict(compile_check):
    compile_check(breaking, torch.ones(4))

@pytest.mark.xfail
def test_lenient(compile_check):
    compile_check(breaking, torch.ones(4))

@pytest.mark.xfail(condition=True, reason="breaks")
def test_condition(compile_check):
    compile_check(breaking, torch.ones(4))

@pytest.mark.xfail("torch.__version__ and True", reason="breaks")
def test_text(compile_check):
    compile_check(breaking, torch.ones(4))

def test_added(request, compile_check):
    request.applymarker(pytest.mark.xfail)
    compile_check(breaking, torch.ones(4))

@pytest.fixture
def expecting(request):
    request.applymarker(pytest.mark.xfail(strict=True))

def test_added_by_a_fixture(expecting, compile_check):
    compile_check(breaking, torch.ones(4))

@pytest.mark.xfail(False, reason="breaks elsewhere")
def test_not_here(compile_check):
    compile_check(breaking, torch.ones(4))
"""
    project(source, "--compile-accept").assert_outcomes(xfailed=5, xpassed=1, passed=1)
    assert [test.split("::")[1] for test in accepted(project)["tests"]] == ["test_not_here"]
    project(source).assert_outcomes(xfailed=6, passed=1)


IN_FIXTURES = (
    FIXTURES_THAT_CHECK
    + """
def test_guarded(guarded):
    guarded(torch.ones(4))

def test_before(before):
    pass

def test_after(after):
    pass
"""
)


def test_breaks_of_fixtures_are_accepted(project):
    project(IN_FIXTURES).assert_outcomes(passed=2, errors=3)
    project(IN_FIXTURES, "--compile-accept").assert_outcomes(passed=3)
    assert [test.split("::")[1] for test in accepted(project)["tests"]] == ["test_after", "test_before", "test_guarded"]
    result = project(IN_FIXTURES)
    result.assert_outcomes(passed=3)
    assert not lines_with(result, "no longer needed")


def test_a_test_that_fails_in_its_teardown_is_not_accepted(project):
    source = (
        BREAKS
        + """
@pytest.fixture(autouse=True)
def failing():
    yield
    assert False
"""
    )
    project(source, "--compile-accept")
    assert not (project.tester.path / "compile-accepted.json").exists()
