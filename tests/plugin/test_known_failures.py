"""Known failures are strict, and wrong markers are refused."""

from __future__ import annotations

import json

import pytest

torch = pytest.importorskip("torch")

from tests.plugin.projects import FIXTURES_THAT_CHECK, lines_with  # noqa: E402


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
        ["known failure no longer fails; remove its compile_known_failure marker: used to break"]
    )
    result.stdout.fnmatch_lines(["XFAIL *::test_two_markers - *second is known"])


@pytest.mark.parametrize(
    ("marker", "text"),
    [
        ("'x', torch='from 2.8'", "*torch='from 2.8'*: write a version specifier like '>=2.8'*"),
        ("'x', kind='graphbreak'", "*kind='graphbreak'*: choose one of numerics, *"),
        ("", "*write @pytest.mark.compile_known_failure(reason, kind=None, torch=None)*"),
        ("'x', when='now'", "*write @pytest.mark.compile_known_failure(reason, kind=None, torch=None)*"),
        ("'x', None, None, 'now'", "*write @pytest.mark.compile_known_failure(reason, kind=None, torch=None)*"),
        ("5", "*write @pytest.mark.compile_known_failure(reason, kind=None, torch=None)*"),
        ("'x', kind=5", "*kind=5*: choose one of numerics, *"),
        ("'x', kind=[[]]", "*kind=[[]]*: choose one of numerics, *"),
        ("'x', torch=2.8", "*torch=2.8*: write a version specifier like '>=2.8'*"),
        ("'x', 'numerics', reason='y'", "*write @pytest.mark.compile_known_failure(reason, kind=None, torch=None)*"),
    ],
)
def test_wrong_marker_is_an_error_of_its_test_alone(project, marker, text):
    result = project(
        f"@pytest.mark.compile_known_failure({marker})\ndef test_a():\n    pass\n\ndef test_b():\n    pass\n"
    )
    result.assert_outcomes(errors=1, passed=1)
    result.stdout.fnmatch_lines([text.replace("[[]]", "*")])


def test_known_failure_is_told_as_known_in_the_table(project):
    result = project(
        """
@pytest.mark.compile_known_failure("breaks")
def test_known(compile_check):
    compile_check(breaking, torch.ones(4))

@pytest.mark.xfail(strict=True)
def test_expected(compile_check):
    compile_check(breaking, torch.ones(4))

def test_new(compile_check):
    compile_check(breaking, torch.ones(4))
"""
    )
    result.assert_outcomes(xfailed=2, failed=1)
    verdicts = [line.split("  ")[-1] for line in lines_with(result, " [breaking]")]
    assert sorted(verdicts) == ["graph-break", "known failure (graph-break)", "known failure (graph-break)"]


@pytest.mark.skipif(pytest.version_tuple < (9,), reason="subtests are new in pytest 9")
def test_marker_is_judged_once_for_all_subtests(project):
    result = project(
        """
known = pytest.mark.compile_known_failure("breaks")

@known
def test_one_breaks(compile_check, subtests):
    for at in range(3):
        with subtests.test(at=at):
            compile_check(breaking if at == 1 else torch.sin, torch.ones(4))

@known
def test_mended(compile_check, subtests):
    for at in range(3):
        with subtests.test(at=at):
            compile_check(torch.sin, torch.ones(4))

@known
def test_one_fails_in_another_way(compile_check, subtests):
    for at in range(3):
        with subtests.test(at=at):
            compile_check(breaking if at == 1 else torch.sin, torch.ones(4))
            assert at != 2
""",
        "-rxf",
    )
    assert [line for line in result.outlines if line.startswith("XFAIL ")] == [
        "XFAIL test_marker_is_judged_once_for_all_subtests.py::test_one_breaks - reason: breaks"
    ]
    failed = [line.split("::")[1].split(" ")[0] for line in result.outlines if line.startswith("FAILED ")]
    assert sorted(failed) == ["test_mended", "test_one_fails_in_another_way"]
    assert len(lines_with(result, "known failure no longer fails; remove its compile_known_failure marker: br")) == 1


IN_FIXTURES = (
    FIXTURES_THAT_CHECK
    + """
known = pytest.mark.compile_known_failure("known to break")

@known
def test_guarded(guarded):
    guarded(torch.ones(4))

@known
def test_before(before):
    pass

@known
def test_after(after):
    pass

@known
def test_mended_guard():
    with compile_guard(max_graph_breaks=0):
        torch.compile(torch.sin, backend="eager")(torch.ones(4))

@known
def test_error_at_teardown(request):
    request.addfinalizer(lambda: 1 / 0)
"""
)


@pytest.mark.parametrize("options", [[], ["-n", "1"]], ids=["alone", "xdist"])
def test_known_failure_in_a_fixture_is_expected_too(project, options):
    if options:
        pytest.importorskip("xdist")
    result = project(IN_FIXTURES, "-rxfE", "--compile-report=out", *options)
    result.assert_outcomes(xfailed=3, failed=1, errors=1)
    assert len(lines_with(result, "remove its compile_known_failure marker: known to break")) == 1
    assert lines_with(result, "FAILED test_") and "test_mended_guard" in lines_with(result, "FAILED test_")[0]
    document = json.loads((project.tester.path / "out" / "report.json").read_text())
    assert {test["id"].partition("::")[2]: test["outcome"] for test in document["tests"]} == {
        "test_guarded": "xfailed",
        "test_before": "xfailed",
        "test_after": "xfailed",
        "test_mended_guard": "failed",
    }
    verdicts = [line.split("  ")[-1] for line in result.outlines if line.endswith("(graph-break)")]
    assert verdicts == ["known failure (graph-break)"] * 3
