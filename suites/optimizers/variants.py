"""Ways to compile an optimizer's step other than `torch.compile(optimizer.step)`."""

from __future__ import annotations

import torch

from ..training.steps import Compile, TrainStep


def static_gradients(step: TrainStep, compile: Compile) -> TrainStep:
    """Compile the optimizer's step with gradients that keep their addresses, so that a CUDA graph does not need to copy
    them."""
    assert step.keep_gradients, "gradients that are discarded have a new address in every step"
    step.clear_gradients()
    for _, gradient in step.kept:
        torch._dynamo.mark_static_address(gradient)
    step.update = compile(step.update)
    return step


def foreach_map_adam(step: TrainStep, compile: Compile) -> TrainStep:
    """Replace the optimizer's step with a compiled Adam that is written as maps over the list of parameters."""
    step.update = compile(ForeachMapAdam(step.optimizer).step)
    return step


class ForeachMapAdam:
    """Adam with each formula written once and mapped over all parameters, which Inductor fuses horizontally.

    `foreach_map` is a prototype in torch 2.7 and newer without a public name.
    """

    def __init__(self, adam: torch.optim.Optimizer) -> None:
        (group,) = adam.param_groups
        self.parameters = [parameter for parameter in group["params"] if parameter.requires_grad]
        self.rate, self.eps = group["lr"], group["eps"]
        self.keep = group["betas"]
        self.means = [torch.zeros_like(parameter) for parameter in self.parameters]
        self.squares = [torch.zeros_like(parameter) for parameter in self.parameters]
        self.steps = [torch.zeros((), device=parameter.device) for parameter in self.parameters]

    @torch.no_grad()
    def step(self) -> None:
        """One step with the current gradients of the parameters."""
        from torch._higher_order_ops.foreach_map import foreach_map

        used = [place for place, parameter in enumerate(self.parameters) if parameter.grad is not None]
        old_parameters, old_means, old_squares, old_steps = (
            [values[place] for place in used] for values in (self.parameters, self.means, self.squares, self.steps)
        )
        gradients = [parameter.grad for parameter in old_parameters]
        first, second = self.keep
        steps = foreach_map(torch.add, old_steps, 1)
        means = foreach_map(torch.lerp, old_means, gradients, 1 - first)
        squares = foreach_map(new_square, old_squares, gradients, second)
        parameters = foreach_map(
            new_parameter, old_parameters, means, squares, steps, first, second, self.rate, self.eps
        )
        torch._foreach_copy_(old_steps, steps)
        torch._foreach_copy_(old_means, means)
        torch._foreach_copy_(old_squares, squares)
        torch._foreach_copy_(old_parameters, parameters)


def new_square(square: torch.Tensor, gradient: torch.Tensor, keep: float) -> torch.Tensor:
    """The running mean of the squared gradients."""
    return square * keep + gradient * gradient * (1 - keep)


def new_parameter(
    parameter: torch.Tensor,
    mean: torch.Tensor,
    square: torch.Tensor,
    steps: torch.Tensor,
    first: float,
    second: float,
    rate: float,
    eps: float,
) -> torch.Tensor:
    """The parameter after Adam's step, with both means corrected for starting at zero."""
    deviation = torch.sqrt(square / (1 - torch.pow(second, steps))) + eps
    return parameter - rate * (mean / (1 - torch.pow(first, steps))) / deviation
