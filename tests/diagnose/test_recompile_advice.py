"""Advice against recompiles: what is named as tried gives eager's own results for the check's own calls."""

from __future__ import annotations

import logging

import pytest

torch = pytest.importorskip("torch")

from pytest_torch_compile import CompileCheckFailed, call, check_compile  # noqa: E402

nn = torch.nn


def tried(target, calls, **options):
    """What was tried and named, without the results."""
    with pytest.raises(CompileCheckFailed) as failure:
        check_compile(target, calls=calls, backend="eager", diagnose="full", **options)
    lines = failure.value.report.diagnosis
    return [line.split(": ")[1] for line in lines if line.startswith("tried")]


def named(words, lines):
    return any(line.startswith(words) for line in lines)


def in_degrees(x, dst):
    return torch.zeros(4).index_add(0, dst, x + 1)


def centred(x):
    return x - x.mean(0)


def total(x):
    return x.sum(0)


class SetUpLate(nn.Module):
    """Finds its scale in the first call, and counts calls in a buffer where it is told to."""

    def __init__(self, counts):
        super().__init__()
        self.scale, self.counts = None, counts
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        if self.scale is None:
            self.scale = 2.0
        if self.counts:
            self.calls.add_(1)
        return x * self.scale


ROWS = [call(torch.rand(size, 3) + 1) for size in (5, 6, 7)]
EDGES = [call(torch.rand(size), torch.randint(0, 4, (size,))) for size in (5, 6, 7)]


@pytest.mark.parametrize(
    ("target", "calls"),
    [
        (in_degrees, EDGES),
        (centred, ROWS),
        (lambda x: x.softmax(0), ROWS),
        (lambda x: x.flip(0), ROWS),
    ],
    ids=["index_add", "mean", "softmax", "flip"],
)
def test_padding_that_changes_results_is_not_named(target, calls):
    lines = tried(target, calls)
    assert lines
    assert not named("pad", lines)


def test_branch_on_a_size_needs_two_graphs_and_no_advice_is_named():
    assert tried(lambda x: x.sin() if x.shape[0] % 2 else x.cos(), ROWS) == []


@pytest.mark.parametrize(
    ("target", "calls", "options"),
    [
        (nn.Linear(3, 3), ROWS, {}),
        (nn.Linear(3, 3), ROWS, {"train": True}),
        (total, ROWS, {}),
        (lambda x: (x.t() + 1, {"rows": x * 2}), ROWS, {}),
        (lambda x: x.relu()[:2], ROWS, {}),
    ],
    ids=["rows", "training", "sum", "several outputs", "fixed part"],
)
def test_padding_that_leaves_results_as_they_are_is_named(target, calls, options):
    assert named("pad", tried(target, calls, **options))


def test_padding_that_changes_gradients_is_not_named():
    calls = [call(torch.rand(size, 3, requires_grad=True)) for size in (5, 6, 7)]
    assert named("pad", tried(lambda x: x * 2, calls, train=True))
    assert not named("pad", tried(lambda x: x * x.new_ones(x.shape).sum(), calls, train=True))


def test_number_as_a_tensor_that_changes_results_is_not_named():
    x = torch.arange(6, dtype=torch.int32)
    helps = "pass n as a tensor"
    assert named(helps, tried(lambda x, n: x * n, [call(torch.ones(3), 2.5), call(torch.ones(3), 3.5)], dynamic=False))
    assert not named(helps, tried(lambda x, n: (x * n, n), [call(x, 2.0), call(x, 3.0)], dynamic=False))


def test_call_in_eager_first_that_changes_what_the_target_keeps_is_not_named():
    x, advice = torch.ones(3), "call the target once in eager"
    assert named(advice, tried(SetUpLate(counts=False), [call(x), call(x)]))
    assert not named(advice, tried(SetUpLate(counts=True), [call(x), call(x)]))


def test_contiguous_input_is_named_although_the_output_lies_otherwise():
    calls = [call(torch.rand(3, 4)), call(torch.rand(4, 3).t())]
    assert named("make x contiguous before the call", tried(lambda x: x.sin(), calls))


def test_a_trial_logs_no_error_of_a_size_that_the_user_never_marked():
    logged: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = logged.append
    logger = logging.getLogger("torch._guards")
    logger.addHandler(handler)
    try:
        tried(lambda x: x.sum() if x.shape[0] < 3 else x.sin()[:2], [call(torch.ones(n, n)) for n in (2, 3, 5)])
    finally:
        logger.removeHandler(handler)
    assert not logged
