"""The detail that the table shows for a target."""

from typing import get_args

import pytest

from pytest_torch_compile.existing import verdicts
from pytest_torch_compile.existing.checking import Checked
from pytest_torch_compile.findings import FINDING_KINDS, CompileReport, Finding, Slower
from pytest_torch_compile.observation import GraphBreak, Location

SITE = "/env/lib/python3.12/site-packages"
OWN, COPY, OTHER = (
    Location(f"{SITE}/somelib/layer.py", 7),
    Location("/usr/lib/python3.12/copy.py", 153),
    Location(f"{SITE}/dependency/ops.py", 3),
)


def found(location, callers, module):
    return GraphBreak(location, "reason", "other", "fingerprint", callers=callers, module=module, installed=True)


@pytest.mark.parametrize(
    ("graph_break", "detail"),
    [
        (found(COPY, (OWN,), "somelib.layer"), "own code: somelib/layer.py:7"),
        (found(COPY, (OWN,), ""), "own code: somelib/layer.py:7"),
        (found(OWN, (), "somelib.layer"), "own code: somelib/layer.py:7"),
        (found(OTHER, (OWN,), "dependency.ops"), "in dependency: dependency/ops.py:3"),
    ],
    ids=["in the standard library, for the package", "in the standard library", "own line", "in a dependency"],
)
def test_break_is_shown_at_the_line_of_its_owner(graph_break, detail):
    report = CompileReport("somelib.Layer", "default", "eager", "2.13", "cpu")
    report.findings = [Finding("graph-break", "graph break")]
    report.observation.graph_breaks = [graph_break]
    (row,) = verdicts.rows([Checked("somelib.Layer", "test_a", report)], {}, "somelib")
    assert row.detail.startswith(detail)


@pytest.mark.parametrize(
    ("kinds", "verdict"),
    [
        (["not-observable"], "not observable"),
        (["not-observable", "recompile"], "recompiles"),
        (["metadata", "not-observable"], "wrong"),
    ],
)
def test_check_that_cannot_pass_is_called_wrong_only_if_results_differ(kinds, verdict):
    report = CompileReport("somelib.f", "default", "eager", "2.13", "cpu")
    report.findings = [Finding(kind, "message") for kind in kinds]
    (row,) = verdicts.rows([Checked("somelib.f", "test_a", report)], {}, "somelib")
    assert row.verdict == verdict and row.detail.endswith("message")


def test_target_with_a_stopped_check_works_so_far():
    passed = Checked("somelib.f", "test_a", CompileReport("somelib.f", "default", "eager", "2.13", "cpu"))
    stopped = Checked("somelib.f", "test_b", refused="the check took longer than 10 s", took_too_long=True)
    refused = Checked("somelib.f", "test_b", refused="code was compiled earlier in the test")
    (row,) = verdicts.rows([passed, stopped], {}, "somelib")
    assert (row.verdict, row.detail) == ("works so far", "the check took longer than 10 s")
    (row,) = verdicts.rows([passed, refused], {}, "somelib")
    assert row.verdict == "works"


def test_a_target_with_a_finding_of_any_kind_does_not_count_as_working():
    assert set(FINDING_KINDS) - set(get_args(Slower)) == set(verdicts._VERDICT_OF)
    for kind in FINDING_KINDS:
        report = CompileReport("somelib.Layer", "default", "eager", "2.13", "cpu")
        report.findings = [Finding(kind, "message")]
        assert verdicts.verdict_of(report) not in verdicts.PASSING
