"""Eager with disturbed rounding: off by a little, the same random numbers, nothing moved that was not rounded."""

from __future__ import annotations

import re

import pytest
import torch
from torch import nn

from pytest_torch_compile import CompileCheckFailed, check_compile
from pytest_torch_compile._torch import perturbed_rounding as shaking
from pytest_torch_compile._torch.perturbed_rounding import PerturbedRounding
from pytest_torch_compile.legs.calls import call
from pytest_torch_compile.legs.extra_legs import LEAST_RUNS, RUNS, STRONG_RUNS, PerturbedLeg, PerturbedLegs
from pytest_torch_compile.legs.leg import Leg
from pytest_torch_compile.legs.work import Work
from pytest_torch_compile.report.failure_text import failure_text


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_a_half_type_moves_by_single_steps_in_few_places(dtype):
    x = torch.randn(100, 100, generator=torch.Generator().manual_seed(0)).to(dtype)
    with PerturbedRounding(1):
        moved = x * 1
    off = ((moved.double() - x.double()) / x.double()).abs()
    assert 0.04 < float((off > 0).double().mean()) < 0.13
    assert float(off.max()) <= torch.finfo(dtype).eps


def test_numbers_stored_in_inference_mode_serve_training():
    shaking._stored_steps.cache_clear()
    x = torch.ones(100, requires_grad=True)
    with torch.inference_mode(), PerturbedRounding(1):
        assert not torch.equal(x * 1, x)
    with PerturbedRounding(1):
        (x * x).sum().backward()
    assert not torch.equal(x.grad, torch.full((100,), 2.0))


def test_fp32_moves_by_about_an_eps():
    x = torch.ones(100, 100)
    with PerturbedRounding(1):
        off = ((x * 1).double() - 1) / torch.finfo(torch.float32).eps
    assert 0.5 < float(off.square().mean().sqrt()) < 1.5


SUMS = {
    "mm": (lambda x, w: x @ w, (64, 2048), (2048, 32), 2048),
    "one row": (lambda x, w: x @ w, (1, 2048), (2048, 256), 2048),
    "bmm": (torch.bmm, (4, 64, 512), (4, 512, 32), 512),
    "conv2d": (lambda x, w: nn.functional.conv2d(x, w, padding=1), (2, 64, 16, 16), (32, 64, 3, 3), 576),
    "conv1d": (nn.functional.conv1d, (2, 64, 100), (32, 64, 3), 192),
    "grouped": (lambda x, w: nn.functional.conv2d(x, w, groups=8), (2, 512, 8, 8), (64, 64, 1, 1), 64),
    "transposed": (nn.functional.conv_transpose2d, (2, 64, 16, 16), (64, 32, 2, 2), 256),
    "pooled": (nn.functional.conv2d, (2, 640, 1, 1), (256, 640, 1, 1), 640),
}


@pytest.mark.parametrize(("function", "x", "weight", "terms"), SUMS.values(), ids=SUMS)
def test_a_sum_moves_with_the_root_of_its_length_also_where_its_terms_cancel(function, x, weight, terms):
    generator = torch.Generator().manual_seed(0)
    x, weight = torch.randn(x, generator=generator), torch.randn(weight, generator=generator)
    exact = function(x, weight).double()
    with PerturbedRounding(1):
        off = function(x, weight).double() - exact
    expected = max(1.0, 0.15 * terms**0.5) * torch.finfo(torch.float32).eps * exact.square().mean().sqrt()
    smallest = exact.abs().flatten().argsort()[: exact.numel() // 10]
    assert 0.7 * expected < off.square().mean().sqrt() < 1.3 * expected
    assert 0.5 * expected < off.flatten()[smallest].square().mean().sqrt() < 1.5 * expected


def test_gradients_of_a_convolution_move_with_the_root_of_their_length():
    x, weight, bias = (torch.randn(shape, requires_grad=True) for shape in ((2, 8, 64, 64), (16, 8, 3, 3), (16,)))
    cotangent = torch.randn(2, 16, 64, 64)

    def gradients():
        output = nn.functional.conv2d(x, weight, bias, padding=1)
        return torch.autograd.grad(output, (x, weight, bias), cotangent)

    exact = gradients()
    with PerturbedRounding(1):
        moved = gradients()
    for terms, one, other in zip((16 * 9, 2 * 64 * 64, 2 * 64 * 64), exact, moved, strict=True):
        size = (other.double() - one.double()).square().mean().sqrt() / one.double().square().mean().sqrt()
        assert 0.5 < size / (0.15 * terms**0.5 * torch.finfo(torch.float32).eps) < 2


def test_a_channel_of_small_numbers_stays_as_exact_as_a_channel_of_large_ones():
    weight = torch.randn(2, 64, 3, 3) * torch.tensor([1.0, 1e-6]).view(2, 1, 1, 1)
    x = torch.randn(1, 64, 32, 32)
    exact = nn.functional.conv2d(x, weight).double()
    with PerturbedRounding(1):
        moved = nn.functional.conv2d(x, weight).double()
    off = (moved - exact).square().mean((0, 2, 3)).sqrt() / exact.square().mean((0, 2, 3)).sqrt()
    assert float(off.max()) < 10 * torch.finfo(torch.float32).eps


@pytest.mark.parametrize("value", [0.0, float("inf"), float("nan")])
def test_sums_of_special_values_stay(value):
    x = torch.full((4, 8), value)
    with PerturbedRounding(1):
        result = x @ torch.ones(8, 3)
    torch.testing.assert_close(result, x[:, :3], equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2], ids=str)
