"""CompileSuite: the same checks for many models."""

from __future__ import annotations

import unittest

import pytest

torch = pytest.importorskip("torch")

from pytest_torch_compile import CompileCheckFailed, CompileSuite, CompileUsageError, call  # noqa: E402


class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x, scale=1.0):
        return self.linear(x).relu() * scale


class Suite(CompileSuite):
    shapes = [(2, 4), (3, 4), (5, 4)]
    options = {"backend": "eager"}

    def make_model(self):
        return Encoder()

    def make_inputs(self, shape):
        return torch.randn(*shape)


class TestPytestStyle(Suite):
    pass


class TestUnittestStyle(Suite, unittest.TestCase):
    pass


class TestTupleInputs(Suite):
    def make_inputs(self, shape):
        return torch.randn(*shape), 2.0


class TestDictInputs(Suite):
    def make_inputs(self, shape):
        return {"x": torch.randn(*shape), "scale": 2.0}


class TestTrainingOptions(Suite):
    options = {
        "backend": "eager",
        "train": lambda output: output.square().mean(),
        "optimizer": lambda parameters: torch.optim.SGD(parameters, lr=0.1),
        "steps": 2,
    }


class TestFinishedCalls(Suite):
    shapes = [call(torch.ones(2, 4)), call(torch.ones(3, 4), scale=1.0)]


del Suite


class Breaking(Encoder):
    def forward(self, x):
        x = self.linear(x)
        torch._dynamo.graph_break()
        return x


def suite(**attributes):
    base = {
        "shapes": [(2, 4), (3, 4)],
        "options": {"backend": "eager"},
        "make_model": lambda self: Encoder(),
        "make_inputs": lambda self, shape: torch.randn(*shape),
    }
    return type("Made", (CompileSuite,), base | attributes)()


def test_breaking_model_fails_every_check():
    made = suite(make_model=lambda self: Breaking())
    for check in (made.test_compile_inference, made.test_compile_training, made.test_compile_shapes):
        with pytest.raises(CompileCheckFailed, match="graph-break"):
            check()


def test_recompiles_beyond_the_budget_fail_the_shapes():
    with pytest.raises(CompileCheckFailed, match="1 recompile, 0 allowed"):
        suite(max_recompiles=0).test_compile_shapes()


def test_rows_are_named_by_their_shape():
    with pytest.raises(CompileCheckFailed, match=r"\(3, 4\)  x f32\[3, 4\]  recompiled"):
        suite(max_recompiles=0).test_compile_shapes()


def test_options_win_over_what_the_suite_would_choose():
    suite(max_recompiles=0, options={"backend": "eager", "max_recompiles": 1}).test_compile_shapes()


def test_one_shape_is_no_sequence():
    with pytest.raises(unittest.SkipTest, match="fewer than two shapes"):
        suite(shapes=[(2, 4)]).test_compile_shapes()


def test_model_that_does_not_train_is_skipped_with_its_reason():
    with pytest.raises(unittest.SkipTest, match="trains = False"):
        suite(trains=False).test_compile_training()


def test_missing_inputs_are_said_to_be_missing():
    with pytest.raises(CompileUsageError, match="Made must define make_inputs"):
        suite(make_inputs=CompileSuite.make_inputs).test_compile_inference()
