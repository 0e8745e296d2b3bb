"""Targets that break the graph: each category of reasons, and what people write most often."""

from __future__ import annotations

import contextlib
import logging
import warnings
from functools import partial

import torch
from torch import nn

from tests.diagnose.failing.record import Check, failing, options, padded, since, target, within

X = torch.linspace(-1, 2, 4)
# On newer torch, fullgraph captures by itself what the default mode breaks on.
DEFAULT_MODE = {"backend": "eager", "fullgraph": False}
logger = logging.getLogger("a library")


def config(**settings):
    return partial(torch._dynamo.config.patch, **settings)


def sine(x):
    return x.sin() * 2


# Side effects


@failing(
    "graph-break",
    cause="call to print or a logger",
    fixes={
        "print": target(sine),
        "reorderable_logging_functions": within(config(reorderable_logging_functions={print})),
    },
)
def prints():
    def printing(x):
        y = x.sin()
        print("sum", y.sum())
        return y * 2

    return Check(printing, [(X,)])


@failing(
    "graph-break",
    cause="call to print or a logger",
    fixes={"logg": target(sine), "ignore_logger_methods": within(config(ignore_logger_methods={logging.Logger.info}))},
)
def logs():
    def logging_(x):
        y = x.sin()
        logger.info("computed")
        return y * 2

    return Check(logging_, [(X,)])


@contextlib.contextmanager
def silent():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@failing("graph-break", cause=("call to print or a logger", "function that dynamo skips"), fixes={"warn": target(sine)})
def warns():
    def warning(x):
        y = x.sin()
        warnings.warn("deprecated", stacklevel=2)
        return y * 2

    return Check(warning, [(X,)], contexts=[silent])


# Values of tensors


def chosen(x):
    y = x.sin()
    return torch.where(x.sum() > 0, y * 2, y - 1)


@failing(
    "graph-break", cause="data-dependent branch", fixes={"torch.where": target(chosen), "torch.cond": target(chosen)}
)
def branch_on_a_sum():
    def branching(x):
        y = x.sin()
        if x.sum() > 0:
            return y * 2
        return y - 1

    return Check(branching, [(X,)])


def guarded(x):
    y = x.sin()
    return torch.where((y < 0).any(), y.abs(), y)


@failing(
    "graph-break", cause="data-dependent branch", fixes={"torch.where": target(guarded), "torch.cond": target(guarded)}
)
def branch_that_assigns():
    def branching(x):
        y = x.sin()
        if (y < 0).any():
            y = y.abs()
        return y

    return Check(branching, [(X,)])


@failing("graph-break", cause="data-dependent branch")
def loop_until_small():
    def halving(x):
        while x.abs().max() > 0.5:
            x = x / 2
        return x.sin()

    return Check(halving, [(X,)])


def normalised(x):
    return x / x.abs().max()


SCALAR = {
    ".item()": target(normalised),
    "x.abs().max()`": target(normalised),
    "capture_scalar_outputs": within(config(capture_scalar_outputs=True)),
}


@failing("graph-break", cause="scalar from a tensor", fixes=SCALAR)
def item_as_number():
    def scaled(x):
        return x / x.abs().max().item()

    return Check(scaled, [(X,)], DEFAULT_MODE)


@failing("graph-break", cause="scalar from a tensor", fixes=SCALAR)
def float_of_a_tensor():
    def scaled(x):
        return x / float(x.abs().max())

    return Check(scaled, [(X,)], DEFAULT_MODE)


@failing("graph-break", cause="scalar from a tensor")
def items_in_a_list():
    def total(x):
        values = x.sin().tolist()
        return x * sum(values)

    return Check(total, [(X,)], DEFAULT_MODE)


FULLGRAPH = since("2.11", {"fullgraph": options(fullgraph=True)})
CAPTURE_SHAPES = {
    **FULLGRAPH,
    "capture_dynamic_output_shape_ops": within(config(capture_dynamic_output_shape_ops=True)),
}