def test_a_float8_type_moves_by_single_steps_and_never_to_infinity(dtype):
    x = torch.randn(200, 100, generator=torch.Generator().manual_seed(0)).clamp(-4, 4)
    x[0] = torch.finfo(dtype).max
    with PerturbedRounding(1):
        moved = x.to(dtype)
    exact = x.to(dtype).float()
    off = (moved.float() - exact).abs() / exact.abs().clamp(min=torch.finfo(dtype).smallest_normal)
    assert moved.float().isfinite().all()
    assert 0.02 < float((off > 0).double().mean()) < 0.13
    assert float(off.max()) <= torch.finfo(dtype).eps


LAYOUTS = {
    "contiguous": lambda x: x.contiguous(),
    "channels last": lambda x: x.contiguous(memory_format=torch.channels_last),
    "transposed": lambda x: x.transpose(0, 3).contiguous().transpose(0, 3),
    "with gaps": lambda x: torch.stack([x, x], -1)[..., 0],
}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("part", [2**16, 1000, 7])
def test_all_elements_of_a_large_tensor_are_perturbed_independently(monkeypatch, layout, part):
    monkeypatch.setattr(shaking, "PART", part)
    x = layout(torch.randn(4, 6, 40, 50, generator=torch.Generator().manual_seed(0)))
    with PerturbedRounding(1):
        off = ((x * 1).double() / x.double() - 1) / torch.finfo(torch.float32).eps
    assert 0.9 < float(off.square().mean().sqrt()) < 1.1
    for dim in range(4):
        slices = off.transpose(0, dim).flatten(1)
        correlation = (slices[0] * slices[1]).mean() / off.square().mean()
        assert abs(float(correlation)) < 5 / slices[0].numel() ** 0.5


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_a_sum_is_perturbed_alike_in_every_layout(monkeypatch, layout):
    monkeypatch.setattr(shaking, "PART", 1000)
    x, weight = torch.randn(4, 6, 40, 50), torch.randn(8, 6, 3, 3)
    exact = nn.functional.conv2d(x, weight)
    with PerturbedRounding(1):
        off = nn.functional.conv2d(layout(x), weight).double() - exact
    expected = torch.finfo(torch.float32).eps * exact.square().mean((0, 2, 3)).sqrt()
    assert ((off.square().mean((0, 2, 3)).sqrt() / expected - 1.1).abs() < 0.3).all()


def test_results_that_are_not_rounded_stay():
    x = torch.randn(50, 50).bfloat16()
    with PerturbedRounding(1):
        results = [x.relu(), x.clone(), torch.cat([x, x]), x.t(), -x, x.argmax(), torch.zeros_like(x), x.amax(1)]
    expected = [x.relu(), x.clone(), torch.cat([x, x]), x.t(), -x, x.argmax(), torch.zeros_like(x), x.amax(1)]
    assert all(torch.equal(one, two) for one, two in zip(results, expected, strict=True))


def test_buckets_of_positions_stay_as_they_are():
    """Seen in DeBERTa: logarithms of positions, divided by one of a constant, are exactly at the edges of buckets."""

    def buckets(positions):
        return torch.ceil(torch.log(positions / 4) / torch.log(torch.tensor(4.0)) * 3)

    positions = 2 ** torch.arange(3, 9)
    given = positions.float()
    expected = buckets(positions)
    moved = 0
    for seed in range(8):
        with PerturbedRounding(seed):
            assert torch.equal(buckets(positions), expected)
            moved += not torch.equal(buckets(given), expected)
    assert moved, "what is made of numbers may fall on either side of an edge"


def test_infinities_and_masks_stay_finite_or_not_as_they_are():
    x = torch.tensor([torch.finfo(torch.bfloat16).min, torch.inf, 0.0, torch.nan]).bfloat16().repeat(500)
    with PerturbedRounding(1):
        moved = x * 1
    assert torch.equal(moved.isfinite(), x.isfinite())
    assert torch.equal(moved.isnan(), x.isnan())


def test_a_leg_draws_the_numbers_that_eager_draws():
    module = nn.Sequential(nn.Linear(32, 32), nn.Dropout(0.5))
    work = Work(module, [call(torch.randn(16, 32))], train=True)
    eager, shaken = Leg(work).run(0), PerturbedLeg(work, 1).run(0)
    one, other = (record.output.leaves["output"] for record in (eager, shaken))
    assert torch.equal(one == 0, other == 0)
    assert not torch.equal(one, other)
    torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    assert not torch.equal(eager.grads["0.weight"], shaken.grads["0.weight"])
    assert torch.equal(eager.rng["cpu"], shaken.rng["cpu"])


