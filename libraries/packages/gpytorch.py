"""gpytorch: kernels (as dense matrices), means, likelihoods, variational models."""

from __future__ import annotations

import gpytorch
import torch
from gpytorch import kernels, likelihoods, means
from torch import nn

from libraries.inputs import Calls, calls, tensors
from libraries.targets import Target


class Dense(nn.Module):
    """A kernel whose lazy matrix is converted to a dense matrix."""

    def __init__(self, kernel: kernels.Kernel) -> None:
        super().__init__()
        self.kernel = kernel

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.kernel(x).to_dense()


class Variational(gpytorch.models.ApproximateGP):
    def __init__(self) -> None:
        strategy = gpytorch.variational.VariationalStrategy(
            self, torch.linspace(0, 1, 4)[:, None], gpytorch.variational.CholeskyVariationalDistribution(4)
        )
        super().__init__(strategy)
        self.mean, self.kernel = means.ConstantMean(), kernels.RBFKernel()

    def forward(self, x: torch.Tensor) -> gpytorch.distributions.MultivariateNormal:
        return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))


class MeanAndVariance(nn.Module):
    """The output of a model or a likelihood, as tensors."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, *x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        said = self.inner(*x)
        return said.mean, said.variance


def points() -> Calls:
    return tensors(2, sizes=(4, 6, 7))


def kernel(made: kernels.Kernel) -> Target:
    return Target(Dense(made), points())


def called(made: kernels.Kernel) -> Target:
    return Target(made.forward, calls(lambda n: (torch.randn(n, 2), torch.randn(n, 2)), (4, 6, 7)))


TARGETS = {
    "RBFKernel": lambda: kernel(kernels.RBFKernel()),
    "RBFKernel_ard": lambda: kernel(kernels.RBFKernel(ard_num_dims=2)),
    "RBFKernel.forward": lambda: called(kernels.RBFKernel()),
    "MaternKernel": lambda: kernel(kernels.MaternKernel(2.5)),
    "MaternKernel.forward": lambda: called(kernels.MaternKernel(1.5)),
    "LinearKernel": lambda: kernel(kernels.LinearKernel()),
    "PeriodicKernel": lambda: kernel(kernels.PeriodicKernel()),
    "PeriodicKernel.forward": lambda: called(kernels.PeriodicKernel()),
    "PolynomialKernel": lambda: kernel(kernels.PolynomialKernel(2)),
    "RQKernel": lambda: kernel(kernels.RQKernel()),
    "RQKernel.forward": lambda: called(kernels.RQKernel()),
    "CosineKernel": lambda: kernel(kernels.CosineKernel()),
    "ScaleKernel": lambda: kernel(kernels.ScaleKernel(kernels.RBFKernel())),
    "AdditiveKernel": lambda: kernel(kernels.RBFKernel() + kernels.LinearKernel()),
    "ProductKernel": lambda: kernel(kernels.RBFKernel() * kernels.PeriodicKernel()),
    "PiecewisePolynomialKernel": lambda: kernel(kernels.PiecewisePolynomialKernel(2)),
    "ConstantKernel": lambda: kernel(kernels.ConstantKernel()),
    "SpectralMixtureKernel": lambda: kernel(kernels.SpectralMixtureKernel(2, ard_num_dims=2)),
    "RFFKernel": lambda: kernel(kernels.RFFKernel(3, num_dims=2)),
    "IndexKernel": lambda: Target(
        Dense(kernels.IndexKernel(4)), calls(lambda n: (torch.arange(n)[:, None] % 4,), (4, 6, 7))
    ),
    "ConstantMean": lambda: Target(means.ConstantMean(), points()),
    "LinearMean": lambda: Target(means.LinearMean(2), points()),
    "ZeroMean": lambda: Target(means.ZeroMean(), points(), train=False),
    "MultitaskMean": lambda: Target(means.MultitaskMean(means.ConstantMean(), 2), points()),
    "GaussianLikelihood": lambda: Target(
        MeanAndVariance(likelihoods.GaussianLikelihood()), calls(lambda n: (torch.randn(n),), (4, 6, 7))
    ),
    "BernoulliLikelihood": lambda: Target(
        MeanAndVariance(likelihoods.BernoulliLikelihood()), calls(lambda n: (torch.randn(n),), (4, 6, 7))
    ),
    "Interval.transform": lambda: Target(
        gpytorch.constraints.Interval(0.1, 2.0).transform, calls(lambda n: (torch.randn(n),), (4, 6, 7))
    ),
    "Positive.inverse_transform": lambda: Target(
        gpytorch.constraints.Positive().inverse_transform, calls(lambda n: (torch.rand(n) + 0.5,), (4, 6, 7))
    ),
    "GammaPrior.log_prob": lambda: Target(
        gpytorch.priors.GammaPrior(2.0, 1.0).log_prob, calls(lambda n: (torch.rand(n) + 0.5,), (4, 6, 7))
    ),
    "MultivariateNormal.log_prob": lambda: Target(
        lambda x: gpytorch.distributions.MultivariateNormal(torch.zeros(3), torch.eye(3)).log_prob(x), tensors(3)
    ),
    "VariationalStrategy": lambda: Target(
        MeanAndVariance(Variational()), calls(lambda n: (torch.rand(n, 1),), (4, 6, 7))
    ),
}
