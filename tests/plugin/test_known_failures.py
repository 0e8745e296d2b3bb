"""Known failures are strict, and wrong markers are refused."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from tests.plugin.projects import lines_with  # noqa: E402


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