@failing("graph-break", cause="dynamic output shape", fixes=CAPTURE_SHAPES)
def nonzero():
    return Check(lambda x: torch.nonzero(x.relu()).sum(), [(X,)], DEFAULT_MODE)


@failing("graph-break", cause="dynamic output shape", fixes=CAPTURE_SHAPES)
def boolean_mask():
    def positive(x):
        return x[x > 0].sum()

    return Check(positive, [(X,)], DEFAULT_MODE)


@failing("graph-break", cause="dynamic output shape", fixes=CAPTURE_SHAPES)
def unique():
    def distinct(x):
        return torch.unique(x.round()).sum()

    return Check(distinct, [(X,)], DEFAULT_MODE)


REFUSES = "`if torch.isnan(x).any(): raise"


@failing("graph-break", cause="data-dependent branch", fixes={f"remove {REFUSES}": target(sine)})
def refusal_of_nan():
    def refusing(x):
        if torch.isnan(x).any():
            raise ValueError("not a number")
        return x.sin() * 2

    return Check(refusing, [(X,)])


@failing(
    "graph-break",
    cause=("scalar from a tensor", "dynamic output shape"),
    fixes=since("2.8", {**FULLGRAPH, "capture_scalar_outputs": within(config(capture_scalar_outputs=True))}),
)
def size_from_a_tensor():
    def rows(x):
        return x.sum() + torch.ones(int(x.abs().sum())).sum()

    return Check(rows, [(X,)], DEFAULT_MODE)


@failing("graph-break", cause="dynamic output shape", fixes=CAPTURE_SHAPES)
def repeated_rows():
    def repeating(x):
        return torch.repeat_interleave(x, x.abs().long()).sum()

    return Check(repeating, [(X,)], DEFAULT_MODE)


class Clip(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        print("clipping")
        return x.clamp(-1, 1)

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class QuietClip(Clip):
    @staticmethod
    def forward(ctx, x):
        return x.clamp(-1, 1)


def clipped(function):
    return lambda x: function.apply(x.sin()) + 1


REORDERED = since("2.8", {"reorderable": within(config(reorderable_logging_functions={print}))})


@failing(
    "graph-break",
    cause="call to print or a logger",
    fixes={"print": target(clipped(QuietClip)), **REORDERED},
)
def custom_autograd_function():
    return Check(clipped(Clip), [(X.clone().requires_grad_(),)], {"backend": "eager", "train": True})


class Loss(nn.Module):
    def __init__(self, known):
        super().__init__()
        self.known = known

    def forward(self, prediction, label):
        if not self.known:
            logger.warning("no loss is named")
        return (prediction - label).square().mean()


@failing(
    "graph-break", cause="call to print or a logger", fixes={"loss": target(Loss(True)), "logg": target(Loss(True))}
)
def loss_that_warns():
    prediction = torch.randn(3, requires_grad=True)
    return Check(Loss(False), [(prediction, torch.zeros(3))], {"backend": "eager", "train": True})


# More calls than torch compiles for


def named(x, name):
    return x.sin() if name == "a" else x.cos()


@failing("eager-fallback", cause="python-string", also=frozenset({"recompile"}), innocent=True)
def too_many_names():
    return Check(named, [(X, name) for name in "abcdefghijkl"], {"backend": "eager", "fullgraph": False})


@failing(
    "eager-fallback",
    cause="size",
    also=frozenset({"recompile"}),
    fixes={
        "dynamic=True": options(dynamic=True),
        "dynamic_dims=": options(dynamic=None, dynamic_dims={"x": 0}),
        "pad ": padded(16),
    },
)
def too_many_sizes():
    sequence = [(torch.randn(size),) for size in range(2, 14)]
    return Check(sine, sequence, {"backend": "eager", "fullgraph": False, "dynamic": False})
