"""Practice 6 in docs/coverage.md: TF32 is not mistaken for a defect, and hides no defect of two percent.

By default, torch allows TF32 for convolutions on a GPU. With `torch.set_float32_matmul_precision("high")`, it also
allows TF32 for matrix products. Triton's kernels truncate the operands, and cuBLAS and cuDNN's convolutions round
them.
"""

import pytest
import torch
from torch import nn
from torch._inductor.compile_fx import compile_fx
from torch.nn import functional
from torch.nn.attention.flex_attention import flex_attention

from pytest_torch_compile import CompileCheckFailed, call, check_compile

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="only CUDA devices have TF32"),
]


@pytest.fixture
def high_precision():
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    yield
    torch.set_float32_matmul_precision(before)


class Attention(nn.Module):
    """Self-attention with a relative position bias."""

    def __init__(self):
        super().__init__()
        self.inputs, self.output = nn.Linear(64, 192), nn.Linear(64, 64)

    def forward(self, x):
        parts = self.inputs(x).chunk(3, -1)
        query, key, value = (part.unflatten(-1, (4, 16)).transpose(1, 2) for part in parts)
        attended = flex_attention(query, key, value, score_mod=causal)
        return self.output(attended.transpose(1, 2).flatten(2))


def causal(score, batch, head, query, key):
    return torch.where(query >= key, score - 0.01 * (query - key), -float("inf"))


def similarity(x, y):
    """Structural similarity (https://doi.org/10.1109/TIP.2003.819861) with Gaussian windows. The variances and the
    covariance are differences of products with the same weights.
    """
    line = torch.exp(-(torch.arange(11, device=x.device) - 5.0).square() / 4.5)
    window = (torch.outer(line, line) / line.sum() ** 2).expand(x.shape[1], 1, 11, 11)

    def mean(image):
        return functional.conv2d(image, window, groups=x.shape[1])

    mean_x, mean_y = mean(x), mean(y)
    covariance = mean(x * y) - mean_x * mean_y
    variances = mean(x * x) - mean_x.square() + mean(y * y) - mean_y.square()
    luminance = (2 * mean_x * mean_y + 1e-4) / (mean_x.square() + mean_y.square() + 1e-4)
    return (luminance * (2 * covariance + 9e-4) / (variances + 9e-4)).mean((1, 2, 3))


def images():
    x = torch.rand(2, 3, 64, 64, device="cuda")
    return x, (x + 0.1 * torch.randn_like(x)).clamp(0, 1)


def two_percent_too_large(graph, inputs):
    return lambda *args: tuple(output * 1.02 for output in graph(*args))


def half_a_percent_too_large(graph, inputs):
    """Compile with Inductor, after all outputs were multiplied by a factor."""
    last = graph.graph.output_node()
    with graph.graph.inserting_before(last):
        last.args = (tuple(graph.graph.call_function(torch.mul, (output, 1.005)) for output in last.args[0]),)
    graph.recompile()
    return compile_fx(graph, inputs)


def deep_network():
    """A network of 30 convolutions, in which no normalization removes an error in scale."""
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 32, 3, padding=1)]
    for _ in range(29):
        layers += [nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1)]
        nn.init.kaiming_normal_(layers[-1].weight)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10)).cuda()


def network_input():
    return torch.randn(4, 3, 32, 32, device="cuda")


@pytest.mark.parametrize("mode", ["default", "max-autotune-no-cudagraphs"])
@pytest.mark.parametrize("train", [False, True], ids=["inference", "training"])
def test_a_deep_network_passes(train, mode):
    check_compile(deep_network(), network_input(), train=train, mode=mode)


def test_a_deep_network_passes_in_inference_mode():
    check_compile(deep_network(), calls=[call(network_input()).under(torch.inference_mode)])


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
def test_half_a_percent_is_found_in_a_deep_network(context):
    with pytest.raises(CompileCheckFailed):
        check_compile(deep_network(), calls=[call(network_input()).under(context)], backend=half_a_percent_too_large)


@pytest.mark.parametrize("mode", ["default", "max-autotune-no-cudagraphs"])
@pytest.mark.parametrize("train", [False, True], ids=["inference", "training"])
def test_attention_in_tf32_passes(high_precision, train, mode):
    x = torch.randn(2, 128, 64, device="cuda", requires_grad=train)
    check_compile(Attention().cuda(), x, train=train, mode=mode)


def test_two_percent_are_found_in_attention(high_precision):
    with pytest.raises(CompileCheckFailed):
        check_compile(Attention().cuda(), torch.randn(2, 128, 64, device="cuda"), backend=two_percent_too_large)


def test_similarity_of_images_passes():
    check_compile(similarity, *images())


def test_two_percent_are_found_in_a_similarity():
    with pytest.raises(CompileCheckFailed):
        check_compile(similarity, *images(), backend=two_percent_too_large)


def test_an_error_that_tf32_hides_is_mentioned():
    """In TF32, the variance of numbers near 100 is smaller than the rounding error of their squares."""
    x = 100 + torch.rand(2, 3, 64, 64, device="cuda")
    window = torch.full((1, 3, 5, 5), 1 / 75, device="cuda")

    def variance(x):
        return functional.conv2d(x * x, window) - functional.conv2d(x, window).square()

    report = check_compile(variance, x, backend=two_percent_too_large)
    assert any("torch.backends.cudnn.allow_tf32 = False" in note for note in report.remarks)


@pytest.mark.skipif(not hasattr(torch.backends, "fp32_precision"), reason="fp32_precision is new in torch 2.9")
def test_newer_settings_of_single_ops_work():
    conv, matmul = torch.backends.cudnn.conv, torch.backends.cuda.matmul
    before = conv.fp32_precision, matmul.fp32_precision
    conv.fp32_precision, matmul.fp32_precision = "ieee", "tf32"
    try:
        model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(4)).cuda()
        x = torch.randn(4, 3, 16, 16, device="cuda")
        model(x)
        check_compile(model, x, train=True)
        assert (conv.fp32_precision, matmul.fp32_precision) == ("ieee", "tf32")
    finally:
        conv.fp32_precision, matmul.fp32_precision = before
