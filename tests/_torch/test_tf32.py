"""TF32 in runs with perturbed rounding. A CPU does not have TF32, so these tests let its operands be rounded, too."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from pytest_torch_compile._torch import tf32
from pytest_torch_compile._torch.perturbed_rounding import PerturbedRounding
from pytest_torch_compile._torch.process_state import ProcessState
from pytest_torch_compile._torch.tf32 import Kernel, Products

TRUNCATING, FLOAT32, ROUNDING = 1, 3, 7  # seeds of runs in which all ops use the same kernel
EPS = torch.finfo(torch.float32).eps
NEWER_TORCH = hasattr(torch.backends, "fp32_precision")
NEWER = pytest.mark.skipif(not NEWER_TORCH, reason="torch.backends.fp32_precision is new in torch 2.9")


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def as_on_a_gpu(monkeypatch):
    """Treat tensors on the CPU like tensors on a GPU, and allow TF32 for all products."""
    monkeypatch.setattr(tf32, "DEVICES", ("cpu",))
    monkeypatch.setattr(tf32, "is_allowed", lambda setting: True)


def perturbed(function, *inputs, seed, may_truncate=True):
    with PerturbedRounding(seed, may_truncate=may_truncate):
        return function(*inputs)


@pytest.mark.parametrize(
    ("convert", "expected"),
    [
        (tf32.rounded, [1.0, 1 + 2**-10, 1 + 2**-10, -1 - 2**-10, 0.0, 1.0]),
        (tf32.truncated, [1.0, 1 + 2**-10, 1.0, -1.0, 0.0, 1.0]),
    ],
)
def test_numbers_become_tf32_numbers(convert, expected):
    x = torch.tensor([1.0, 1 + 2**-10, 1 + 2**-11, -1 - 2**-11 - 2**-23, 0.0, 1 + 2**-12])
    assert convert(x).tolist() == expected
    assert convert(x.view(2, 3).t()).tolist() == torch.tensor(expected).view(2, 3).t().tolist()


@pytest.mark.parametrize("convert", [tf32.rounded, tf32.truncated])
def test_infinity_and_nan_stay(convert):
    smallest_nan = torch.tensor([0x7F800001], dtype=torch.int32).view(torch.float32)
    x = torch.cat([torch.tensor([float("inf"), float("-inf"), float("nan")]), smallest_nan])
    torch.testing.assert_close(convert(x), x, equal_nan=True, rtol=0, atol=0)


def test_all_kernels_are_used_and_some_runs_use_one_kernel_for_all_ops():
    ops = [("mm", [(rows, 8), (8, 8)]) for rows in range(1, 40)]
    kernels = {seed: {Products(seed).kernel(*op) for op in ops} for seed in range(1, 9)}
    assert kernels[TRUNCATING] == {Kernel.TRUNCATES} and kernels[FLOAT32] == {Kernel.FLOAT32}
    assert kernels[ROUNDING] == {Kernel.ROUNDS}
    assert kernels[2] == kernels[4] == kernels[6] == set(Kernel)


def test_without_triton_only_gradients_of_weights_may_be_truncated():
    ops = [("mm", [(rows, 8), (8, 8)]) for rows in range(1, 40)]
    for seed in range(1, 9):
        kernels = Products(seed, may_truncate=False)
        assert Kernel.TRUNCATES not in {kernels.kernel(*op) for op in ops}
    assert Products(TRUNCATING, may_truncate=False).kernel(*ops[0]) is Kernel.ROUNDS
    assert Products(TRUNCATING, may_truncate=False).kernel(*ops[0], may_truncate=True) is Kernel.TRUNCATES


def changes(function, *inputs, seed, may_truncate):
    """Return the relative change in the sum of each result."""
    results = perturbed(function, *inputs, seed=seed, may_truncate=may_truncate)
    exact = function(*inputs)
    return [float(moved.sum() / right.sum()) - 1 for moved, right in zip(results, exact, strict=True)]


def convolution_with_gradients(x, weight):
    x, weight = x.clone().requires_grad_(), weight.clone().requires_grad_()
    y = nn.functional.conv2d(x, weight, groups=x.shape[1] // weight.shape[1])
    return y, *torch.autograd.grad(y.sum(), (x, weight))


@pytest.mark.parametrize("may_truncate", [False, True])
def test_each_product_of_a_convolution_uses_a_kernel_that_may_compute_it(as_on_a_gpu, may_truncate):
    x, weight = random(2, 16, 12, 12).abs(), random(8, 16, 3, 3, seed=1).abs()
    output, of_input, of_weight = changes(
        convolution_with_gradients, x, weight, seed=TRUNCATING, may_truncate=may_truncate
    )
    both = pytest.approx(-2 * tf32.TRUNCATION, rel=0.2)
    one = pytest.approx(-tf32.TRUNCATION, rel=0.2)  # the gradient of the output consists of ones
    exact = pytest.approx(0, abs=5e-5)
    assert output == (both if may_truncate else exact)
    assert of_input == (one if may_truncate else exact)
    assert of_weight == one


@pytest.mark.parametrize("may_truncate", [False, True])
@pytest.mark.parametrize("seed", range(1, 9))
def test_depthwise_convolutions_use_float32(as_on_a_gpu, seed, may_truncate):
    x, weight = random(2, 16, 12, 12).abs(), random(16, 1, 3, 3, seed=1).abs()
    output, of_input, _ = changes(convolution_with_gradients, x, weight, seed=seed, may_truncate=may_truncate)
    assert abs(output) < 10 * EPS and abs(of_input) < 10 * EPS


@pytest.mark.parametrize("wanted", [[True, False, True], [False, True, False], [False, False, True]])
def test_gradients_that_are_not_wanted_are_none(as_on_a_gpu, wanted):
    x, weight, gradient = random(2, 3, 8, 8), random(4, 3, 3, 3), random(2, 4, 6, 6)
    geometry = ([4], [1, 1], [0, 0], [1, 1], False, [0, 0], 1)
    backward = torch.ops.aten.convolution_backward
    found = perturbed(lambda: backward(gradient, x, weight, *geometry, wanted), seed=ROUNDING)
    assert [one is not None for one in found] == wanted
    for moved, right in zip(found, backward(gradient, x, weight, *geometry, wanted), strict=True):
        assert moved is None or float((moved - right).norm() / right.norm()) < 1e-3


def test_a_kernel_that_truncates_makes_sums_too_small(as_on_a_gpu):
    x, y = random(64, 4096).abs(), random(4096, 64, seed=1).abs()
    exact = x @ y
    change = {seed: float((perturbed(torch.mm, x, y, seed=seed) / exact).mean()) - 1 for seed in (1, 3, 7)}
    assert change[TRUNCATING] == pytest.approx(-2 * tf32.TRUNCATION, rel=0.1)
    assert abs(change[FLOAT32]) < 10 * EPS and abs(change[ROUNDING]) < 2e-5


@pytest.mark.parametrize("seed", range(1, 9))
def test_rounding_errors_of_related_products_cancel_as_on_a_gpu(as_on_a_gpu, seed):
    weight, x = random(1, 1, 11, 11).abs() / 100, random(2, 1, 40, 40)

    def difference(x):
        return nn.functional.conv2d(x, weight) - nn.functional.conv2d(x.clone(), weight)

    assert float(perturbed(difference, x, seed=seed).abs().max()) < 1e-6


@pytest.mark.parametrize("seed", [TRUNCATING, ROUNDING])
def test_biases_and_their_gradients_are_not_rounded(as_on_a_gpu, seed):
    x, bias = random(4, 3, 8, 8), random(5, seed=1)
    zero = torch.zeros(5, 3, 3, 3)
    moved = perturbed(nn.functional.conv2d, x, zero, bias, seed=seed)
    torch.testing.assert_close(moved, bias.view(1, 5, 1, 1).expand_as(moved), rtol=50 * EPS, atol=0)
    linear = perturbed(torch.addmm, bias, random(2, 3), torch.zeros(3, 5), seed=seed)
    torch.testing.assert_close(linear, bias.expand_as(linear), rtol=10 * EPS, atol=0)

    conv = nn.Conv2d(3, 5, 3)

    def gradient(x, cotangent):
        return torch.autograd.grad(conv(x), conv.bias, cotangent)[0]

    cotangent = random(4, 5, 6, 6).abs()
    torch.testing.assert_close(
        perturbed(gradient, x, cotangent, seed=seed), gradient(x, cotangent), rtol=200 * EPS, atol=0
    )


@pytest.mark.parametrize("seed", [TRUNCATING, ROUNDING])
@pytest.mark.parametrize("function", [torch.addmm, lambda c, a, b: c.clone().addmm_(a, b)])
def test_a_matrix_that_is_added_to_a_product_is_not_rounded(as_on_a_gpu, function, seed):
    added, zero = random(4, 4), torch.zeros(4, 4)
    torch.testing.assert_close(perturbed(function, added, zero, zero, seed=seed), added, rtol=10 * EPS, atol=0)


@pytest.mark.parametrize("convert", [tf32.rounded, tf32.truncated])
def test_the_largest_numbers_do_not_become_infinite(convert):
    x = torch.tensor([torch.finfo(torch.float32).max, torch.finfo(torch.float32).min])
    assert bool(convert(x).isfinite().all())


def test_float64_is_not_rounded(as_on_a_gpu):
    x = random(8, 8).double()
    torch.testing.assert_close(perturbed(torch.mm, x, x, seed=TRUNCATING), x @ x, rtol=1e-12, atol=1e-12)


def test_sparse_operands_are_not_rounded(as_on_a_gpu):
    x = torch.eye(8).to_sparse() * 1.0001
    torch.testing.assert_close(
        perturbed(torch.mm, x, torch.eye(8), seed=TRUNCATING), torch.mm(x, torch.eye(8)), rtol=1e-6, atol=1e-6
    )


class Packed(torch.Tensor):
    """A subclass that supports only the product."""

    @staticmethod
    def __new__(cls, values):
        return torch.Tensor._make_wrapper_subclass(cls, values.shape, dtype=values.dtype)

    def __init__(self, values):
        self.values = values

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        assert func is torch.ops.aten.mm.default, f"{func} is not supported"
        return func(*(one.values if isinstance(one, cls) else one for one in args))


@pytest.mark.parametrize("seed", range(1, 9))
def test_subclasses_need_not_support_rounding(as_on_a_gpu, seed):
    x, y = random(4, 4), random(4, 4, seed=1)
    torch.testing.assert_close(perturbed(lambda: torch.mm(Packed(x), y), seed=seed), x @ y, rtol=2e-3, atol=2e-3)


@torch.library.custom_op("pytest_torch_compile_tests::mm", mutates_args={"out"})
def custom(x: torch.Tensor, out: torch.Tensor) -> None:
    out.copy_(x @ x)


@pytest.mark.parametrize("seed", [TRUNCATING, ROUNDING])
def test_a_custom_op_with_the_same_name_writes_to_its_argument(as_on_a_gpu, seed):
    x, out = torch.ones(4, 4), torch.zeros(4, 4)
    perturbed(custom, x, out, seed=seed)
    assert bool((out == 4).all())


def test_products_in_float32_run_with_tf32_turned_off(as_on_a_gpu, monkeypatch):
    allowed = []
    mm = torch.ops.aten.mm.default
    monkeypatch.setattr(tf32, "name_in_torch", lambda func: "mm")

    def spy(*args):
        allowed.append(torch.backends.cuda.matmul.allow_tf32 if not NEWER_TORCH else tf32._read("matmul"))
        return mm(*args)

    torch.set_float32_matmul_precision("high")
    try:
        for seed in (TRUNCATING, FLOAT32):
            Products(seed).run(spy, (random(4, 4), random(4, 4)), {})
    finally:
        torch.set_float32_matmul_precision("highest")
    assert allowed == (["tf32", "ieee"] if NEWER_TORCH else [True, False])


def attention(query, key, value):
    from torch.nn.attention.flex_attention import flex_attention

    return flex_attention(query, key, value)


@pytest.mark.parametrize("seed", [TRUNCATING, FLOAT32])
def test_attention_that_truncates_makes_its_output_too_small(as_on_a_gpu, seed):
    """If all keys are equal, the output is the mean of the values: a product with an operand inside the op."""
    query, key = torch.zeros(1, 1, 128, 16), torch.zeros(1, 1, 128, 16)
    value = random(1, 1, 128, 16).abs()
    with torch.compiler.set_stance("force_eager"):
        exact = attention(query, key, value)
        change = float((perturbed(attention, query, key, value, seed=seed) / exact).mean()) - 1
    expected = -2 * tf32.TRUNCATION if seed == TRUNCATING else 0
    assert change == pytest.approx(expected, rel=0.1, abs=10 * EPS)


def test_operands_stay_if_tf32_is_not_allowed(as_on_a_gpu, monkeypatch):
    monkeypatch.setattr(tf32, "is_allowed", lambda setting: False)
    x, y = random(64, 512).abs(), random(512, 64).abs()
    assert abs(float((perturbed(torch.mm, x, y, seed=TRUNCATING) / (x @ y)).mean()) - 1) < 10 * EPS


@pytest.fixture
def settings():
    yield
    torch.backends.cudnn.allow_tf32 = True
    torch.set_float32_matmul_precision("highest")


@pytest.mark.parametrize("allowed", [True, False])
def test_settings_are_read_and_put_back(settings, allowed):
    torch.backends.cudnn.allow_tf32 = allowed
    torch.set_float32_matmul_precision("medium" if allowed else "highest")
    for setting in ("conv", "matmul"):
        assert tf32.is_allowed(setting) == allowed
        with tf32.turned_off(setting):
            assert not tf32.is_allowed(setting)
        assert tf32.is_allowed(setting) == allowed
    assert torch.backends.cudnn.allow_tf32 == allowed
    assert torch.get_float32_matmul_precision() == ("medium" if allowed else "highest")


@NEWER
def test_newer_settings_of_some_ops_are_read():
    """torch raises an error if ``torch.backends.cudnn.allow_tf32`` is read after this."""
    conv, rnn = torch.backends.cudnn.conv, torch.backends.cudnn.rnn
    before = conv.fp32_precision, rnn.fp32_precision
    try:
        conv.fp32_precision, rnn.fp32_precision = "ieee", "tf32"
        with pytest.raises(RuntimeError):
            torch.backends.cudnn.allow_tf32
        assert not tf32.is_allowed("conv")
        perturbed(nn.functional.conv2d, random(1, 3, 8, 8), random(2, 3, 3, 3), seed=1)
    finally:
        conv.fp32_precision, rnn.fp32_precision = before


@NEWER
def test_a_setting_that_is_inherited_stays_inherited():
    matmul = torch.backends.cuda.matmul
    before = torch.backends.fp32_precision, matmul.fp32_precision
    try:
        matmul.fp32_precision, torch.backends.fp32_precision = "none", "tf32"
        with tf32.turned_off("matmul"):
            assert matmul.fp32_precision == "ieee"
        torch.backends.fp32_precision = "ieee"
        assert matmul.fp32_precision == "ieee"
    finally:
        torch.backends.fp32_precision, matmul.fp32_precision = before


def test_settings_that_are_frozen_can_be_changed(settings, monkeypatch):
    monkeypatch.setattr(torch.backends, "__allow_nonbracketed_mutation_flag", False)
    with tf32.turned_off("conv"):
        assert not tf32.is_allowed("conv")
    assert tf32.is_allowed("conv")
    monkeypatch.undo()


@NEWER
def test_a_precision_that_means_the_same_is_the_same_state():
    """Code that turns TF32 off and puts the setting back leaves ``ieee`` where ``none`` was."""
    products, everything = torch.backends.cuda.matmul, torch.backends
    before = products.fp32_precision, everything.fp32_precision
    name = "torch.backends.cuda.matmul.fp32_precision"
    try:
        everything.fp32_precision = products.fp32_precision = "none"
        assert ProcessState.now().named()[name] == "ieee"
        products.fp32_precision = "tf32"
        assert ProcessState.now().named()[name] == "tf32"
        products.fp32_precision, everything.fp32_precision = "none", "tf32"
        assert ProcessState.now().named()[name] != "ieee", "it is inherited"
    finally:
        products.fp32_precision, everything.fp32_precision = before
