"""torchdiffeq: solvers of differential equations, backpropagation through them, and their adjoint method."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torchdiffeq import odeint, odeint_adjoint, odeint_event

from libraries.inputs import tensors
from libraries.targets import Target


class Dynamics(nn.Module):
    """The derivative of the state, with a count of its evaluations."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 3))
        self.evaluations = 0

    def forward(self, t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        self.evaluations += 1
        return self.net(y) * torch.cos(t)


class Buffered(Dynamics):
    """Keeps the count in a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(()))

    def forward(self, t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        self.count += 1
        return self.net(y)


class Watched(Dynamics):
    """Has a method that solvers call at each step."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[torch.Tensor] = []

    def forward(self, t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.net(y)

    def callback_step(self, t0: torch.Tensor, y0: torch.Tensor, dt: torch.Tensor) -> None:
        self.steps.append(y0.detach().mean())


class Pair(Dynamics):
    """A state of two tensors."""

    def forward(self, t: torch.Tensor, y: tuple[torch.Tensor, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:  # type: ignore[override]
        moved = self.net(y[0])
        return moved, -moved.sum(-1, keepdim=True)


class Solved(nn.Module):
    """A layer that runs a solver."""

    def __init__(self, dynamics: nn.Module, adjoint: bool = False, times: int = 3, **how: Any) -> None:
        super().__init__()
        self.dynamics, self.adjoint, self.how = dynamics, adjoint, how
        self.register_buffer("times", torch.linspace(0, 1, times))

    def forward(self, y: torch.Tensor) -> Any:
        solve = odeint_adjoint if self.adjoint else odeint
        state = (y, y.new_zeros(y.shape[0], 1)) if isinstance(self.dynamics, Pair) else y
        return solve(self.dynamics, state, self.times, **self.how)


class Times(nn.Module):
    """Computes gradients with respect to the times."""

    def __init__(self) -> None:
        super().__init__()
        self.dynamics = Dynamics()
        self.end = nn.Parameter(torch.tensor(1.0))

    def forward(self, y: torch.Tensor) -> torch.Tensor:
        times = torch.stack([torch.zeros(()), self.end])
        return odeint(self.dynamics, y, times, method="rk4")[-1]


class Falling(nn.Module):
    """Simulates a ball until it hits the ground."""

    def __init__(self) -> None:
        super().__init__()
        self.gravity = nn.Parameter(torch.tensor(9.8))

    def dynamics(self, t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.stack([y[1], -self.gravity])

    def forward(self, height: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        start = torch.stack([height, torch.zeros_like(height)])
        when, states = odeint_event(
            self.dynamics, start, torch.zeros(()), event_fn=lambda t, y: y[0], atol=1e-6, rtol=1e-6
        )
        return when, states[-1]


def solved(dynamics: nn.Module, **how: Any) -> Target:
    """A target that solves a differential equation. It is called with only two sizes, because dynamo needs seconds to
    trace the loops of a solver.
    """
    return Target(Solved(dynamics, **how), tensors(3, sizes=(2, 3)))


LOOSE = {"rtol": 1e-3, "atol": 1e-4}
HALF = {"step_size": 0.25}
TARGETS = {
    "euler": lambda: solved(Dynamics(), method="euler"),
    "midpoint": lambda: solved(Dynamics(), method="midpoint"),
    "rk4": lambda: solved(Dynamics(), method="rk4"),
    "rk4_step_size": lambda: solved(Dynamics(), method="rk4", options=HALF),
    "explicit_adams": lambda: solved(Dynamics(), method="explicit_adams", options=HALF),
    "dopri5": lambda: solved(Dynamics(), method="dopri5", **LOOSE),
    "bosh3": lambda: solved(Dynamics(), method="bosh3", **LOOSE),
    "fehlberg2": lambda: solved(Dynamics(), method="fehlberg2", **LOOSE),
    "Buffered": lambda: solved(Buffered(), method="rk4"),
    "Watched": lambda: solved(Watched(), method="euler"),
    "Watched_dopri5": lambda: solved(Watched(), method="dopri5", **LOOSE),
    "Pair": lambda: solved(Pair(), method="rk4"),
    "Pair_dopri5": lambda: solved(Pair(), method="dopri5", **LOOSE),
    "Times": lambda: Target(Times(), tensors(3)),
    "adjoint_euler": lambda: solved(Dynamics(), adjoint=True, method="euler"),
    "adjoint_rk4": lambda: solved(Dynamics(), adjoint=True, method="rk4"),
    "adjoint_dopri5": lambda: solved(Dynamics(), adjoint=True, method="dopri5", **LOOSE),
    "adjoint_pair": lambda: solved(Pair(), adjoint=True, method="midpoint"),
    "odeint_event": lambda: Target(Falling(), [(torch.tensor(height),) for height in (1.0, 2.0)]),
}
