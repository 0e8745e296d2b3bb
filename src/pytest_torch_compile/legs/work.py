"""The record of the work that each run of a check repeats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .._torch.error_text import naming
from .._torch.object_text import text_of
from ..findings import CompileUsageError
from .calls import Call
from .targets import DynamicDims, Factory, runs_backward

Loss = Callable[[Any], torch.Tensor]
OptimizerFactory = Callable[[list[torch.nn.Parameter]], torch.optim.Optimizer]


@dataclass(frozen=True)
class Work:
    """The target and calls of a check, and the options that are the same in each of its runs.

    ``snapshots`` selects where copies of the caller's tensors are kept: ``"host"`` or ``"device"``. With None, the
    choice depends on the size of the copies, the device's free memory, and ``train``; large copies of CPU tensors may
    be kept in a temporary file.
    """

    target: Any
    calls: Sequence[Call]
    train: bool | Loss = False
    optimizer: OptimizerFactory | None = None
    steps: int = 1
    seed: int = 0
    dynamic_dims: DynamicDims | None = None
    warmup: int | None = None
    snapshots: str | None = None

    @property
    def trains(self) -> bool:
        """Whether the calls run backward."""
        return runs_backward(self.train)

    def make_target(self) -> Any:
        """Return the target of a new run: the caller's target, or the one that the function in ``factory()`` makes."""
        if not isinstance(self.target, Factory):
            return self.target
        with naming("the function passed to factory()"):
            return self.target.make()

    def make_optimizer(self, parameters: list[torch.nn.Parameter]) -> torch.optim.Optimizer | None:
        """Return a new optimizer of the parameters, or None if the calls run without an optimizer.

        Raises:
            CompileUsageError: If the function passed as ``optimizer=`` returns something else.
        """
        if self.optimizer is None:
            return None
        with naming("the function passed as optimizer="):
            made = self.optimizer(parameters)
        if not hasattr(made, "step"):
            raise CompileUsageError(
                f"the function passed as optimizer= returned {text_of(made)}, but it must return the optimizer"
            )
        return made
