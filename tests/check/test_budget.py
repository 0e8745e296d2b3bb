"""Budgets: how many graph breaks and recompiles are allowed, also by torch version."""

from __future__ import annotations

import pytest

from pytest_torch_compile import Budget
from pytest_torch_compile.findings import Finding


@pytest.mark.parametrize(
    ("limit", "version", "allowed"),
    [
        (2, "2.13.0", 2),
        ({"<2.8": 2, ">=2.8": 1}, "2.6.0", 2),
        ({"<2.8": 2, ">=2.8": 1}, "2.8.0", 1),
        ({"<2.8": 2}, "2.13.0", 0),
        ({"~=2.11.0": 3, ">=2": 1}, "2.11.4", 3),
        ({"~=2.11.0": 3, ">=2": 1}, "2.12.0", 1),
        ({">=2.13": 1}, "2.13.0+cu130", 1),
        ({">=2.13": 1}, "2.14.0.dev20260101", 1),
        ({"": 4}, "2.6.0", 4),
    ],
)
def test_limit_of_a_version(limit, version, allowed):
    assert Budget(max_recompiles=limit).on(version).max_recompiles == allowed
    assert Budget(max_graph_breaks=limit).on(version).max_graph_breaks == allowed


def test_accepted_breaks_stay_with_every_version():
    assert Budget(accepted_breaks=["gb-1", "gb-1"]).on("2.13.0").accepted_breaks == {"gb-1"}


@pytest.mark.parametrize("limit", [-1, 1.5, True, None, {">=2.8": -1}, {"two": 1}])
def test_wrong_limit_is_refused(limit):
    with pytest.raises(ValueError, match="max_graph_breaks"):
        Budget(max_graph_breaks=limit)


def test_kind_of_a_finding_is_from_the_list():
    with pytest.raises(ValueError, match="unknown finding kind 'typo'; it is one of: numerics, gradient"):
        Finding("typo", "")


def test_budget_by_version_is_used_by_checks():
    torch = pytest.importorskip("torch")
    from pytest_torch_compile import CompileCheckFailed, call, check_compile

    calls = [call(torch.ones(4)), call(torch.ones(5))]
    report = check_compile(lambda x: x.sin(), calls=calls, backend="eager", max_recompiles={">=2": 1})
    assert report.budget["max_recompiles"] == 1
    with pytest.raises(CompileCheckFailed, match="1 recompile, 0 allowed"):
        check_compile(lambda x: x.sin(), calls=calls, backend="eager", max_recompiles={"<2": 1})
