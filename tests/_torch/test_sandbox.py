"""A check leaves the caller's world as it was, also when it fails or raises."""

from __future__ import annotations

import contextlib
import os
import random
import unittest

import pytest

torch = pytest.importorskip("torch")

import torch._inductor.config as inductor_config  # noqa: E402
from torch._dynamo.utils import counters  # noqa: E402

from pytest_torch_compile import CompileCheckFailed, CompileUsageError, call, check_compile  # noqa: E402


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.norm = torch.nn.BatchNorm1d(4)
        self.dropout = torch.nn.Dropout(0.5)

    def forward(self, x):
        return self.dropout(self.norm(self.linear(x)))


def passing(x):
    x.mul_(2)
    return x + torch.rand(())


def breaking(x):
    torch._dynamo.graph_break()
    return passing(x)


def raising(x):
    x.mul_(2)
    raise KeyError("of the target")


def meddling(x):
    torch._dynamo.config.cache_size_limit = 3
    torch.set_grad_enabled(False)
    random.random()
    return x.sin()


TARGETS = [passing, breaking, raising, meddling]


def attempt(*args, **options):
    with contextlib.suppress(CompileCheckFailed, CompileUsageError):
        check_compile(*args, **{"backend": "eager", **options})


def plain(values):
    return {k: list(v) if isinstance(v, (list, set)) else v for k, v in values.items()}


def world():
    return {
        "rng": torch.get_rng_state().tolist(),
        "python rng": random.getstate(),
        "grad mode": torch.is_grad_enabled(),
        "inference mode": torch.is_inference_mode_enabled(),
        "default dtype": torch.get_default_dtype(),
        "dynamo config": plain(torch._dynamo.config.get_config_copy()),
        "inductor config": plain(inductor_config.get_config_copy()),
        "counters": {name: dict(values) for name, values in counters.items() if values},
        "env": dict(os.environ),
    }


def counting_backend():
    compiled = []

    def backend(gm, example_inputs):
        compiled.append(gm)
        return gm.forward

    backend.compiled = compiled
    return backend


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.__name__)
def test_global_state_is_as_before(target):
    attempt(passing, torch.ones(4))  # lazily imported parts of torch set configuration of their own
    before = world()
    attempt(target, torch.ones(4))
    assert world() == before


def test_grad_mode_is_as_before_under_no_grad():
    with torch.no_grad():
        attempt(passing, torch.ones(4))
        assert not torch.is_grad_enabled()


@pytest.mark.parametrize("training", [True, False])
def test_model_is_as_before(training):
    model = Model().train(training)
    model.linear.weight.grad = torch.ones(4, 4)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    identities = [id(p) for p in model.parameters()]
    attempt(model, torch.randn(8, 4), train=True, optimizer=lambda params: torch.optim.SGD(params, lr=1.0))
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert torch.equal(model.linear.weight.grad, torch.ones(4, 4))
    assert model.linear.bias.grad is None
    assert identities == [id(p) for p in model.parameters()]
    assert [m.training for m in model.modules()] == [training] * 4


def test_action_before_a_call_changes_the_copies_only():
    model = Model()
    attempt(model, calls=[call(torch.randn(8, 4)).before(lambda m: m.eval())])
    assert model.training


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.__name__)
def test_inputs_are_as_before(target):
    base = torch.arange(24.0).reshape(4, 6)
    leaf = torch.ones(4, requires_grad=True)
    inputs = [base[1:3], base[:, ::2], base.t(), leaf.detach().clone(), leaf * 2]
    before = [(x.clone(), x.stride(), x.storage_offset(), x.data_ptr(), x.requires_grad, x._version) for x in inputs]
    for x in inputs:
        attempt(target, x)
    for x, (values, stride, offset, address, requires_grad, version) in zip(inputs, before, strict=True):
        assert torch.equal(x, values)
        assert (x.stride(), x.storage_offset(), x.data_ptr()) == (stride, offset, address)
        assert (x.requires_grad, x._version) == (requires_grad, version)
    assert inputs[4].grad_fn is not None


