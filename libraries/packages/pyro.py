"""pyro: distributions, transforms, effect handlers, a global parameter store, and modules with random weights."""

from __future__ import annotations

from typing import Any

import pyro
import torch
from pyro import distributions as dist
from pyro import poutine
from pyro.distributions import transforms
from pyro.infer import Trace_ELBO
from pyro.nn import AutoRegressiveNN, PyroModule, PyroParam, PyroSample
from torch import nn

from libraries.inputs import calls, tensors
from libraries.targets import Target


class Drawn(PyroModule):
    """A layer whose weights are drawn again in each call."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = PyroSample(dist.Normal(0.0, 1.0).expand([3, 2]).to_event(2))
        self.scale = PyroParam(torch.tensor(1.0), constraint=dist.constraints.positive)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight * self.scale


def model(x: torch.Tensor) -> torch.Tensor:
    mean = pyro.sample("mean", dist.Normal(0.0, 1.0))
    with pyro.plate("data", x.shape[0]):
        return pyro.sample("x", dist.Normal(mean, 1.0), obs=x)


def guide(x: torch.Tensor) -> None:
    place = pyro.param("place", torch.tensor(0.5))
    pyro.sample("mean", dist.Normal(place, 1.0))


def log_joint(x: torch.Tensor) -> torch.Tensor:
    return poutine.trace(poutine.condition(model, {"mean": torch.tensor(0.3)})).get_trace(x).log_prob_sum()


def elbo(x: torch.Tensor) -> torch.Tensor:
    return Trace_ELBO().differentiable_loss(model, guide, x)


def stored(x: torch.Tensor) -> torch.Tensor:
    """A parameter in the global store, which is created in the first call."""
    return x * pyro.param("slope", torch.ones(3), constraint=dist.constraints.positive)


def stored_before(target: Any, given: list[tuple[Any, ...]], **how: Any) -> Target:
    """A target whose parameters are in the global store before its calls.

    The store belongs to pyro rather than to the package of the target, so a check does not restore it between runs.
    """
    pyro.clear_param_store()
    target(*given[0])
    return Target(target, given, **how)


class Flow(nn.Module):
    """A transform, with the logarithm of its determinant."""

    def __init__(self, transform: Any) -> None:
        super().__init__()
        self.transform = transform

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.transform(x)
        return y, self.transform.log_abs_det_jacobian(x, y)


def flow(transform: Any) -> Target:
    return Target(Flow(transform), tensors(4))


def log_prob(made: Any, given: list[tuple[Any, ...]]) -> Target:
    return Target(made.log_prob, given)


def rows() -> list[tuple[Any, ...]]:
    return calls(lambda n: (torch.rand(n) + 0.1,))


TARGETS = {
    "Normal.log_prob": lambda: log_prob(dist.Normal(0.0, 1.0), rows()),
    "Normal_to_event.log_prob": lambda: log_prob(dist.Normal(torch.zeros(3), 1.0).to_event(1), tensors(3)),
    "AsymmetricLaplace.log_prob": lambda: log_prob(dist.AsymmetricLaplace(0.0, 1.0, 2.0), rows()),
    "ZeroInflatedPoisson.log_prob": lambda: Target(
        dist.ZeroInflatedPoisson(torch.tensor(2.0), gate=torch.tensor(0.3)).log_prob,
        calls(lambda n: (torch.arange(n).float(),)),
        train=False,
    ),
    "MaskedMixture.log_prob": lambda: log_prob(
        dist.MaskedMixture(
            torch.tensor([True, False]), dist.Normal(0.0, 1.0).expand([2]), dist.Normal(1.0, 2.0).expand([2])
        ),
        tensors(2),
    ),
    "Logistic.rsample": lambda: Target(lambda x: dist.Logistic(x, 1.0).rsample(), rows()),
    "Stable.sample": lambda: Target(lambda x: dist.Stable(1.5, 0.1, x).rsample(), rows()),
    "VonMises3D.log_prob": lambda: log_prob(
        dist.VonMises3D(torch.tensor([1.0, 0.5, 0.2])),
        calls(lambda n: (nn.functional.normalize(torch.randn(n, 3), dim=-1),)),
    ),
    "GaussianHMM.log_prob": lambda: log_prob(
        dist.GaussianHMM(
            dist.Normal(torch.zeros(2), 1.0).to_event(1),
            torch.eye(2),
            dist.Normal(torch.zeros(2), 1.0).to_event(1),
            torch.eye(2),
            dist.Normal(torch.zeros(2), 1.0).to_event(1),
            duration=4,
        ),
        tensors(4, 2),
    ),
    "affine_autoregressive": lambda: flow(transforms.affine_autoregressive(4, hidden_dims=[8])),
    "affine_coupling": lambda: flow(transforms.affine_coupling(4, hidden_dims=[8])),
    "planar": lambda: flow(transforms.planar(4)),
    "radial": lambda: flow(transforms.radial(4)),
    "spline": lambda: flow(transforms.spline(4, count_bins=3)),
    "batchnorm": lambda: flow(transforms.batchnorm(4)),
    "householder": lambda: flow(transforms.householder(4, 2)),
    "permute": lambda: flow(transforms.permute(4)),
    "AutoRegressiveNN": lambda: Target(AutoRegressiveNN(4, [8], param_dims=[1, 1]), tensors(4)),
    "ConditionalDense": lambda: Target(pyro.nn.DenseNN(4, [8], [2, 3]), tensors(4)),
    "PyroModule_linear": lambda: stored_before(PyroModule[nn.Linear](3, 2), tensors(3)),
    "Drawn": lambda: stored_before(Drawn(), tensors(3)),
    "log_joint": lambda: stored_before(log_joint, rows()),
    "elbo": lambda: stored_before(elbo, rows()),
    "stored": lambda: stored_before(stored, tensors(3)),
    "seed_handler": lambda: stored_before(poutine.seed(model, rng_seed=3), rows(), train=False),
}
