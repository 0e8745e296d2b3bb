"""The plugin writes the report of a run: with and without pytest-xdist, in an isolated process, and over an old one."""

from __future__ import annotations

import json
from collections import Counter

import pytest

# Checks are announced by hand, so that nothing has to be compiled.
SUITE = """
import pytest
from pytest_torch_compile.findings import CompileCheckFailed, Finding, Location
from pytest_torch_compile.events import announce
from pytest_torch_compile.findings import CompileReport


def check(*findings):
    report = CompileReport("model", "fullgraph", "inductor", "2.13.0", "cpu", findings=list(findings))
    announce(report)
    if findings:
        raise CompileCheckFailed("model does not hold", report, findings)


def test_holds():
    check()


def test_breaks():
    check(Finding("graph-break", "one break", Location(__file__, 3, "f", "line")))


def test_twice():
    check()
    check()


@pytest.mark.xfail(strict=True, raises=CompileCheckFailed)
def test_expected():
    check(Finding("recompile", "one"))


@pytest.mark.parametrize("text", ["</script><script>", "a\\n::error::b", "\\udc80"])
def test_hostile(text):
    check(Finding("numerics", text, hint=text))


def test_of_somebody_else():
    pass
"""


def written(pytester: pytest.Pytester) -> dict:
    return json.loads((pytester.path / "out" / "report.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("workers", [[], ["-n", "2"]], ids=["alone", "xdist"])
def test_a_run_is_written_down(pytester: pytest.Pytester, workers):
    if workers:
        pytest.importorskip("xdist")
    pytester.makepyfile(test_it=SUITE)
    result = pytester.runpytest_subprocess("--compile-report=out", *workers)
    result.assert_outcomes(passed=3, failed=4, xfailed=1)
    result.stdout.fnmatch_lines(["torch.compile report: *report.html"])
    made = written(pytester)
    outcomes = {test["id"].partition("::")[2]: (test["outcome"], len(test["checks"])) for test in made["tests"]}
    assert {name: found for name, found in outcomes.items() if "hostile" not in name} == {
        "test_holds": ("passed", 1),
        "test_breaks": ("failed", 1),
        "test_twice": ("passed", 2),
        "test_expected": ("xfailed", 1),
    }
    assert len(outcomes) == 7
    broken = next(test for test in made["tests"] if test["id"].endswith("test_breaks"))
    assert broken["checks"][0]["findings"][0]["location"]["file"] == "test_it.py"
    assert (broken["file"], broken["line"], made["exit_status"]) == ("test_it.py", 18, 1)
    assert {path.name for path in (pytester.path / "out").iterdir()} == {"report.json", "report.html", "summary.md"}


def test_the_next_run_remembers_the_one_before(pytester: pytest.Pytester):
    pytester.makepyfile(test_it=SUITE)
    for _ in range(2):
        pytester.runpytest_subprocess("--compile-report=out", "-k", "holds")
    assert [len(point["tests"]) for point in written(pytester)["history"]] == [1, 1]


def history(pytester: pytest.Pytester) -> list[tuple[str, int]]:
    return [(point["selection"], len(point["tests"])) for point in written(pytester)["history"]]


@pytest.mark.parametrize("workers", [[], pytest.param(["-n", "2"], marks=pytest.mark.slow)], ids=["alone", "xdist"])
def test_a_run_of_some_tests_leaves_the_history_of_all_as_it_was(pytester: pytest.Pytester, workers):
    if workers:
        pytest.importorskip("xdist")
    pytester.makepyfile(test_it=SUITE, test_other="def test_other(compile_options):\n    pass\n")
    for narrowed in ([], ["-k", "holds"], ["test_other.py"], ["--deselect", "test_it.py::test_breaks"], []):
        pytester.runpytest_subprocess("--compile-report=out", *workers, *narrowed)
    assert history(pytester) == [
        ("", 8),
        ("-k holds", 1),
        ("test_other.py", 1),
        ("--deselect test_it.py::test_breaks", 7),
        ("", 8),
    ]


def test_a_run_that_stops_early_is_no_run_of_all(pytester: pytest.Pytester):
    pytester.makepyfile(test_it=SUITE)
    pytester.runpytest_subprocess("--compile-report=out")
    pytester.runpytest_subprocess("--compile-report=out", "-x")
    assert history(pytester) == [("", 7), ("stopped early", 2)]


@pytest.mark.parametrize("usual", [".", "tests"])
def test_naming_the_usual_tests_is_a_run_of_all(pytester: pytest.Pytester, usual):
    pytester.makeini(f"[pytest]\ncompile_report = out\n{'testpaths = tests' if usual == 'tests' else ''}\n")
    folder = pytester.mkdir("tests")
    (folder / "test_it.py").write_text("def test_a(compile_options):\n    pass\n")
    for arguments in ([], [usual], [str(pytester.path / usual)]):
        pytester.runpytest_subprocess(*arguments)
    assert history(pytester) == [("", 1)] * 3


@pytest.mark.parametrize("option", [[], ["--compile-report=out"]], ids=["ini", "command line"])
def test_the_folder_is_below_the_root_wherever_pytest_starts(pytester: pytest.Pytester, monkeypatch, option):
    pytester.makeini("[pytest]\n" + ("" if option else "compile_report = out\n"))
    inner = pytester.mkdir("inner")
    (inner / "test_it.py").write_text("def test_a(compile_options):\n    pass\n")
    monkeypatch.chdir(inner)
    pytester.runpytest_subprocess(*option, "test_it.py").assert_outcomes(passed=1)
    assert written(pytester)["selection"] == "inner/test_it.py"
    assert not (inner / "out").exists()


def test_a_file_that_cannot_be_collected_is_an_error(pytester: pytest.Pytester):
    pytester.makepyfile(test_it="import nothing_of_this_name")
    pytester.runpytest_subprocess("--compile-report=out")
    made = written(pytester)
    assert made["summary"]["result"] == "failed"
    assert "nothing_of_this_name" in made["tests"][0]["message"]


def test_an_unreadable_old_report_is_replaced(pytester: pytest.Pytester):
    pytester.makepyfile(test_it=SUITE)
    pytester.mkdir("out").joinpath("report.json").write_text("{")
    pytester.runpytest_subprocess("--compile-report=out", "-k", "holds").assert_outcomes(passed=1, deselected=7)
    assert written(pytester)["summary"]["result"] == "passed"


def test_the_ini_twin_works_and_nothing_is_written_unasked(pytester: pytest.Pytester):
    pytester.makepyfile(test_it=SUITE)
    pytester.runpytest_subprocess("-k", "holds")
    assert not list(pytester.path.rglob("report.json"))
    pytester.makeini("[pytest]\ncompile_report = out")
    pytester.runpytest_subprocess("-k", "holds")
    assert written(pytester)["summary"]["passed"] == 1


WRONG = """
import pytest
from pytest_torch_compile.findings import CompileUsageError


@pytest.fixture
def wrong():
    raise CompileUsageError("max_recompiles is -1")


def test_in_the_call():
    raise CompileUsageError("backnd is no option")


def test_in_the_setup(wrong):
    pass


def test_expected():
    with pytest.raises(CompileUsageError):
        raise CompileUsageError("as it should")


def test_of_somebody_else():
    raise ValueError("not ours")
"""


@pytest.mark.parametrize("more", [[], ["-n", "1"]], ids=["alone", "xdist"])
def test_usage_errors_are_rows_of_the_report_and_of_the_summary(pytester: pytest.Pytester, more):
    if more:
        pytest.importorskip("xdist")
    pytester.makepyfile(test_wrong=WRONG)
    result = pytester.runpytest_subprocess("--compile-report=out", "-p", "no:randomly", *more)
    tests = {test["id"]: (test["outcome"], test["usage_error"], test["message"]) for test in written(pytester)["tests"]}
    assert tests == {
        "test_wrong.py::test_in_the_call": ("failed", True, "backnd is no option"),
        "test_wrong.py::test_in_the_setup": ("error", True, "max_recompiles is -1"),
    }
    result.stdout.fnmatch_lines_random(
        ["test_wrong.py::test_in_the_call * usage-error", "test_wrong.py::test_in_the_setup * usage-error"]
    )


def test_only_collecting_leaves_the_report_as_it_was(pytester: pytest.Pytester):
    pytester.makepyfile(test_it=SUITE)
    pytester.runpytest_subprocess("--compile-report=out", "-k", "holds")
    before = written(pytester)
    result = pytester.runpytest_subprocess("--compile-report=out", "--collect-only")
    result.stdout.no_fnmatch_line("torch.compile report: *")
    assert written(pytester) == before


def verdicts(result: pytest.RunResult) -> Counter[str]:
    return Counter(line.split("  ")[-1] for line in result.outlines if " [model] " in line)


SUBTESTS = """
import unittest
from test_checks import Finding, check


class TestSub(unittest.TestCase):
    def test_breaks(self):
        for at in range(2):
            with self.subTest(at=at):
                check(Finding("graph-break", f"break {at}"))
        check()

    def test_one_breaks(self):
        for at in range(3):
            with self.subTest(at=at):
                check(*[Finding("graph-break", f"break {at}")] * (at == 1))

    def test_fails_before_its_first_check(self):
        with self.subTest():
            assert False
        check()

    def test_holds(self):
        for at in range(2):
            with self.subTest(at=at):
                check()
"""


@pytest.mark.skipif(pytest.version_tuple < (9,), reason="subtests are new in pytest 9")
@pytest.mark.parametrize("workers", [[], ["-n", "1"]], ids=["alone", "xdist"])
def test_the_checks_of_subtests_are_those_of_their_test(pytester: pytest.Pytester, workers):
    if workers:
        pytest.importorskip("xdist")
    pytester.makepyfile(test_checks=SUITE, test_sub=SUBTESTS)
    result = pytester.runpytest_subprocess("--compile-report=out", "test_sub.py", *workers)
    found = {
        test["id"].rpartition("::")[2]: (
            test["outcome"],
            [finding["message"] for check in test["checks"] for finding in check["findings"]],
            len(test["checks"]),
        )
        for test in written(pytester)["tests"]
    }
    assert found == {
        "test_breaks": ("failed", ["break 0", "break 1"], 3),
        "test_one_breaks": ("failed", ["break 1"], 3),
        "test_fails_before_its_first_check": ("failed", [], 1),
        "test_holds": ("passed", [], 2),
    }
    assert verdicts(result) == {"graph-break": 3, "pass": 6}


@pytest.mark.skipif(pytest.version_tuple < (9,), reason="subtests are new in pytest 9")
def test_the_time_of_subtests_is_counted_once(pytester: pytest.Pytester):
    pytester.makepyfile(
        test_slow="import time\n\ndef test_slow(compile_options, subtests):\n"
        "    for at in range(4):\n        with subtests.test(at=at):\n            time.sleep(0.5)\n"
    )
    pytester.runpytest_subprocess("--compile-report=out")
    assert 2 <= written(pytester)["tests"][0]["duration"] < 4


FIXTURES = """
import pytest
from test_checks import Finding, check


@pytest.fixture
def failing_before():
    check(Finding("graph-break", "before"))


@pytest.fixture
def failing_after():
    check()
    yield
    check(Finding("graph-break", "after"))


@pytest.fixture(scope="module")
def of_module():
    check()
    yield


def test_before(failing_before):
    pass


def test_after(failing_after):
    check()


def test_only_after(failing_after):
    pass


def test_first(of_module):
    pass


def test_second(of_module):
    check()


def test_third(of_module):
    pass


@pytest.mark.xfail
def test_expected(failing_before):
    pass
"""


@pytest.mark.parametrize(
    "more",
    [[], ["-n", "1"], pytest.param(["--compile-isolate"], marks=pytest.mark.slow)],
    ids=["alone", "xdist", "isolated"],
)
def test_the_checks_of_fixtures_are_those_of_their_test(pytester: pytest.Pytester, more):
    if "-n" in more:
        pytest.importorskip("xdist")
    source = FIXTURES
    if "--compile-isolate" in more:  # runs only tests that use a fixture or marker of the plugin in another process
        source = source.replace("def test_before", "@pytest.mark.torch_compile\ndef test_before")
        source = source.replace("def test_after", "@pytest.mark.torch_compile\ndef test_after")
    pytester.makepyfile(test_checks=SUITE, test_phases=source)
    result = pytester.runpytest_subprocess("--compile-report=out", "-p", "no:randomly", "test_phases.py", *more)
    tests = {test["id"].partition("::")[2]: test for test in written(pytester)["tests"]}
    assert {name: (test["outcome"], len(test["checks"])) for name, test in tests.items()} == {
        "test_before": ("error", 1),
        "test_after": ("error", 3),
        "test_only_after": ("error", 2),
        "test_first": ("passed", 1),
        "test_second": ("passed", 1),
        "test_expected": ("xfailed", 1),
    }
    assert tests["test_only_after"]["checks"][-1]["findings"][0]["message"] == "after"
    assert "model does not hold" in tests["test_only_after"]["message"]
    assert verdicts(result) == {"graph-break": 3, "known failure (graph-break)": 1, "pass": 5}
