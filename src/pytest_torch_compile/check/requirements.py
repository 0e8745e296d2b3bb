"""Verify the requirements of a check: a callable target, calls whose tensors have values and are on the target's
device, and limits on quantities that this machine can count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from .._torch.object_text import text_of
from ..findings import CompileUsageError
from ..legs.calls import Call
from ..legs.check_record import Check
from ..legs.targets import modules_of
from ..legs.work import Work
from ..numerics import flatten
from .counted_limits import require_countable
from .steady import require_warmup


def require_usable(check: Check) -> None:
    """Reject a check that cannot give an answer.

    Raises:
        CompileUsageError: If the target, a call, an option or a limit is not usable; the message explains what to pass.
    """
    work = check.work
    require_callable(work.target)
    if not isinstance(work.steps, int) or work.steps < 1:
        raise CompileUsageError(f"steps is {work.steps!r}; it must be a positive integer")
    if not (work.train is None or isinstance(work.train, bool) or callable(work.train)):
        raise CompileUsageError(
            f"train is an instance of {type(work.train).__name__}; pass True, or a function that computes the loss "
            "from the output: train=lambda output: output.sum()"
        )
    if work.snapshots not in (None, "device", "host"):
        raise CompileUsageError(f'snapshots={work.snapshots!r}: must be "device" or "host"')
    require_factory(work.optimizer)
    require_warmup(work.warmup, len(work.calls))
    require_values(work.target, work.calls)
    _require_same_device(work)
    require_countable(check.budget, work, check.compiling)


def require_callable(target: Any) -> None:
    """Reject a target that cannot be called.

    Raises:
        CompileUsageError: If ``target`` is not callable.
    """
    if not callable(target):
        raise CompileUsageError(f"the target is {text_of(target)}, which is not callable; pass a module or a function")


def require_module(target: Any) -> None:
    """Reject a target from which no artifact can be built.

    Raises:
        CompileUsageError: If ``target`` is not a module.
    """
    if not isinstance(target, torch.nn.Module):
        raise CompileUsageError(
            f"the target is {text_of(target)}, but an artifact can be built only from a module: wrap the target in a "
            "module"
        )


def require_factory(optimizer: Callable[..., Any] | None) -> None:
    """Reject an optimizer instance, because a check needs a function that creates an optimizer.

    Raises:
        CompileUsageError: If ``optimizer`` is an optimizer; the message shows how to write the function.
    """
    if optimizer is None or (callable(optimizer) and not isinstance(optimizer, torch.optim.Optimizer)):
        return
    kind = type(optimizer).__name__
    raise CompileUsageError(
        f"optimizer is an instance of {kind}; pass a function that creates the optimizer, because the eager and "
        "compiled runs need separate optimizers: optimizer=lambda params: "
        f"torch.optim.{kind if hasattr(torch.optim, kind) else 'SGD'}(params, lr=0.1)"
    )


def _require_same_device(work: Work) -> None:
    devices = {p.device.type for m in modules_of(work.target).values() for p in m.parameters()}
    # Without parameters, or with parameters on several devices, the model does not determine where inputs belong.
    if len(devices) != 1:
        return
    for number, call in enumerate(work.calls, 1):
        for path, tensor in flatten((call.args, dict(call.kwargs)), "input").tensors.items():
            # torch accepts a tensor without dimensions on the CPU together with tensors on another device.
            if tensor.device.type not in devices and tensor.ndim:
                raise CompileUsageError(
                    f"call {number}: {path} is on {tensor.device}, but the model "
                    f"is on {devices.pop()}; move the input or the model"
                )


def require_values(target: Any, calls: Sequence[Call]) -> None:
    """Reject a target and calls whose tensors are all on the meta device, because every comparison would pass.

    Raises:
        CompileUsageError: If there are no values to compare.
    """
    tensors = [t for m in modules_of(target).values() for t in (*m.parameters(), *m.buffers())]
    tensors += [t for one in calls for t in flatten((one.args, dict(one.kwargs)), "input").tensors.values()]
    if tensors and all(tensor.device.type == "meta" for tensor in tensors):
        raise CompileUsageError(
            "the model and its inputs are on the meta device, where tensors have no values to compare: move the "
            "model to another device with model.to_empty(device='cpu'), and pass inputs that have values"
        )
