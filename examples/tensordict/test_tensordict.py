"""tensordict under torch.compile: building, indexing, stacking, updating and modules, with no guard on the contents."""

import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn

from pytest_torch_compile import CompileCheckFailed


def build(a, b):
    return TensorDict({"a": a, "nested": {"b": b}}, batch_size=[a.shape[0]])


def entries(td):
    return td["a"], td["nested", "b"]


def inputs(batch):
    generator = torch.Generator().manual_seed(batch)
    return torch.randn(batch, 4, generator=generator), torch.randn(batch, 2, generator=generator)


OPERATIONS = {
    "index": lambda a, b: entries(build(a, b)[1:]),
    "mask": lambda a, b: entries(build(a, b)[torch.tensor([True, False, True])]),
    "stack": lambda a, b: entries(torch.stack([build(a, b), build(a + 1, b)], 0)),
    "cat": lambda a, b: entries(torch.cat([build(a, b), build(a, b)], 0)),
    "reshape": lambda a, b: entries(build(a, b).unsqueeze(-1).squeeze(-1)),
    "arithmetic": lambda a, b: entries(build(a, b) + 1),
    "flatten": lambda a, b: build(a, b).flatten_keys(".")["nested.b"] * 2,
    "update": lambda a, b: build(a, b).update({"a": b})["a"] * 2,
}


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        first = TensorDictModule(nn.Linear(4, 8), in_keys=["a"], out_keys=["hidden"])
        second = TensorDictModule(nn.Linear(8, 2), in_keys=["hidden"], out_keys=["action"])
        self.steps = TensorDictSequential(first, second)

    def forward(self, a, b):
        return self.steps(build(a, b))["action"]


@pytest.mark.parametrize("name", OPERATIONS)
def test_operation(compile_check, name):
    compile_check(OPERATIONS[name], *inputs(3), train=True)


def test_modules_and_their_gradients(compile_check):
    compile_check(Policy(), *inputs(3), train=True)


def test_batches_cost_one_recompile_and_new_contents_none(compile_check):
    compile_check(Policy(), calls=[inputs(3), inputs(3), inputs(5), inputs(9)], max_recompiles=1)


def broken(a, b):
    td = build(a, b)
    return entries(td + 1 if td["a"].sum() > 0 else td)


def wrong(a, b):
    return entries(build(a, b) * (1.001 if torch.compiler.is_compiling() else 1.0))


def named(a, b, key):
    return TensorDict({key: a}, batch_size=[3])[key] + b.sum()


@pytest.mark.parametrize(
    ("planted", "kind"),
    [(broken, "graph-break"), (wrong, "numerics"), (named, "recompile")],
    ids=["break", "wrong number", "recompile"],
)
def test_what_is_planted_is_found(compile_check, planted, kind):
    calls = [(*inputs(3), key) for key in "xy"] if kind == "recompile" else [inputs(3)]
    with pytest.raises(CompileCheckFailed) as failed:
        compile_check(planted, calls=calls)
    assert {finding.kind for finding in failed.value.findings} == {kind}