def test_gradient_of_an_input_is_as_before():
    x = torch.ones(4, requires_grad=True)
    attempt(lambda x: x.sin(), x, train=True)
    assert x.grad is None
    x.grad = torch.full((4,), 7.0)
    attempt(lambda x: x.sin(), x, train=True)
    assert torch.equal(x.grad, torch.full((4,), 7.0))


def test_copies_keep_strides_and_shared_storage():
    told = set()

    def target(x, y):
        return x.sum() + y.sum()

    def telling(gm, example_inputs):
        def run(*inputs):
            x, y = inputs
            told.add((x.stride(), y.stride(), x.untyped_storage().data_ptr() == y.untyped_storage().data_ptr()))
            return gm(*inputs)

        return run

    base = torch.arange(24.0).reshape(4, 6)
    attempt(target, base.t(), base[1:], backend=telling)
    assert told == {((1, 6), (6, 1), True)}


def test_dynamic_marks_do_not_reach_the_caller():
    x = torch.ones(4, 4)
    attempt(lambda x: x.sin(), x, dynamic_dims={"x": 0})
    assert not any("dynamic" in name for name in vars(x))


def test_dynamic_marks_of_the_caller_are_kept():
    x, y = torch.ones(4, 4), torch.ones(7, 4)
    torch._dynamo.mark_dynamic(x, 0)
    torch._dynamo.mark_dynamic(y, 0)
    assert not check_compile(lambda x: x.sin(), calls=[call(x), call(y)], backend="eager").recompiles


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.__name__)
def test_function_compiled_before_does_not_compile_again(target):
    backend = counting_backend()

    def unrelated(x):
        return x.exp()

    compiled = torch.compile(unrelated, backend=backend)
    compiled(torch.ones(3))
    attempt(target, torch.ones(4))
    compiled(torch.ones(3))
    assert len(backend.compiled) == 1


def test_module_compiled_before_does_not_compile_again():
    backend = counting_backend()
    model = Model()
    compiled = torch.compile(model, backend=backend)
    compiled(torch.ones(3, 4))
    attempt(lambda x: x.sin(), torch.ones(4))
    compiled(torch.ones(3, 4))
    assert len(backend.compiled) == 1


def test_size_that_automatic_dynamic_learnt_before_is_not_known_to_the_check():
    def target(x):
        return x.sin() + 1

    compiled = torch.compile(target, backend="eager")
    for size in (4, 5, 6):
        compiled(torch.ones(size))
    calls = [call(torch.ones(4)), call(torch.ones(5))]
    assert len(check_compile(target, calls=calls, backend="eager", max_recompiles=1).recompiles) == 1


def test_nine_checks_of_one_function_do_not_reach_the_recompile_limit():
    def target(x, name):
        return x * len(name)

    reports = [check_compile(target, torch.ones(2), "n" * size, backend="eager") for size in range(1, 11)]
    assert [len(report.graphs) for report in reports] == [1] * 10
    assert not any(report.recompiles for report in reports)


def test_checks_give_the_same_after_each_other():
    def target(x):
        return torch.nn.functional.dropout(x, 0.5)

    first, second = (check_compile(target, torch.ones(64), backend="eager").to_dict() for _ in range(2))
    assert first["numerics"] == second["numerics"]


class CheckInUnittest(unittest.TestCase):
    def test_passes(self):
        self.assertTrue(check_compile(lambda x: x.sin(), torch.ones(2), backend="eager").ok)

    def test_fails_as_an_assertion(self):
        with self.assertRaisesRegex(AssertionError, "graph-break: graph break 1 of 1"):
            check_compile(breaking, torch.ones(2), backend="eager")


def test_no_names_stay_in_the_module_of_the_target(tmp_path, monkeypatch):
    (tmp_path / "targets_of_a_check.py").write_text(
        "import torch\n\nclass Layer(torch.nn.Module):\n    def forward(self, x):\n        return x + 1\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import targets_of_a_check as module

    before = set(vars(module))
    attempt(module.Layer(), torch.ones(2))
    assert set(vars(module)) == before
    compiled = torch.compile(module.Layer(), backend="eager")
    compiled(torch.ones(2))
    of_the_user = set(vars(module))
    attempt(module.Layer(), torch.ones(2))
    assert set(vars(module)) >= {name for name in of_the_user if name.startswith("__import_torch")}
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 2.0))
