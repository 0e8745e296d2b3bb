"""Short ways to write call sequences, and the table that tells how they went."""

from __future__ import annotations

import random

import pytest

torch = pytest.importorskip("torch")

from pytest_torch_compile import (  # noqa: E402
    Call,
    CompileSuite,
    CompileUsageError,
    call,
    check_compile,
    padded,
    random_lengths,
    sizes,
)
from pytest_torch_compile.legs.calls import as_call, as_calls  # noqa: E402
from pytest_torch_compile.report.failure_text import sequence_table  # noqa: E402


def sine(x):
    return x.sin()


def test_sizes_makes_every_combination_and_the_last_varies_fastest():
    made = sizes(lambda batch, length: torch.ones(batch, length), batch=[1, 2], length=[16, 32])
    assert [item.label for item in made] == [
        "batch=1, length=16",
        "batch=1, length=32",
        "batch=2, length=16",
        "batch=2, length=32",
    ]
    assert [tuple(item.args[0].shape) for item in made] == [(1, 16), (1, 32), (2, 16), (2, 32)]


@pytest.mark.parametrize(
    ("made", "args", "kwargs"),
    [
        (call(1, k=2), (1,), {"k": 2}),
        ((1, 2), (1, 2), {}),
        ({"k": 2}, (), {"k": 2}),
        ([1, 2], ([1, 2],), {}),
        (torch.Size((1, 2)), (torch.Size((1, 2)),), {}),
        (None, (None,), {}),
    ],
)
def test_item_of_a_sequence_may_be_a_call_a_tuple_a_dict_or_the_argument(made, args, kwargs):
    found = as_call(made)
    assert (found.args, dict(found.kwargs)) == (args, kwargs)
    assert sizes(lambda n: made, n=[1])[0].args == args


def test_arguments_of_one_call_are_one_call():
    (only,) = as_calls((1,), {"k": 2}, None)
    assert only == Call((1,), {"k": 2})


def test_calls_may_be_passed_in_place_of_arguments():
    assert as_calls((call(1, k=2), call(3)), {}, None) == [call(1, k=2), call(3)]


@pytest.mark.parametrize(
    ("args", "kwargs"), [((call(1), 2), {}), ((call(1),), {"k": 2}), (([call(1), call(2)],), {}), ((), {"x": call(1)})]
)
def test_a_call_that_is_mixed_with_arguments_is_an_error(args, kwargs):
    """The target would receive the ``Call`` and fail somewhere inside."""
    with pytest.raises(CompileUsageError, match=r"a call\(\.\.\.\) was passed together with.*calls=\[call\(x\)"):
        as_calls(args, kwargs, None)


def test_padded_rounds_up():
    assert padded([0, 1, 8, 13, 17], multiple=8) == [0, 8, 8, 16, 24]


def test_random_lengths_are_the_same_for_a_seed():
    first = random_lengths(20, low=3, high=9, seed=1)
    assert first == random_lengths(20, low=3, high=9, seed=1) != random_lengths(20, low=3, high=9, seed=2)
    assert min(first) >= 3
    assert max(first) <= 9


def test_random_lengths_follow_a_distribution_within_the_range():
    state = random.getstate()
    drawn = random_lengths(50, low=4, high=40, distribution=lambda r: r.lognormvariate(3, 1))
    assert {4, 40} & set(drawn)
    assert all(4 <= length <= 40 and isinstance(length, int) for length in drawn)
    assert random.getstate() == state


def test_call_methods_give_changed_copies():
    plain = call(1)
    assert plain.under(torch.no_grad).contexts == (torch.no_grad,)
    assert plain.before(print).actions == (print,)
    assert plain.named("first").label == "first"
    assert plain == call(1)


def test_contexts_and_actions_reach_both_legs():
    class Model(torch.nn.Module):
        def forward(self, x):
            return x * (2 if self.training else 3) * (5 if torch.is_grad_enabled() else 7)

    x = torch.ones(2)
    calls = [call(x), call(x).before(lambda m: m.eval()).under(torch.no_grad)]
    report = check_compile(Model(), calls=calls, backend="eager", max_recompiles=1)
    assert [row.outcome for row in report.calls] == ["compiled, 1 graph", "recompiled"]


def test_padding_keeps_recompiles_within_the_budget():
    lengths = padded(random_lengths(12, low=1, high=30), multiple=32)
    report = check_compile(sine, calls=sizes(lambda length: torch.ones(length), length=lengths), backend="eager")
    assert not report.recompiles


def test_table_shows_shapes_outcome_and_guard():
    calls = sizes(lambda batch: torch.ones(batch, 3), batch=[4, 5, 6])
    report = check_compile(sine, calls=calls, backend="eager", max_recompiles=1)
    lines = sequence_table(report.calls).splitlines()
    assert lines[0].split() == ["call", "arguments", "outcome", "guard", "that", "failed"]
    assert lines[1].split("  ")[1:4] == ["batch=4", "x f32[4, 3]", "compiled, 1 graph"]
    assert lines[2].rstrip().endswith("recompiled         tensor 'x' size mismatch at index 0. expected 4, actual 5")
    assert lines[3].rstrip().endswith("reused")
    assert len({line.find("x f32") for line in lines[1:]}) == 1


def test_automatic_dynamic_recompile_counts():
    calls = sizes(lambda batch: torch.ones(batch, 3), batch=[4, 8, 16, 32])
    assert len(check_compile(sine, calls=calls, backend="eager", max_recompiles=1).recompiles) == 1


@pytest.mark.parametrize("dims", [{"x": 0}, {0: 0}, {"x": (0,)}, {"x": {0: (2, 64)}}, {"x": -2}])
def test_dimension_marked_dynamic_costs_no_recompile(dims):
    calls = sizes(lambda batch: torch.ones(batch, 3), batch=[4, 8, 16])
    assert not check_compile(sine, calls=calls, backend="eager", dynamic_dims=dims).recompiles


def test_argument_that_a_call_leaves_out_needs_no_mark():
    def shifted(x, y=None, *, z=None):
        return x + 1 if y is None else x + y

    calls = [call(torch.ones(3), torch.ones(3)), call(torch.ones(4)), call(torch.ones(5), y=None)]
    calls.append(call(torch.ones(6), z=torch.ones(2)))
    dims = {"x": 0, 1: 0, "z": 0}
    report = check_compile(shifted, calls=calls, backend="eager", dynamic_dims=dims, max_recompiles=2)
    assert report.recompiles
    with pytest.raises(CompileUsageError, match="dynamic_dims contains 'z', which is not a tensor argument"):
        check_compile(shifted, calls=calls[:3], backend="eager", dynamic_dims=dims, max_recompiles=2)


@pytest.mark.parametrize("case", sizes(lambda batch: torch.ones(batch), batch=[1, 3]), ids=lambda case: case.label)
def test_sizes_serve_parametrization(case):
    assert check_compile(sine, calls=[case], backend="eager").calls[0].label == case.label


class TestSuiteWithSizes(CompileSuite):
    shapes = sizes(lambda batch, length: torch.ones(batch, length, 4), batch=[2, 3], length=[5, 6])
    options = {"backend": "eager"}
    max_recompiles = 2
    trains = False

    def make_model(self):
        return torch.nn.Linear(4, 4)
