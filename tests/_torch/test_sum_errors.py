"""The size of rounding errors of sums: compared with sums that are really added one after the other."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from pytest_torch_compile._torch.perturbed_rounding import PerturbedRounding
from pytest_torch_compile._torch.sum_errors import LONGEST_SUM, SUM_EPS

EPS = torch.finfo(torch.float32).eps


def one_after_the_other(terms: torch.Tensor) -> torch.Tensor:
    total = torch.zeros(terms.shape[1:])
    for term in terms:
        total = total + term
    return total


def rms(values: torch.Tensor) -> float:
    return float(values.detach().double().square().mean().sqrt())


@pytest.mark.parametrize("mean", [0.0, 1.0])
@pytest.mark.parametrize("length", [100, 2000])
def test_a_perturbed_sum_is_as_wrong_as_one_that_is_added_one_after_the_other(length, mean):
    terms = torch.randn(length, 500, generator=torch.Generator().manual_seed(0)) + mean
    exact = terms.double().sum(0)
    with PerturbedRounding(1):
        perturbed = terms.sum(0)
    assert 0.5 < rms(perturbed - exact) / rms(one_after_the_other(terms) - exact) < 2


def test_a_perturbed_sum_whose_terms_cancel_is_not_zero():
    terms = torch.randn(1000, 500, generator=torch.Generator().manual_seed(0))
    terms = torch.cat([terms, -terms.flip(0)])
    with PerturbedRounding(1):
        perturbed = terms.sum(0)
    assert 0.3 < rms(perturbed) / (SUM_EPS * EPS * 2000) < 3


def test_a_very_long_sum_is_computed_in_parts():
    terms = torch.rand(2**18, 50)
    with PerturbedRounding(1):
        total = terms.sum(0)
    assert 0.5 < rms(total / terms.double().sum(0) - 1) / (SUM_EPS * LONGEST_SUM**0.5 * EPS) < 2


NORMS = {
    "batch": (nn.BatchNorm2d(8), (4, 8, 16, 16), (0, 2, 3)),
    "layer": (nn.LayerNorm(64), (4, 16, 64), (0, 1)),
    "group": (nn.GroupNorm(2, 8), (4, 8, 16, 16), (0, 2, 3)),
    "instance": (nn.InstanceNorm2d(8, affine=True), (4, 8, 16, 16), (0, 2, 3)),
}


@pytest.mark.parametrize(("norm", "shape", "summed"), NORMS.values(), ids=NORMS)
def test_errors_of_a_normalization_do_not_cancel_in_sums(norm, shape, summed):
    """The elements of a channel share the errors of the channel's mean, so a sum over the channel is off by more."""
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0), requires_grad=True)
    cotangent = torch.randn(shape, generator=torch.Generator().manual_seed(1)) + 1

    def run():
        output = norm(x)
        return output.detach(), *torch.autograd.grad(output, [x, *norm.parameters()], cotangent)

    exact = run()
    with PerturbedRounding(1):
        perturbed = run()
    for one, other in zip(exact, perturbed, strict=True):
        assert EPS / 4 < rms(other - one) / rms(one) < 100 * EPS
    shift = (perturbed[1].double() - exact[1].double()).sum(summed if norm.__class__ is not nn.LayerNorm else -1)
    terms = x.numel() / shift.numel()
    assert rms(shift) > 2 * terms**0.5 * EPS * rms(exact[1])


@pytest.mark.parametrize("norm", [nn.BatchNorm1d(4), nn.LayerNorm(4), nn.GroupNorm(2, 4)], ids=str)
@pytest.mark.parametrize("value", [0.0, 1.0, float("inf"), float("nan")])
def test_special_values_stay(norm, value):
    x = torch.full((3, 4), value, requires_grad=True)
    exact = norm(x)
    with PerturbedRounding(1):
        perturbed = norm(x)
        perturbed.sum().backward()
    torch.testing.assert_close(perturbed, exact, equal_nan=True)


def test_the_gradient_of_a_bias_before_a_batch_norm_is_perturbed_by_the_size_of_its_terms():
    convolution, norm = nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16)
    x = torch.randn(4, 3, 32, 32)

    def bias_gradient():
        output = norm(convolution(x)).relu().square().sum()
        return torch.autograd.grad(output, convolution.bias)[0]

    exact = bias_gradient()
    with PerturbedRounding(1):
        perturbed = bias_gradient()
    assert rms(perturbed) > 3 * rms(exact)


