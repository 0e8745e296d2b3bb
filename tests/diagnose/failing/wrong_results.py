"""Targets whose compiled result is not eager's: a defect in one stage of the compiler, or code that invites one."""

from __future__ import annotations

from functools import partial

import torch
from torch import nn

from tests.diagnose.failing import planting
from tests.diagnose.failing.record import Check, failing, options, since, within

aten = torch.ops.aten
DECOMPOSED = {"backend": "aot_eager_decomp_partition"}
INDUCTOR = {"backend": "inductor"}


class Applied(nn.Module):
    """One function, as a module that can be found."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def stacked(function):
    """A small model in which one module holds the function."""
    block = nn.Sequential(nn.Linear(4, 4), Applied(function))
    return nn.Sequential(nn.Linear(4, 4), nn.Tanh(), block)


ITS_PLACE = "2.1"


def one_and_a_half(x):
    return x * 1.5


def lying(x):
    return x * 2 if torch.compiler.is_compiling() else x * 3


# Dynamo


@failing("numerics", stage="eager", innocent=True)
def branch_for_export():
    return Check(lying, [(torch.randn(4),)], {"backend": "aot_eager"})


@failing("numerics", stage="eager", module=ITS_PLACE, innocent=True)
def branch_for_export_in_a_module():
    return Check(stacked(lying).eval(), [(torch.randn(2, 4),)], INDUCTOR)


# Decompositions

SINH = aten.sinh.default
WRONG_SINH = partial(planting.decomposed_as, SINH, one_and_a_half)
DECOMPOSITION_LEFT_OUT = {
    "sinh": within(partial(planting.not_decomposed, SINH)),
    "backend='aot_eager'": options(backend="aot_eager"),
    "decomposition": within(partial(planting.not_decomposed, SINH)),
}


@failing("numerics", cause="sinh", stage="aot_eager_decomp_partition", fixes=DECOMPOSITION_LEFT_OUT)
def decomposition_of_a_function():
    return Check(torch.sinh, [(torch.randn(4),)], DECOMPOSED, [WRONG_SINH])


@failing("numerics", cause="sinh", stage="aot_eager_decomp_partition", module=ITS_PLACE, fixes=DECOMPOSITION_LEFT_OUT)
def decomposition_in_a_module():
    return Check(stacked(torch.sinh), [(torch.randn(2, 4),)], DECOMPOSED, [WRONG_SINH])


@failing("numerics", cause="sinh", stage="aot_eager_decomp_partition", module=ITS_PLACE, fixes=DECOMPOSITION_LEFT_OUT)
def decomposition_in_a_module_with_inductor():
    return Check(stacked(torch.sinh), [(torch.randn(2, 4),)], INDUCTOR, [planting.inductor, WRONG_SINH])


# Inductor

ATAN, TAN = aten.atan.default, aten.tan.default
LEFT_TO_ATEN = {"atan": within(partial(planting.left_to_aten, ATAN))}


@failing("numerics", cause="atan", stage="inductor", fixes=LEFT_TO_ATEN)
def lowering_of_a_function():
    return Check(torch.atan, [(torch.randn(4),)], INDUCTOR, [partial(planting.lowered_as, ATAN, TAN)])


@failing("numerics", cause="atan", stage="inductor", module=ITS_PLACE, fixes=LEFT_TO_ATEN)
def lowering_in_a_module():
    return Check(stacked(torch.atan), [(torch.randn(2, 4),)], INDUCTOR, [partial(planting.lowered_as, ATAN, TAN)])


@failing("numerics", cause="atan", stage="inductor", fixes=LEFT_TO_ATEN)
def kernel_of_a_function():
    return Check(torch.atan, [(torch.randn(64),)], INDUCTOR, [partial(planting.generated_as, "atan", "tanh")])


@failing(
    "numerics",
    cause="atan",
    stage="inductor",
    # Torch 2.6 drops options that may be None, such as this one.
    fixes={**LEFT_TO_ATEN, **since("2.8", {"simdlen": options(backend="inductor", options={"cpp.simdlen": 1})})},
)
def vectorised_kernel():
    defect = partial(planting.generated_as, "atan", "tanh", only_vectors=True)
    return Check(torch.atan, [(torch.randn(64),)], INDUCTOR, [defect])


@failing(
    "numerics",
    stage="inductor",
    module=ITS_PLACE,
    fixes={"post_grad_custom_post_pass": within(partial(planting.inductor, post_grad_custom_post_pass=None))},
)
def pass_of_the_user():
    wrong = planting.replacing(ATAN, aten.sin.default)
    switch = partial(planting.inductor, post_grad_custom_post_pass=wrong)
    return Check(stacked(torch.atan), [(torch.randn(2, 4),)], INDUCTOR, [switch])


@failing("numerics", stage="inductor", fixes={"pattern_matcher": options(options={"pattern_matcher": False})})
def pattern_of_the_matcher():
    return Check(torch.atan, [(torch.randn(4),)], INDUCTOR, [partial(planting.pattern, ATAN, aten.sin.default)])


CAST = torch.ops.prims.convert_element_type.default


def through_double(x):
    return (x.double() / 3).float()


@failing(
    "numerics",
    cause="prims.convert_element_type",
    stage="inductor",
    module=ITS_PLACE,
    fixes={"convert_element_type": within(partial(planting.left_to_aten, CAST))},
)
def cast_by_way_of_a_lower_precision():
    model = stacked(through_double)
    return Check(model, [(torch.randn(2, 4),)], INDUCTOR, [planting.float32_by_way_of_float16])


def passes_a_step(x):
    """In bfloat16 nothing is above the step; with the precision that fused code keeps in between, everything is."""
    return (x + 0.001) > x


@failing(
    "numerics",
    cause=("add", "gt"),
    stage="inductor",
    fixes={
        **since("2.13", {"emulate_precision_casts": options(options={"emulate_precision_casts": True})}),
        "op: ": within(partial(planting.left_to_aten, aten.add.Tensor)),
    },
)
def rounding_that_fused_code_leaves_out():
    return Check(passes_a_step, [(torch.ones(8, dtype=torch.bfloat16),)], INDUCTOR, [planting.inductor])


# Training


def leaf(*shape):
    return torch.randn(*shape, requires_grad=True)


@failing("gradient", stage="aot_eager_decomp_partition")
def partition_with_decompositions():
    defect = partial(planting.partitioned_with_wrong_gradients, only_for_inductor=True)
    return Check(torch.sin, [(leaf(4),)], {**DECOMPOSED, "train": True}, [defect])


@failing("gradient", stage="aot_eager", module=("0", "1", "2.0", "2.1"))
def partition():
    """Every module that has a backward is wrong."""
    defect = partial(planting.partitioned_with_wrong_gradients, only_for_inductor=False)
    return Check(stacked(torch.sin), [(leaf(2, 4),)], {**DECOMPOSED, "train": True}, [defect])


class HalvedGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.sin()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * (0.5 if torch.compiler.is_compiling() else 1.0)


# Before torch 2.11 the graph breaks where a module is given the apply of a function with a backward.
@failing("gradient", stage="eager", module=ITS_PLACE, innocent=True, torch=">=2.11")
def backward_of_a_custom_function():
    model = stacked(HalvedGradient.apply)
    return Check(model, [(torch.randn(2, 4),)], {"backend": "aot_eager", "train": True})
