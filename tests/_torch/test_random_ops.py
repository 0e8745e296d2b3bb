"""Compiled code draws the same random numbers as eager, in whichever layout and order Inductor computes."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from pytest_torch_compile import check_artifact, check_compile
from pytest_torch_compile._torch.deployment import unavailable


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


@pytest.mark.parametrize(("model", "train"), [(BayesianLayer, False), (BayesianSteps, False), (BayesianSteps, True)])
def test_random_ops_draw_in_the_order_of_eager(model, train):
    with torch.set_grad_enabled(train):
        check_compile(model().train(), torch.randn(5, 8), backend="inductor", train=train)


@pytest.mark.parametrize(
    "via",
    [
        pytest.param("precompile", marks=pytest.mark.skipif(unavailable("precompile") != "", reason="not supported")),
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