def added_one_after_the_other(x: torch.Tensor) -> torch.Tensor:
    """Return the mean of each channel as Inductor computes it on a CPU: with Welford's algorithm."""
    mean = torch.zeros(x.shape[1])
    for count, elements in enumerate(x.transpose(0, 1).flatten(1).unbind(1), start=1):
        mean = mean + (elements - mean) * (1 / count)
    return mean


@pytest.mark.parametrize("mean", [1.0, 20.0])
@pytest.mark.parametrize("size", [4, 16, 32])
def test_a_perturbed_batch_norm_is_as_wrong_as_one_that_averages_elements_one_after_the_other(size, mean):
    """Images in [0, 1] have channels whose mean is larger than their deviation."""
    x = torch.randn(4, 64, size, size, generator=torch.Generator().manual_seed(0)) + mean
    norm = nn.BatchNorm2d(64, momentum=1.0)
    exact, averages = norm(x).double().mean((0, 2, 3)), x.double().mean((0, 2, 3))
    with PerturbedRounding(1):
        shift = norm(x).double().mean((0, 2, 3)) - exact
    expected = rms(added_one_after_the_other(x) - averages)
    assert 0.7 < rms(norm.running_mean - averages) / expected < 3
    assert 0.7 < rms(shift) / expected < 3


def test_only_the_share_of_the_new_mean_is_wrong_in_a_running_mean():
    x = torch.randn(4, 64, 16, 16, generator=torch.Generator().manual_seed(0)) + 20
    norm = nn.BatchNorm2d(64, momentum=0.001)
    with PerturbedRounding(1):
        norm(x)
    assert rms(norm.running_mean - x.double().mean((0, 2, 3)) * 0.001) < 10 * EPS * rms(norm.running_mean)


@pytest.mark.parametrize("norm", [nn.LayerNorm(64), nn.GroupNorm(8, 64)], ids=str)
def test_the_mean_of_other_normalizations_is_more_exact(norm):
    x = torch.randn(8, 64, 64, generator=torch.Generator().manual_seed(0)) + 20
    exact = norm(x)
    with PerturbedRounding(1):
        error = norm(x).double() - exact
    assert 5 * EPS < rms(error) < 30 * EPS


def test_a_batch_norm_in_eval_mode_computes_no_mean_and_updates_no_statistics():
    x = torch.randn(8, 16, 16, 16, generator=torch.Generator().manual_seed(0)) + 20
    norm = nn.BatchNorm2d(16).eval()
    norm.running_mean.fill_(20)
    before = norm.running_mean.clone()
    exact = norm(x).double()
    with PerturbedRounding(1):
        moved = norm(x)
    assert rms(moved - exact) < 5 * EPS
    assert torch.equal(norm.running_mean, before)


def test_a_running_statistic_in_a_16_bit_dtype_rounds_twice():
    """An update that is decomposed into ops rounds the share of the old value, and the sum."""
    x = torch.randn(64, 4096).bfloat16() + 3
    differences = []
    for seed in range(8):
        norm = nn.BatchNorm1d(4096).bfloat16()
        norm.running_var.fill_(0.7)
        exact = norm.running_var.double() * 0.9 + x.double().var(0) * 0.1
        with PerturbedRounding(seed):
            norm(x)
        differences.append(rms(norm.running_var / exact - 1))
    share = (torch.full((4096,), 0.7).bfloat16().double() * 0.9).bfloat16()
    decomposed = (share + (x.double().var(0) * 0.1).bfloat16()).double()
    assert 1 < sum(differences) / 8 / rms(decomposed / exact - 1) < 2


def test_the_backward_pass_in_eval_mode_sums_nothing():
    x = torch.randn(8, 16, 16, 16, requires_grad=True)
    output, cotangent = nn.BatchNorm2d(16).eval()(x), torch.rand(8, 16, 16, 16) + 0.5
    (exact,) = torch.autograd.grad(output, x, cotangent, retain_graph=True)
    with PerturbedRounding(1):
        (moved,) = torch.autograd.grad(output, x, cotangent)
    assert 0.2 * EPS < rms(moved - exact) / rms(exact) < 5 * EPS


IN_BOTH_MODES = [nn.BatchNorm2d(64, eps=1e-3), nn.InstanceNorm2d(64, track_running_stats=True), nn.GroupNorm(8, 64)]
IN_BOTH_MODES += [nn.LayerNorm(16), nn.LayerNorm((64, 16, 16))]


