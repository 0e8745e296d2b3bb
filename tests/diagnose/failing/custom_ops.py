"""Ops of torch.library with a wrong description of themselves: what traces believe it, what runs does not."""

from __future__ import annotations

import torch

from tests.diagnose.failing.record import Check, failing
from tests.diagnose.failing.wrong_results import ITS_PLACE, stacked

X = torch.linspace(-1, 1, 8).reshape(2, 4)


@torch.library.custom_op("failing::wide", mutates_args=())
def wide(x: torch.Tensor) -> torch.Tensor:
    return x.double() / 3


@wide.register_fake
def _(x):
    return torch.empty_like(x)


def added_up(x):
    """The cast is dropped where the fake already says float32."""
    return wide(x).float().sum(-1)


@failing("metadata", stage="aot_eager")
def fake_with_another_dtype():
    return Check(added_up, [(X,)], {"backend": "aot_eager"})


@failing("metadata", stage="aot_eager", module=ITS_PLACE)
def fake_with_another_dtype_in_a_module():
    return Check(stacked(added_up).requires_grad_(False), [(X,)], {"backend": "aot_eager"})


@torch.library.custom_op("failing::halves", mutates_args=())
def halves(x: torch.Tensor) -> torch.Tensor:
    return x[..., ::2].clone()


@halves.register_fake
def _(x):
    return torch.empty_like(x)


def mean_by_hand(x):
    """Divides by a size, which is read off the fake when the graph is captured."""
    y = halves(x)
    return y.sum(-1) / y.shape[-1]


@failing("numerics", stage="eager")
def fake_with_another_size():
    return Check(mean_by_hand, [(X,)], {"backend": "aot_eager"})


@torch.library.custom_op("failing::turned", mutates_args=())
def turned(x: torch.Tensor) -> torch.Tensor:
    return x.t().contiguous().t()


@turned.register_fake
def _(x):
    return torch.empty_like(x)


def flattened(x):
    """Needs no copy by the fake's strides, and one by those of the result."""
    return turned(x).reshape(-1) * 2


@failing("exception", stage="aot_eager")
def fake_with_other_strides():
    return Check(flattened, [(X,)], {"backend": "aot_eager"})


@torch.library.custom_op("failing::fill", mutates_args=())
def fill(x: torch.Tensor) -> None:
    x.fill_(3.0)


@fill.register_fake
def _(x):
    return None


def filled(x):
    y = x.clone()
    fill(y)
    return y


@failing("numerics", stage="aot_eager")
def write_that_is_not_declared():
    """Nobody uses its result, so that it is removed as dead code."""
    return Check(filled, [(X,)], {"backend": "aot_eager"})


@torch.library.custom_op("failing::bare", mutates_args=())
def bare(x: torch.Tensor) -> torch.Tensor:
    return x.sin()


@failing("compile-error", cause="", also=frozenset({"nothing-compiled", "graph-break"}), stage="eager")
def no_fake():
    return Check(lambda x: bare(x) * 2, [(X,)], {"backend": "aot_eager"})


@failing("compile-error", also=frozenset({"nothing-compiled", "graph-break"}), stage="eager", module=ITS_PLACE)
def no_fake_in_a_module():
    return Check(stacked(bare).requires_grad_(False), [(X,)], {"backend": "aot_eager"})
