"""The fp64 leg gets the random numbers and the cotangents of the eager leg."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from pytest_torch_compile import CompileCheckFailed, check_compile
from pytest_torch_compile._torch.randomness import Recording, Replaying, Tape
from pytest_torch_compile.legs.calls import call
from pytest_torch_compile.legs.extra_legs import Float64Leg
from pytest_torch_compile.legs.leg import Leg
from pytest_torch_compile.legs.work import Work


def draw(x: torch.Tensor) -> list[torch.Tensor]:
    return [
        nn.functional.dropout(x, 0.5, training=True),
        nn.functional.dropout(x * x.detach().requires_grad_(), 0.5, training=True),
        x + torch.rand(x.shape, dtype=x.dtype),
        x * torch.empty_like(x).bernoulli_(0.3),
        torch.randint(0, 9, (5,)),
    ]


def test_the_same_numbers_in_another_dtype():
    x, tape = torch.randn(6, 50), Tape()
    with Recording(tape):
        single = draw(x)
    with Replaying(tape):
        double = draw(x.double())
    for one, two in zip(single, double, strict=True):
        torch.testing.assert_close(one.double(), two.double(), rtol=1e-6, atol=1e-6)


def test_another_order_of_draws_is_refused():
    tape = Tape()
    with Recording(tape):
        torch.rand(3)
    with Replaying(tape), pytest.raises(RuntimeError, match="but not at this point of the eager run"):
        torch.randperm(3)


class Noisy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        noise = torch.rand(x.shape, dtype=x.dtype)
        return nn.functional.dropout(self.linear(x), 0.5) + noise


@pytest.mark.parametrize("random", [True, False])
def test_the_reference_leg_computes_what_eager_computes(random):
    module = Noisy() if random else nn.Linear(8, 8)
    work = Work(module, [call(torch.randn(4, 8)), call(torch.randn(4, 8))], train=True)
    eager = Leg(work)
    records = [eager.run(0), eager.run(1)]
    reference = Float64Leg(work, eager)
    for index, record in enumerate(records):
        true = reference.run(index)
        assert true.error is None
        torch.testing.assert_close(
            record.output.leaves["output"].double(), true.output.leaves["output"], rtol=1e-5, atol=1e-5
        )
        for name, grad in record.grads.items():
            torch.testing.assert_close(grad.double(), true.grads[name], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("direct", [True, False])
def test_float64_run_of_a_model_that_has_gradients_already(direct):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(4, 6)

        def forward(self, x):
            return self.linear(x).sin() * (1.01 if torch.compiler.is_compiling() else 1)

    model, x = Model(), torch.randn(3, 4)
    model(x).sum().backward()
    before = {name: (p.grad, p.grad.clone()) for name, p in model.named_parameters()}
    with pytest.raises(CompileCheckFailed) as failed:
        check_compile(model if direct else lambda x: model(x), x, train=True, backend="eager", diagnose="off")
    assert failed.value.report.numerics.reference == "fp64"
    assert failed.value.report.observation.not_observable == []
    for name, parameter in model.named_parameters():
        gradient, content = before[name]
        assert parameter.grad is gradient and torch.equal(gradient, content)
