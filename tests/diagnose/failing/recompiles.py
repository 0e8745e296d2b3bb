"""Targets that recompile: one for each cause of a failed guard that the project names."""

from __future__ import annotations

import contextlib
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


# Padding would make every size even, and so give other results.
@failing("recompile", cause="size", innocent=True)
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


@failing("recompile", cause="type", innocent=True)
def parameter_or_tensor():
    return Check(doubled, [(torch.randn(4),), (nn.Parameter(torch.randn(4)),)])


@failing("recompile", cause="new-object", innocent=True)
def function_argument():
    def applied(x, function):
        return function(x) * 2

    x = torch.randn(4)
    return Check(applied, [(x, torch.sin), (x, torch.cos)])


def by_power(power):
    return lambda x: x.sin() ** power


@failing("recompile", cause="closure", innocent=True)
def function_with_another_closure():
    def applied(x, function):
        return function(x) * 2

    x = torch.randn(4)
    return Check(applied, [(x, by_power(2)), (x, by_power(3))])


@failing("recompile", cause="python-number", fixes=AS_TENSOR)
def not_a_number():
    x = torch.randn(4)
    return Check(scaled, [(x, float("nan")), (x, 0.5)])


@failing("recompile", cause="length", innocent=True)
def optional_key():
    def with_bias(x, parts):
        y = x.sin()
        return y + parts["bias"] if "bias" in parts else y

    x = torch.randn(4)
    return Check(with_bias, [(x, {"scale": x}), (x, {"bias": x})])


@failing("recompile", cause="dynamic-mark", fixes={"dynamic_dims=": options(dynamic_dims={"x": 0})})
def marked_in_one_call():
    marked = torch.randn(4, 3)
    torch._dynamo.mark_dynamic(marked, 0)
    return Check(doubled, [(torch.randn(4, 3),), (marked,)])


@failing("recompile", cause="dispatch-keys")
def tensor_made_in_inference_mode():
    with torch.inference_mode():
        made_there = torch.randn(4)
    return Check(doubled, [(torch.randn(4),), (made_there,)])


@failing("recompile", cause=("inference-mode", "grad-mode"))
def inference_mode():
    x = torch.randn(4)
    return Check(doubled, [call(x), call(x).under(torch.inference_mode)])


@failing("recompile", cause="inference-mode")
def inference_mode_after_no_grad():
    x = torch.randn(4)
    return Check(doubled, [call(x).under(torch.no_grad), call(x).under(torch.inference_mode)])


@contextlib.contextmanager
def deterministic():
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


@contextlib.contextmanager
def float64_by_default():
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


class OtherFunctions(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


@failing("recompile", cause="deterministic")
def deterministic_algorithms():
    x = torch.randn(4)
    return Check(doubled, [call(x), call(x).under(deterministic)])


@failing("recompile", cause="default-dtype")
def default_dtype():
    x = torch.randn(4)
    return Check(doubled, [call(x), call(x).under(float64_by_default)])


@failing("recompile", cause="global-state")
def torch_function_mode():
    x = torch.randn(4)
    return Check(doubled, [call(x), call(x).under(OtherFunctions)])


@failing("recompile", cause="device", innocent=True)
def meta_device():
    return Check(doubled, [(torch.randn(4),), (torch.randn(4, device="meta"),)])


# On torch 2.6 such code is compiled through a helper, where a guard on the function fails.
@failing("recompile", cause=("new-code", "new-object"), innocent=True)
def code_made_in_each_call():
    def fresh(x):
        scope = {}
        exec("def inner(x):\n    return x.sin() * 2\n", scope)
        return torch.compile(scope["inner"], backend="eager")(x)

    x = torch.randn(4)
    return Check(fresh, [(x,), (x,)], {"compile": lambda function: function})


def compiled_anew(function):
    """A wrapper that makes a backend, and with it everything else, in each call."""

    def run(*args):
        return torch.compile(function, backend=lambda graph, inputs: graph.forward)(*args)

    return run


# Before torch 2.11 no guard is named, so that the cause cannot be observed.
@failing("recompile", cause="new-backend", innocent=True, torch=">=2.11")
def backend_made_in_each_call():
    x = torch.randn(4)
    return Check(doubled, [(x,), (x,)], {"compile": compiled_anew})