def test_every_leg_rounds_in_its_own_way_and_the_same_way_again():
    work = Work(nn.Linear(32, 32), [call(torch.randn(16, 32))] * 2)
    first, second = (
        [r.output.leaves["output"] for r in PerturbedLegs(work).records(1, strong=False)] for _ in range(2)
    )
    assert len(first) == RUNS
    assert all(torch.equal(one, two) for one, two in zip(first, second, strict=True))
    assert not torch.equal(first[0], first[1])


@pytest.mark.parametrize("shape", [(100,), (600, 200)], ids=str)
def test_strong_runs_move_numbers_four_times_as_far(shape):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))

    def moved(strength):
        with PerturbedRounding(1, strength):
            return (x * 1).double() - x.double()

    assert moved(4.0).square().mean().sqrt() / moved(1.0).square().mean().sqrt() == pytest.approx(4, rel=0.1)


def test_strong_runs_round_differently_from_each_other():
    work = Work(nn.Linear(32, 32), [call(torch.randn(16, 32))])
    outputs = [record.output.leaves["output"] for record in PerturbedLegs(work).records(0, strong=True)]
    assert len(outputs) == STRONG_RUNS and not torch.equal(outputs[0], outputs[1])


def test_what_backward_starts_from_is_not_moved():
    outputs = [torch.zeros(50, 50, dtype=dtype, requires_grad=True) for dtype in (torch.float32, torch.bfloat16)]
    work = Work(lambda x: x, [call(outputs[0])], train=True)
    shaken = PerturbedLeg(work, 1)
    with shaken._perturbed:
        moved = shaken._cotangents(outputs, 0)
    assert all(torch.equal(one, two) for one, two in zip(moved, Leg(work)._cotangents(outputs, 0), strict=True))


def test_large_models_get_fewer_runs(monkeypatch):
    monkeypatch.setattr("pytest_torch_compile.legs.extra_legs.SECONDS", 0.0)
    work = Work(nn.Linear(32, 32), [call(torch.randn(16, 32))])
    assert len(list(PerturbedLegs(work).records(0, strong=False))) == LEAST_RUNS


class Gates(nn.Module):
    """Some pre-activations are one step above 0; compiled code rounds some of them down, as it may."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(64, 64, bias=False), nn.Linear(64, 8, bias=False)
        self.register_buffer("below", torch.zeros(32, 64))
        self.register_buffer("rounded_down", torch.zeros(32, 64, dtype=torch.bool))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        half = self.first(x)
        if torch.compiler.is_compiling():
            half = torch.where(self.rounded_down, self.below, half)
        return self.last(torch.relu(half - self.below))


def gates(shut: int) -> tuple[nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    module, x = Gates(), torch.randn(32, 64)
    half = module.bfloat16().first(x.bfloat16()).detach()
    module.below[:, 2:8] = half[:, 2:8] * (1 - torch.finfo(torch.bfloat16).eps * half[:, 2:8].sign())
    module.rounded_down[:shut, 2] = True
    return module, x.bfloat16()


@pytest.mark.parametrize("shut", [0, 1])
def test_a_gate_that_rounding_shuts_is_no_finding_and_is_told(shut):
    module, x = gates(shut)
    report = check_compile(module, x, train=True, backend="eager")
    assert report.numerics.ill_conditioned == shut
    assert ("no larger than the errors of eager runs with perturbed" in str(failure_text(report))) == bool(shut)


class Variance(nn.Module):
    """Compiled code adds a relative error to the mean of the squares, which cancels."""

    def __init__(self, error: float) -> None:
        super().__init__()
        self.error = error

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        squares = x.square() * (1 + self.error if torch.compiler.is_compiling() else 1)
        return squares.mean(-1) - x.mean(-1).square()


def test_an_output_that_passes_with_a_large_error_is_mentioned():
    torch.manual_seed(0)
    report = check_compile(Variance(1e-7), 1000 + torch.randn(64, 256), backend="eager")
    (remark,) = report.remarks
    assert re.fullmatch(r"output passes with an error of [\d.]+%, because the code amplifies.*in float64", remark)


def test_the_small_error_of_code_that_does_not_amplify_rounding_is_not_mentioned():
    torch.manual_seed(0)
    assert not check_compile(Variance(1e-7), torch.randn(64, 256), backend="eager").remarks


def test_gradients_that_consist_of_rounding_errors_are_not_mentioned():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU())
    assert not check_compile(model, torch.randn(4, 3, 8, 8), train=True).remarks


def test_gates_that_no_rounding_shuts_together_are_a_finding():
    module, x = gates(32)
    with pytest.raises(CompileCheckFailed, match="with perturbed rounding"):
        check_compile(module, x, train=True, backend="eager")
