"""Budgets: how many graph breaks and recompiles are allowed, also by torch version."""

from __future__ import annotations

import pytest

from pytest_torch_compile import Budget
from pytest_torch_compile.budget import as_budget
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


@pytest.mark.parametrize("limit", [-1, 1.5, True, None, {">=2.8": -1}, {"2.8": 1}, {"*": -1}, {"my package": 1}])
def test_wrong_limit_is_refused(limit):
    with pytest.raises(ValueError, match="max_graph_breaks"):
        Budget(max_graph_breaks=limit)


def test_kind_of_a_finding_is_from_the_list():
    with pytest.raises(ValueError, match="unknown finding kind 'typo'; choose one of: numerics, gradient"):
        Finding("typo", "")


class Found:
    """As much of a graph break as a budget asks for."""

    def __init__(self, module, fingerprint="gb-1"):
        self.module, self.fingerprint = module, fingerprint


@pytest.mark.parametrize(
    ("limit", "modules", "over"),
    [
        ({"mine": 0, "*": 3}, ["kornia.filters", "kornia.color"], {}),
        ({"mine": 0, "*": 1}, ["kornia.filters", "mine.layers"], {"mine": 1}),
        ({"mine": 0, "*": 1}, ["kornia.filters", "kornia.color"], {"*": 2}),
        ({"mine": 0}, ["mineral"], {"*": 1}),
        ({"mine": 2, "mine.layers": 0}, ["mine.a", "mine", "mine.layers.norm"], {"mine.layers": 1}),
        ({"mine": 1, "kornia": 1}, ["mine", "kornia"], {}),
        (1, ["mine", "kornia"], {"*": 2}),
        (2, ["mine", "kornia"], {}),
    ],
)
def test_breaks_count_against_the_limit_of_their_package(limit, modules, over):
    budget = Budget(max_graph_breaks=limit).on("2.13.0")
    assert {name: len(found) for name, found in budget.exceeded(map(Found, modules)).items()} == over


def test_accepted_break_counts_against_no_package():
    budget = Budget(max_graph_breaks={"mine": 0}, accepted_breaks=["gb-1"])
    assert not budget.exceeded([Found("mine")])
    assert budget.exceeded([Found("mine", "gb-2")])


def test_budget_by_torch_version_is_not_compared_before_the_version_is_known():
    with pytest.raises(TypeError, match=r"budget\.on"):
        Budget(max_graph_breaks={"<2.8": 1}).exceeded([])


@pytest.mark.parametrize(
    ("alone", "allowed"),
    [(0, 0), (5, 5), (None, 3), ({">=2": 1}, 1)],
)
def test_limit_that_is_given_alone_wins_over_the_budget(alone, allowed):
    both = as_budget(Budget(max_graph_breaks=3, max_recompiles=3, max_graphs=7), alone, alone, None).on("2.13.0")
    assert (both.max_graph_breaks, both.max_recompiles, both.max_graphs) == (allowed, allowed, 7)


def test_empty_list_of_accepted_breaks_wins_too():
    budget = Budget(accepted_breaks=["gb-1"])
    assert as_budget(budget, None, None, []).accepted_breaks == frozenset()
    assert as_budget(budget, None, None, None).accepted_breaks == {"gb-1"}


def test_zero_recompiles_beside_a_budget_are_held_to():
    torch = pytest.importorskip("torch")
    from pytest_torch_compile import CompileCheckFailed, call, check_compile, compile_guard

    calls = [call(torch.ones(4)), call(torch.ones(5))]
    allowed = Budget(max_recompiles=3)
    assert check_compile(lambda x: x.sin(), calls=calls, backend="eager", budget=allowed).ok
    with pytest.raises(CompileCheckFailed, match="1 recompile, 0 allowed"):
        check_compile(lambda x: x.sin(), calls=calls, backend="eager", budget=allowed, max_recompiles=0)
    compiled = torch.compile(lambda x: x.cos(), backend="eager")
    with (
        pytest.raises(CompileCheckFailed, match="1 recompile, 0 allowed"),
        compile_guard(budget=allowed, max_recompiles=0),
    ):
        compiled(torch.ones(4))
        compiled(torch.ones(5))


@pytest.mark.parametrize(("own", "passes"), [(None, True), (0, False), (1, True)])
def test_suite_takes_the_budget_among_its_options(own, passes):
    torch = pytest.importorskip("torch")
    from pytest_torch_compile import CompileCheckFailed, CompileSuite

    class Suite(CompileSuite):
        options = {"backend": "eager", "budget": Budget(max_recompiles=1)}
        shapes = ((3,), (4,))
        max_recompiles = own

        def make_model(self):
            return lambda x: x.sin()

        def make_inputs(self, shape):
            return torch.ones(shape)

    if passes:
        Suite().test_compile_shapes()
    else:
        with pytest.raises(CompileCheckFailed, match="1 recompile, 0 allowed"):
            Suite().test_compile_shapes()


def test_budget_by_version_is_used_by_checks():
    torch = pytest.importorskip("torch")
    from pytest_torch_compile import CompileCheckFailed, call, check_compile

    calls = [call(torch.ones(4)), call(torch.ones(5))]
    report = check_compile(lambda x: x.sin(), calls=calls, backend="eager", max_recompiles={">=2": 1})
    assert report.budget["max_recompiles"] == 1
    with pytest.raises(CompileCheckFailed, match="1 recompile, 0 allowed"):
        check_compile(lambda x: x.sin(), calls=calls, backend="eager", max_recompiles={"<2": 1})
