"""Eager with perturbed rounding in 16-bit dtypes: the systematic errors of fused code, and nothing else."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from pytest_torch_compile import CompileCheckFailed, Tolerances, check_compile
from pytest_torch_compile._torch.narrow_rounding import sum_before_rounding
from pytest_torch_compile._torch.perturbed_rounding import PerturbedRounding

HALVES = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def perturbed(function, *inputs, seed):
    with PerturbedRounding(seed):
        return function(*inputs)


@HALVES
@pytest.mark.parametrize("seed", range(4))
def test_ties_are_rounded_in_the_direction_of_the_run(dtype, seed):
    eps = torch.finfo(dtype).eps
    ties = torch.full((10_000,), eps / 2)
    for term in (ties.to(dtype), eps / 2):
        total = perturbed(lambda x, term=term: x + term, torch.ones(10_000, dtype=dtype), seed=seed)
        expected = 1 + eps if seed % 4 < 2 else 1.0
        assert float((total == expected).double().mean()) > 0.85, "the others changed by an ulp"


@HALVES
@pytest.mark.parametrize("function", [torch.add, torch.sub, torch.rsub, lambda x, y: x.add_(y), lambda x, y: x.sub_(y)])
def test_sums_that_are_not_ties_are_rounded_as_before(dtype, function):
    x, y = random(10_000).to(dtype), random(10_000, seed=1).to(dtype) / 8
    exact = function(x.double(), y.double())
    changed = {}
    for seed in (0, 2):
        total = perturbed(function, x.clone(), y, seed=seed)
        assert total.dtype is dtype
        changed[seed] = float(((total.double() - exact).abs() > torch.finfo(dtype).eps * exact.abs()).double().mean())
    assert max(changed.values()) < 0.05


def test_only_sums_of_16_bit_numbers_are_computed_again():
    x = torch.ones(3, dtype=torch.bfloat16)
    add = torch.ops.aten.add.Tensor
    assert torch.equal(sum_before_rounding(add, (x, x), {"alpha": 2}), torch.full((3,), 3.0))
    assert sum_before_rounding(add, (x, x.float()), {}) is None
    assert sum_before_rounding(add, (x.float(), x.float()), {}) is None
    assert sum_before_rounding(torch.ops.aten.mul.Tensor, (x, x), {}) is None


def test_ties_of_constants_are_not_rounded_again():
    with PerturbedRounding(0):
        assert torch.equal(torch.ones(100, dtype=torch.bfloat16) + 2**-8, torch.ones(100, dtype=torch.bfloat16))


@HALVES
def test_an_odd_run_moves_a_channel_in_one_direction(dtype):
    x = 1 + torch.rand(4, 32, 64, 64, generator=torch.Generator().manual_seed(0)).to(dtype)
    moves = {}
    for seed in (1, 2):
        off = (perturbed(lambda x: x * 1, x, seed=seed) - x).double()
        moves[seed] = [{float(value) for value in channel.sign().unique()} - {0.0} for channel in off.unbind(1)]
    assert all(len(directions) == 1 for directions in moves[1]), "one direction for each channel"
    assert {direction for one in moves[1] for direction in one} == {-1.0, 1.0}
    assert all(len(directions) == 2 for directions in moves[2])


@HALVES
def test_subnormal_numbers_move_by_their_ulp_and_zeros_do_not_move(dtype):
    smallest = torch.finfo(dtype).tiny * torch.finfo(dtype).eps
    x = torch.tensor([3 * smallest, 0.0]).to(dtype).repeat(10_000)
    moved = perturbed(lambda x: x * 1, x, seed=2)
    assert {float(value) for value in moved[::2].unique()} == {2 * smallest, 3 * smallest, 4 * smallest}
    assert not moved[1::2].any()


class Blocks(nn.Module):
    """Residual blocks whose batch norms, in eval mode with initial statistics, multiply by 0.999995. With ``shift``,
    the compiled code adds a constant to each channel."""

    def __init__(self, shift=0.0):
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv2d(32, 32, 3, padding=1, bias=False) for _ in range(4))
        self.norms = nn.ModuleList(nn.BatchNorm2d(32) for _ in range(4))
        self.shift = shift

    def forward(self, x):
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = torch.relu(x + norm(conv(x)))
        return x + self.shift if torch.compiler.is_compiling() else x


@HALVES
def test_residual_blocks_pass_although_fused_code_rounds_all_ties_in_one_direction(dtype):
    torch.manual_seed(0)
    model, x = Blocks().to(dtype).eval(), random(2, 32, 28, 28).to(dtype)
    report = check_compile(model, x)
    assert report.numerics.ill_conditioned == 1, "eager without perturbed rounding does not explain the errors"


@HALVES
def test_a_constant_that_compiled_code_adds_to_all_channels_is_found(dtype):
    torch.manual_seed(0)
    model, x = Blocks(shift=2 * torch.finfo(dtype).eps).to(dtype).eval(), random(2, 32, 28, 28).to(dtype)
    with pytest.raises(CompileCheckFailed, match="numerics"):
        check_compile(model, x, tolerances=Tolerances(state=False), diagnose="off")
