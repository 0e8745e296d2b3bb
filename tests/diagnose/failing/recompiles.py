"""Targets that recompile: one for each cause of a failed guard that the project names."""

from __future__ import annotations

from functools import partial

import torch
from torch import nn
from torch.nn import functional as F

from pytest_torch_compile import call
from tests.diagnose.failing.record import Check, calls, failing, options, padded, since, within


def doubled(x):
    return x.sin() * 2


def scaled(x, factor):
    return x.sin() * factor


SIZES = {"dynamic=True": options(dynamic=True), "dynamic_dims=": options(dynamic_dims={"x": 0}), "pad ": padded(8)}
AS_TENSOR = {"as a tensor": calls(lambda x, number: (x, torch.tensor(number)))}
DYNAMIC = {"dynamic=True": options(dynamic=True)}


def without_duck_shapes():
    return torch.fx.experimental._config.patch(use_duck_shape=False)


def integers_of_modules_dynamic(check):
    switch = partial(torch._dynamo.config.patch, allow_unspec_int_on_nn_module=True)
    return within(switch)(options(dynamic=True)(check))


@failing("recompile", cause="size", fixes=SIZES)
def batch_size():
    return Check(doubled, [(torch.randn(4, 3),), (torch.randn(6, 3),)])


@failing("recompile", cause="size", fixes={"pad ": padded(8)})
def divisible_size():
    def even(x):
        return x.sin() if x.shape[0] % 8 == 0 else x.cos()

    return Check(even, [(torch.randn(16),), (torch.randn(17),)], {"backend": "eager", "dynamic": True})


@failing("recompile", cause="size-0-or-1", fixes={"pad ": padded(8)})
def last_batch_of_one():
    return Check(doubled, [(torch.randn(4, 3),), (torch.randn(1, 3),)], {"backend": "eager", "dynamic": True})


@failing("recompile", cause="size-0-or-1", innocent=True)
def empty_batch():
    return Check(doubled, [(torch.randn(4, 3),), (torch.randn(0, 3),)], {"backend": "eager", "dynamic": True})


@failing(
    "recompile",
    cause="duck-shape",
    fixes={
        "use_duck_shape": within(without_duck_shapes),
        "dynamic_dims=": options(dynamic_dims={"x": 0, "y": 0}),
        "pad ": padded(8),
    },
)
def two_sizes_equal_by_accident():
    def both(x, y):
        return x.sin().sum() + y.cos().sum()

    sequence = [(torch.randn(5), torch.randn(5)), (torch.randn(5), torch.randn(7))]
    return Check(both, sequence, {"backend": "eager", "dynamic": True})


@failing("recompile", cause="python-number", fixes=AS_TENSOR | DYNAMIC)
def integer_argument():
    x = torch.randn(4)
    return Check(scaled, [(x, 2), (x, 3)])


@failing("recompile", cause="python-number", fixes=AS_TENSOR | since("2.8", DYNAMIC))
def float_argument():
    x = torch.randn(4)
    return Check(scaled, [(x, 0.5), (x, 0.25)])


@failing(
    "recompile",
    cause="python-number",
    fixes=since("2.8", {"allow_unspec_int_on_nn_module": integers_of_modules_dynamic}),
)
def counter_of_a_module():
    class Warmup(nn.Module):
        def __init__(self):
            super().__init__()
            self.steps = 2

        def forward(self, x):
            self.steps += 1
            return x.sin() * self.steps

    x = torch.randn(4)
    return Check(Warmup(), [(x,), (x,)])


@failing("recompile", cause="python-bool", innocent=True)
def flag():
    def masked(x, causal):
        return x.tril() if causal else x.sin()

    x = torch.randn(4, 4)
    return Check(masked, [(x, True), (x, False)])


@failing("recompile", cause="python-string", innocent=True)
def name_of_a_pooling():
    def pooled(x, kind):
        return x.mean(0) if kind == "mean" else x.sum(0)

    x = torch.randn(4, 4)
    return Check(pooled, [(x, "mean"), (x, "sum")])


@failing("recompile", cause="python-value", innocent=True)
def dtype_argument():
    def cast(x, dtype):
        return x.sin().to(dtype)

    x = torch.randn(4)
    return Check(cast, [(x, torch.float64), (x, torch.bfloat16)])


@failing("recompile", cause="dtype", innocent=True)
def dtype():
    x = torch.randn(4)
    return Check(doubled, [(x,), (x.double(),)])


@failing("recompile", cause="rank", innocent=True)
def number_of_dimensions():
    return Check(doubled, [(torch.randn(4),), (torch.randn(4, 3),)])


@failing("recompile", cause="requires-grad")
def requires_grad():
    return Check(doubled, [(torch.randn(4),), (torch.randn(4, requires_grad=True),)])


@failing("recompile", cause="grad-mode")
def grad_mode():
    x = torch.randn(4)
    return Check(doubled, [call(x), call(x).under(torch.no_grad)])


@failing("recompile", cause="autocast")
def autocast():
    def autocasting():
        return torch.autocast("cpu", dtype=torch.bfloat16)

    x, weight = torch.randn(2, 4), torch.randn(4, 4)
    return Check(F.linear, [call(x, weight), call(x, weight).under(autocasting)])


@failing("recompile", cause="train-or-eval", innocent=True)
def train_then_eval():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.dropout = nn.Dropout(0.5)

        def forward(self, x):
            return self.dropout(x.sin())

    x = torch.randn(2, 4)
    return Check(Model(), [call(x).before(lambda module: module.train()), call(x).before(lambda module: module.eval())])


@failing("recompile", cause="closure")
def variable_of_an_enclosing_function():
    mode = "sin"

    def chosen(x):
        return x.sin() if mode == "sin" else x.cos()

    def use(value):
        def change(_target):
            nonlocal mode
            mode = value

        return change

    x = torch.randn(4)
    return Check(chosen, [call(x).before(use("sin")), call(x).before(use("cos"))])


MODE = "sin"


def by_global(x):
    return x.sin() if MODE == "sin" else x.cos()


def use_mode(value):
    def change(_target):
        global MODE
        MODE = value

    return change


@failing("recompile", cause="global")
def global_variable():
    x = torch.randn(4)
    return Check(by_global, [call(x).before(use_mode("sin")), call(x).before(use_mode("cos"))])


@failing("recompile", cause="length", innocent=True)
def length_of_a_list():
    def total(layers):
        return sum(layer.sin() for layer in layers)

    x = torch.randn(4)
    return Check(total, [([x, x + 1],), ([x, x + 1, x + 2],)])


@failing("recompile", cause="length", innocent=True)
def keys_of_a_dict():
    def of_batch(batch):
        return {name: value.sin() for name, value in batch.items()}

    x = torch.randn(4)
    return Check(of_batch, [({"a": x},), ({"a": x, "b": x + 1},)])


@failing("recompile", cause=("type", "new-object"), innocent=True)
def optional_mask():
    def masked(x, mask=None):
        y = x.sin()
        return y if mask is None else y * mask

    x = torch.randn(4)
    return Check(masked, [(x,), (x, torch.ones(4))])


@failing("recompile", cause="stride", fixes={"contiguous": calls(lambda x: (x.contiguous(),))})
def transposed():
    x = torch.randn(4, 4)
    return Check(doubled, [(x,), (x.t(),)])
