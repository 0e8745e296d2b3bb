"""``check_plan``: run ``torch.compile`` for a GPU in a fresh process on a machine without a GPU, and check the plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from .._torch import support
from ..budget import Budget, as_budget
from ..check.conclude import conclude
from ..check.requirements import require_factory
from ..legs.calls import as_calls
from ..legs.compiling import Compiling
from ..legs.keywords import clear_keywords
from ..legs.work import Loss
from .cards import Card, as_card
from .completing import created
from .fake_leg import PlanOptions
from .records import Plan
from .tasks import prepared


@clear_keywords("calls")
def check_plan(
    model: Any,
    /,
    *args: Any,
    calls: Iterable[Any] | None = None,
    gpu: str | Card = "H100",
    train: bool | Loss = False,
    optimizer: Callable[[Any], torch.optim.Optimizer] | None = None,
    values: bool = False,
    compiled: bool = False,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    max_kernels: int | Mapping[str, int] | None = None,
    max_graph_breaks: int | Mapping[str, int] | None = None,
    max_recompiles: int | Mapping[str, int] | None = None,
    budget: Budget | None = None,
    timeout: float = 600.0,
    **kwargs: Any,
) -> Plan:
    """Run ``torch.compile`` for a CUDA GPU on a machine without that GPU, and check the resulting plan against a
    budget.

    A plan contains the code that Inductor generates for the GPU, and predicts the number of kernels and the peak
    memory. The calls run in a fresh process, on fake tensors, as if the model and its arguments were on the GPU. Unless
    ``values`` is true, these tensors have no values, so weights are neither needed nor copied, and the model can be on
    the ``meta`` device. Nothing runs on a GPU, and nothing is measured. This function requires torch 2.11 or newer, and
    torch's default wheel for Linux, which is built with CUDA and installs Triton.

    Args:
        model: A module, function or other callable. The parameters and buffers of a module are treated as if they were
            on the GPU.
        *args: The arguments of a single call, or ``call(...)`` objects, if ``calls`` is not set.
        calls: The calls, as in ``check_compile``; ``call(x, mask=m)`` passes arguments by name.
        gpu: The GPU to plan for: ``"A100"``, ``"H100"``, ``"H200"``, ``"L4"``, ``"L40S"`` or another known name, or a
            ``Card``, which describes any other GPU.
        train: If False, run the calls under ``torch.no_grad``. If True, also run the backward pass from every output
            that requires a gradient. If ``train`` is a loss function, call the function with the output, and run the
            backward pass from the loss.
        optimizer: A function that creates an optimizer from the parameters. The optimizer's step runs after the
            backward pass of each call.
        values: If True, also run the generated code on the CPU, and compare its results with eager results, as
            ``check_compile`` does. The model and its arguments must have values and be on the CPU, and they should be
            small.
        compiled: If True, also compile each kernel for the GPU, which need not be present. The check reports compile
            errors, register spills, and kernels that need more shared memory than the GPU has.
        fullgraph: Passed to ``torch.compile``.
        dynamic: Passed to ``torch.compile``.
        mode: Passed to ``torch.compile``. Settings that would make Inductor time candidates on the GPU, such as
            ``max_autotune``, are turned off in a plan; ``Plan.fixed`` lists the settings that the plan overrides.
        options: Passed to ``torch.compile``, except for the options that are fixed in every plan.
        max_kernels: The maximum number of Triton kernel launches and library calls, counted together, in one call of
            the model.
        max_graph_breaks: The maximum number of graph breaks, as in ``check_compile``; 0 by default.
        max_recompiles: The maximum number of recompiles, as in ``check_compile``; 0 by default.
        budget: Further limits: ``max_graphs``, ``max_guards``, ``max_cudagraphs``, and ``max_memory`` in bytes, which
            is compared with ``Plan.peak_memory``.
        timeout: The time limit for the fresh process, in seconds.
        **kwargs: The keyword arguments of the single call.

    Returns:
        The plan, which contains the generated code.

    Raises:
        CompileCheckFailed: If there are findings. The exception's ``.report`` is the plan.
        CompileUsageError: If this machine cannot create the plan, or an argument is invalid.
    """
    __tracebackhide__ = True
    support.require_supported_torch()
    require_factory(optimizer)
    card, given = as_card(gpu), as_calls(args, kwargs, calls)
    limits = as_budget(budget, max_graph_breaks, max_recompiles, None, max_kernels)
    planned = PlanOptions(Compiling("inductor", mode, options, dynamic, fullgraph), train, optimizer, compiled=compiled)
    task = prepared(model, given, planned, card, limits, values=values)
    return conclude(created(task, timeout))
