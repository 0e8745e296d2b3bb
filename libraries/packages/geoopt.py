"""geoopt: points on manifolds (parameters with a special class), and optimizers that keep points on the manifold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import geoopt
import torch
from geoopt import manifolds
from geoopt.layers import stereographic
from torch import nn

from libraries.inputs import Calls, calls
from libraries.targets import Target

Make = Callable[..., torch.optim.Optimizer]


def points(manifold: Any, *shape: int, count: int = 2) -> Calls:
    """Points on a manifold."""
    return calls(lambda n: tuple(drawn(manifold, n, *shape) for _ in range(count)))


def drawn(manifold: Any, *shape: int) -> torch.Tensor:
    draw = manifold.random_normal if isinstance(manifold, manifolds.Lorentz) else manifold.random
    return draw(*shape).detach()


def tangents(manifold: Any, *shape: int) -> Calls:
    """A point and a vector in its tangent space."""

    def make(size: int) -> tuple[torch.Tensor, ...]:
        point = drawn(manifold, size, *shape)
        return point, manifold.proju(point, torch.randn_like(point) * 0.1)

    return calls(make)


def stepping(make: Make, manifold: Any, *shape: int, wrapped: bool = True) -> Target:
    """Three steps of an optimizer on a parameter that already has a gradient."""
    seed = drawn(manifold, *shape)
    point = geoopt.ManifoldParameter(seed, manifold=manifold) if wrapped else nn.Parameter(seed)
    point.grad = torch.randn_like(seed)
    return Target(make([point]).step, [(), (), ()], train=False)


class Embedding(nn.Module):
    """Computes distances to learned points."""

    def __init__(self, manifold: Any, *shape: int) -> None:
        super().__init__()
        self.manifold = manifold
        self.points = geoopt.ManifoldParameter(drawn(manifold, *shape), manifold=manifold)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.manifold.dist(x[:, None], self.points[None])


class OfTheTensor(nn.Module):
    """Calls methods of the parameter itself."""

    def __init__(self) -> None:
        super().__init__()
        self.point = geoopt.ManifoldParameter(manifolds.Sphere().random(4, 3))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        step = self.point.proju(x)
        return self.point.expmap(step), self.point.inner(step)


class Projecting(nn.Module):
    """Projects its parameter onto the manifold in forward."""

    def __init__(self) -> None:
        super().__init__()
        self.point = geoopt.ManifoldParameter(torch.randn(4, 3), manifold=manifolds.Sphere())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            self.point.proj_()
        return x @ self.point.T


def product() -> manifolds.ProductManifold:
    return manifolds.ProductManifold((manifolds.Sphere(), 3), (manifolds.Euclidean(), 2))


ADAM, SGD = geoopt.optim.RiemannianAdam, geoopt.optim.RiemannianSGD
TARGETS = {
    "Sphere.dist": lambda: Target(manifolds.Sphere().dist, points(manifolds.Sphere(), 3)),
    "Sphere.expmap": lambda: Target(manifolds.Sphere().expmap, tangents(manifolds.Sphere(), 3)),
    "Sphere.logmap": lambda: Target(manifolds.Sphere().logmap, points(manifolds.Sphere(), 3)),
    "Sphere.random": lambda: Target(manifolds.Sphere().random_uniform, calls(lambda n: (n, 3)), train=False),
    "PoincareBall.mobius_add": lambda: Target(manifolds.PoincareBall().mobius_add, points(manifolds.PoincareBall(), 3)),
    "PoincareBall.dist": lambda: Target(manifolds.PoincareBall().dist, points(manifolds.PoincareBall(), 3)),
    "PoincareBall.expmap0": lambda: Target(
        manifolds.PoincareBall().expmap0, calls(lambda n: (torch.randn(n, 3) * 0.1,))
    ),
    "PoincareBall_learnable.dist": lambda: Target(
        manifolds.PoincareBall(learnable=True).dist, points(manifolds.PoincareBall(), 3)
    ),
    "Stereographic.expmap": lambda: Target(
        manifolds.Stereographic(-0.5, learnable=True).expmap, tangents(manifolds.Stereographic(-0.5), 3)
    ),
    "Lorentz.expmap": lambda: Target(manifolds.Lorentz().expmap, tangents(manifolds.Lorentz(), 4)),
    "Lorentz.dist": lambda: Target(manifolds.Lorentz().dist, points(manifolds.Lorentz(), 4)),
    "Stiefel.projx": lambda: Target(
        manifolds.CanonicalStiefel().projx, calls(lambda n: (torch.randn(n, 5, 3),)), train=False
    ),
    "Stiefel.retr": lambda: Target(
        manifolds.EuclideanStiefel().retr, tangents(manifolds.EuclideanStiefel(), 5, 3), train=False
    ),
    "SPD.dist": lambda: Target(
        manifolds.SymmetricPositiveDefinite().dist, points(manifolds.SymmetricPositiveDefinite(), 3, 3)
    ),
    "SPD.expmap": lambda: Target(
        manifolds.SymmetricPositiveDefinite().expmap, tangents(manifolds.SymmetricPositiveDefinite(), 3, 3)
    ),
    "Birkhoff.projx": lambda: Target(
        manifolds.BirkhoffPolytope(tol=1e-3).projx, calls(lambda n: (torch.rand(n, 3, 3) + 0.1,))
    ),
    "Scaled.dist": lambda: Target(manifolds.Scaled(manifolds.Sphere(), 2.0).dist, points(manifolds.Sphere(), 3)),
    "Product.dist": lambda: Target(product().dist, points(product(), 5)),
    "Product.unpack": lambda: Target(product().unpack_tensor, points(product(), 5, count=1)),
    "Embedding_sphere": lambda: Target(Embedding(manifolds.Sphere(), 4, 3), points(manifolds.Sphere(), 3, count=1)),
    "Embedding_ball": lambda: Target(
        Embedding(manifolds.PoincareBall(learnable=True), 4, 3), points(manifolds.PoincareBall(), 3, count=1)
    ),
    "OfTheTensor": lambda: Target(OfTheTensor(), calls(lambda n: (torch.randn(n, 4, 3),))),
    "Projecting": lambda: Target(Projecting(), calls(lambda n: (torch.randn(n, 3),))),
    "Distance2StereographicHyperplanes": lambda: Target(
        stereographic.Distance2StereographicHyperplanes(3, 4, ball=manifolds.PoincareBall()),
        points(manifolds.PoincareBall(), 3, count=1),
    ),
    "RiemannianAdam_sphere": lambda: stepping(lambda held: ADAM(held, lr=0.1), manifolds.Sphere(), 4, 3),
    "RiemannianAdam_ball": lambda: stepping(
        lambda held: ADAM(held, lr=0.1, amsgrad=True), manifolds.PoincareBall(), 4, 3
    ),
    "RiemannianAdam_stabilize": lambda: stepping(
        lambda held: ADAM(held, lr=0.1, stabilize=2), manifolds.Sphere(), 4, 3
    ),
    "RiemannianAdam_plain": lambda: stepping(
        lambda held: ADAM(held, lr=0.1), manifolds.Euclidean(), 4, 3, wrapped=False
    ),
    "RiemannianSGD_stiefel": lambda: stepping(
        lambda held: SGD(held, lr=0.1, momentum=0.9), manifolds.CanonicalStiefel(), 5, 3
    ),
    "RiemannianSGD_lorentz": lambda: stepping(lambda held: SGD(held, lr=0.1), manifolds.Lorentz(), 4, 4),
}
