"""Run a target's calls on fake tensors, in eager or in compiled code, in the planning process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import torch

from .._torch.compiled import uncompiled
from .._torch.planning.choices import choices_of, fall_back_to_operators, fixed_options
from .._torch.planning.fake import CardMode
from .._torch.planning.valued import ValuedMode
from .._torch.sandbox import seed_everything
from ..legs.calls import Call
from ..legs.compiling import Compiling
from ..legs.targets import DynamicDims, argument_names, mark_dynamic, modules_of
from ..legs.work import Loss
from ..numerics import CallRecord, flatten
from .recorder import SEED, Recorder


@dataclass(frozen=True)
class PlanOptions:
    """The options for running the calls. If ``compiled`` is true, the generated kernels are also compiled for the GPU.

    ``dynamic_dims`` specifies the dimensions to mark as dynamic, as in ``check_compile``. ``change`` is used only by
    the plugin's tests. The function ``change`` receives a kernel's name and source, and returns the source to use
    instead.
    """

    compiling: Compiling
    train: bool | Loss
    optimizer: Callable[[Any], torch.optim.Optimizer] | None
    change: Callable[[str, str], str] | None = None
    compiled: bool = False
    dynamic_dims: DynamicDims | None = None

    def changed(self, name: str, source: str) -> str:
        """Return the source to use for a kernel."""
        return self.change(name, source) if self.change else source


class FakeLeg:
    """One run of the calls on the fake tensors of ``mode``. If ``mode`` computes values, the calls are recorded in
    ``records``. ``start`` and ``run`` are called inside ``mode``.
    """

    def __init__(self, mode: CardMode, target: Any, calls: Sequence[Call], options: PlanOptions) -> None:
        # A method that its class decorates with torch.compile is sent to this process by its name.
        target = uncompiled(target)
        self.target, self.calls, self.options = target, calls, options
        self.recorder = Recorder(mode, target) if isinstance(mode, ValuedMode) else None
        self._called: Callable[..., Any] = target
        self._optimizer: torch.optim.Optimizer | None = None
        modules = (part for module in modules_of(target).values() for part in module.modules())
        own = (parameter for part in modules for parameter in part.parameters(recurse=False))
        self._parameters = [parameter for parameter in dict.fromkeys(own) if parameter.requires_grad]
        fall_back_to_operators(on=self.recorder is not None)
        seed_everything(SEED)

    @property
    def records(self) -> list[CallRecord]:
        """The records of the calls so far."""
        return self.recorder.records if self.recorder is not None else []

    def fixed(self) -> list[str]:
        """Return the settings that the plan overrides."""
        compiling = self.options.compiling
        modules = [part for module in modules_of(self.target).values() for part in module.modules()]
        fixed = choices_of(compiling.mode, compiling.options, modules)
        if self.recorder is not None:
            operators = "eager operators draw the random numbers, as in check_compile (fallback_random)"
            fixed.append(f"with values=True, {operators}")
        return fixed

    def start(self, *, compiled: bool) -> None:
        """Compile the target if ``compiled`` is true, and create the optimizer."""
        if compiled:
            options = self.options.compiling
            options = replace(options, mode=None, options=fixed_options(options.mode, options.options))
            self._called = options(self.target)
        if self.options.optimizer is not None:
            self._optimizer = self.options.optimizer(self._parameters)

    def run(self, index: int) -> BaseException | None:
        """Run call ``index`` (from 0). If the call raises an exception that it is expected to raise, return it."""
        call = self.calls[index]
        if self.options.dynamic_dims:
            mark_dynamic(call, self.options.dynamic_dims, argument_names(self.target), self.calls)
        try:
            self._run(call, index)
        except Exception as error:
            if not isinstance(error, call.exceptions):
                raise
            if self.recorder is not None:
                self.recorder.records.pop()
            return error
        return None

    def _run(self, call: Call, index: int) -> None:
        for action in call.actions:
            action(self.target)
        for parameter in self._parameters:
            parameter.grad = None
        if self.recorder is not None:
            self.recorder.before(call, index + 1)
        with ExitStack() as stack:
            for factory in call.contexts:
                stack.enter_context(factory())
            if not self.options.train:
                stack.enter_context(torch.no_grad())
            output = self._called(*call.args, **call.kwargs)
        if callable(self.options.train):
            self.options.train(output).backward()
        elif self.options.train:
            tensors = [tensor for tensor in flatten(output).tensors.values() if tensor.requires_grad]
            tensors = list({id(tensor): tensor for tensor in tensors}.values())
            torch.autograd.backward(
                tensors, self.recorder.cotangents(tensors, index) if self.recorder else [*map(torch.ones_like, tensors)]
            )
        if self._optimizer is not None:
            self._optimizer.step()
        if self.recorder is not None:
            self.recorder.after(call, output)
