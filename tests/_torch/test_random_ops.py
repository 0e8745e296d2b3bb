"""Compiled code draws the same random numbers as eager, in whichever layout and order Inductor computes."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from pytest_torch_compile import check_artifact, check_compile
from pytest_torch_compile._torch.deployment import unavailable
from pytest_torch_compile._torch.random_ops import draw_as_in_eager

needs_precompile = pytest.mark.skipif(bool(unavailable("precompile")), reason=unavailable("precompile"))
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


class Noisy(nn.Module):
    """Random numbers after a convolution, whose result Inductor may keep in a different layout."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(256, 256, 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.convolution(x)
        return nn.functional.dropout(x, 0.5), torch.rand_like(x)


class BayesianLayer(nn.Module):
    """Two draws that do not depend on each other. The second is needed first."""

    def __init__(self) -> None:
        super().__init__()
        self.mean, self.spread = nn.Parameter(torch.randn(4, 8)), nn.Parameter(torch.randn(4, 8))
        self.register_buffer("noise", torch.zeros(4, 8))
        self.register_buffer("noise_of_bias", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        spread = torch.log1p(torch.exp(self.spread))
        weight = self.mean + spread * self.noise.data.normal_()
        return nn.functional.linear(x, weight, self.noise_of_bias.data.normal_())


class BayesianSteps(nn.Module):
    """Draws into the same buffers in each of several steps."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = BayesianLayer(), BayesianLayer()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = x.new_zeros(len(x), 4)
        for _ in range(3):
            hidden = torch.tanh(self.first(x) + self.second(torch.cat([hidden, hidden], 1)))
        return hidden


def test_each_element_gets_the_random_number_that_it_gets_in_eager():
    with torch.no_grad():
        check_compile(Noisy().train(), torch.randn(2, 256, 8, 8), backend="inductor")


@pytest.mark.parametrize(("model", "train"), [(BayesianLayer, False), (BayesianSteps, True)])
def test_random_ops_draw_in_the_order_of_eager(model, train):
    with torch.set_grad_enabled(train):
        check_compile(model().train(), torch.randn(5, 8), backend="inductor", train=train)


@pytest.mark.parametrize(
    "via",
    [
        pytest.param("precompile", marks=needs_precompile),
        pytest.param("aot_inductor", marks=pytest.mark.slow),
    ],
)
def test_artifact_draws_the_random_numbers_of_eager(via):
    check_artifact(Noisy().train(), torch.randn(2, 256, 8, 8), via=via)


def test_exchanged_draws_in_compiled_code_are_found():
    def target(x):
        first, second = (torch.randn_like(x), torch.rand_like(x))
        if torch.compiler.is_compiling():
            second, first = torch.rand_like(x), torch.randn_like(x)
        return x + first, x * second

    with pytest.raises(AssertionError, match="numerics"):
        check_compile(target, torch.randn(64), backend="inductor")


class Leaky(nn.Module):
    """RReLU draws a number for each negative element only."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(8, 16, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.rrelu(self.convolution(x), training=True)


def keeps_values_at_random(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return torch.bernoulli(x), torch.bernoulli(x.t()), torch.bernoulli(x, 0.3), torch.empty_like(x).bernoulli_(0.9)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=[pytest.mark.gpu, needs_cuda])])
@pytest.mark.parametrize("backend", ["inductor", "aot_eager_decomp_partition"])
def test_ops_that_torch_replaces_draw_the_numbers_of_eager(device, backend):
    check_compile(Leaky().to(device), torch.randn(2, 8, 9, 9, device=device), backend=backend, train=True)
    check_compile(keeps_values_at_random, torch.rand(64, 40, device=device), backend=backend)


@pytest.mark.parametrize("fallback", [True, False])
def test_bernoulli_is_replaced_only_without_fallback(fallback):
    from torch._inductor import config
    from torch._inductor.decomposition import select_decomp_table
    from torch.fx.experimental.proxy_tensor import make_fx

    draw_as_in_eager()
    with config.patch(fallback_random=fallback):
        graph = make_fx(torch.bernoulli, decomposition_table=select_decomp_table())(torch.rand(3))
    assert any(node.target is torch.ops.aten.bernoulli.default for node in graph.graph.nodes) == fallback