@pytest.mark.parametrize("norm", IN_BOTH_MODES, ids=str)
@pytest.mark.parametrize("scale", [1.0, 1e-4])
def test_inference_mode_perturbs_as_much_as_grad_mode(norm, scale):
    """In inference mode, ops such as ``aten.layer_norm`` are not decomposed, and defaults are left out."""
    x = torch.randn(4, 64, 16, 16, generator=torch.Generator().manual_seed(0)) * scale + 1
    errors = []
    for inference in (False, True):
        with torch.inference_mode(inference):
            exact = norm(x).double()
            before = [value.double() for value in norm.buffers()]
            with PerturbedRounding(1):
                errors.append(rms(norm(x) - exact))
            if norm._get_name() == "InstanceNorm2d":
                assert any(not torch.equal(a, b) for a, b in zip(before, norm.buffers(), strict=True))
    assert errors[1] == pytest.approx(errors[0], rel=0.5)


@pytest.mark.parametrize("norm", [nn.BatchNorm2d(4), nn.InstanceNorm2d(4), nn.GroupNorm(2, 4)], ids=str)
@pytest.mark.parametrize("inference", [False, True])
def test_an_empty_batch_has_no_errors(norm, inference):
    with PerturbedRounding(1), torch.inference_mode(inference):
        assert norm(torch.randn(0, 4, 5, 5)).shape == (0, 4, 5, 5)


def test_each_group_has_the_error_of_its_mean():
    x = torch.randn(4, 64, 16, 16, generator=torch.Generator().manual_seed(0))
    x[:, :32] += 1000
    x[:, 32:] -= 1000
    norm = nn.GroupNorm(2, 64)
    exact = norm(x).double()
    with PerturbedRounding(1):
        assert 300 * EPS < rms(norm(x) - exact) < 3000 * EPS


OPS = {
    "batch_norm_relu(Tensor x) -> Tensor": lambda x: x + 1,
    "fused_layer_norm(Tensor x, float eps) -> Tensor": lambda x, eps: x + eps,
    "my_batch_norm(Tensor[] xs, float m) -> Tensor": lambda xs, m: xs[0] * m,
    "convolution(Tensor x) -> Tensor": lambda x: x + 1,
    "sum(Tensor[] xs) -> Tensor": lambda xs: xs[0] + 1,
    "add(Tensor x, Tensor y) -> Tensor": lambda x, y: x + 10 * y,
    "relu(Tensor x) -> Tensor": lambda x: x.exp(),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("schema", OPS)
def test_a_custom_op_may_have_the_name_of_an_op_of_torch_and_other_arguments(schema, dtype):
    with torch.library._scoped_library("ptc_norms", "FRAGMENT") as library:
        library.define(schema)
        name = schema.partition("(")[0]
        library.impl(name, OPS[schema], "CPU")
        x = torch.randn(64, dtype=dtype)
        arguments = {"fused_layer_norm": (x, 1.0), "my_batch_norm": ([x], 2.1), "sum": ([x],), "add": (x, x)}.get(
            name, (x,)
        )
        op = getattr(torch.ops.ptc_norms, name)
        exact = op(*arguments)
        with PerturbedRounding(1):
            perturbed = op(*arguments)
        assert not torch.equal(perturbed, exact)
        torch.testing.assert_close(perturbed, exact)


def test_a_functional_batch_norm_does_not_write_the_statistics():
    running = torch.full((4,), 0.3)
    with PerturbedRounding(1):
        torch.ops.aten._native_batch_norm_legit_functional(
            torch.randn(8, 4, 5, 5) + 20, None, None, running, torch.ones(4), True, 1.0, 1e-5
        )
    assert torch.equal(running, torch.full((4,), 0.3))


def test_a_backward_pass_updates_no_statistics():
    x = torch.randn(8, 16, 16, 16, requires_grad=True)
    norm = nn.BatchNorm2d(16)
    output = norm(x)
    before = norm.running_mean.clone()
    with PerturbedRounding(1):
        output.square().sum().backward()
    assert torch.equal(norm.running_mean, before)


@pytest.mark.parametrize("norm", [nn.BatchNorm2d(8), nn.GroupNorm(2, 8), nn.LayerNorm(16)], ids=str)
def test_elements_that_are_all_equal_are_averaged_almost_without_an_error(norm):
    nn.init.ones_(norm.bias)
    x = torch.full((4, 8, 16, 16), 3.0)
    with PerturbedRounding(1):
        assert rms(norm(x) - 1) < 1e-4  # 1e-3 if they are perturbed like others
