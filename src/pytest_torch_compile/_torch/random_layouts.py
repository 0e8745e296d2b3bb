"""Make Inductor's random ops draw the same numbers as eager, whichever memory layouts Inductor chooses.

With ``fallback_random``, Inductor calls eager's random ops. An op such as dropout draws a number for each element, in
the order of the elements in memory. Inductor may choose a different order, for example channels last for convolutions.
To give each element the same number as in eager, the inputs of random ops keep eager's strides.

torch does this itself for dropout in 2.15, but not for ``rand_like``. See https://github.com/pytorch/pytorch/issues/174078.

This module uses these private torch names, checked with torch 2.6, 2.8, 2.11, 2.13 and 2.15:
``torch._inductor.lowering.add_layout_constraint`` and ``constrain_to_fx_strides``.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

_OPS = (
    "native_dropout rand_like randn_like randint_like bernoulli bernoulli_ rrelu_with_noise normal normal_ poisson "
    "uniform uniform_ exponential exponential_ geometric cauchy log_normal random random_"
)


@functools.cache
def keep_layouts_of_random_ops() -> None:
    """Keep the strides of random ops' inputs in all later compilations of this process that use ``fallback_random``.

    Importing Inductor's lowerings takes about a second, so call this function only before code is compiled.
    """
    from torch._inductor import config, lowering

    def eager_strides(node: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        if not config.fallback_random:
            return args, kwargs
        constrained: tuple[Any, Any] = lowering.constrain_to_fx_strides(node, *args, **kwargs)
        return constrained

    for name in _OPS.split():
        if hasattr(torch.ops.aten, name):
            lowering.add_layout_constraint(getattr(torch.ops.aten, name), eager_strides)
