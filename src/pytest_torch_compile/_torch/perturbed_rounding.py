"""Run code eagerly with perturbed rounding: after each op that rounds, randomly change elements of the op's result by
about the size of a rounding error.

The final results show how much a model amplifies unavoidable rounding differences. This module uses
``torch.utils._python_dispatch.TorchDispatchMode``, ``tree_leaves`` of ``torch.utils._pytree`` and
``OpOverload.is_view``, which are the same in torch 2.6 to 2.15.

During an optimizer step, the learning rate is perturbed as well. A compiled step computes the bias correction,
``1 - beta ** step``, with float32 tensors. An eager step uses Python floats, whose rounding cannot be perturbed.
"""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import chain
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils._pytree import tree_leaves

from .dispatch_mode import PausableMode, is_higher_order, name_in_torch
from .float_types import is_packed
from .narrow_rounding import NarrowRounding, narrow_steps, sum_before_rounding
from .sum_errors import errors_of, updated_statistics
from .tf32 import Products

_TABLE = "_pytest_torch_compile_table"
# A different order of summation changes an fp32 sum by about this many multiples of eps.
WIDE_EPS = 1.0
# A large tensor on a CPU is perturbed in parts of this many elements, which fit the cache.
PART = 2**16
# On a CPU, drawing random numbers takes longer than the rest of a perturbation. Therefore, this many numbers are drawn
# once, and each part reads its numbers at a random position.
STORED = 2**18
_WIDE = (torch.float32, torch.float64)

# Ops that only copy or select values and do not round.
_EXACT = (
    "relu relu_ threshold threshold_backward neg abs clone copy_ lift_fresh lift_fresh_copy detach cat stack where "
    "masked_fill masked_fill_ fill fill_ zero_ zeros zeros_like ones ones_like full full_like empty empty_like "
    "empty_strided new_zeros new_ones new_full new_empty new_empty_strided arange scalar_tensor embedding index "
    "_unsafe_index index_select gather scatter maximum minimum max min amax amin clamp clamp_min clamp_max sort topk "
    "constant_pad_nd repeat flip roll tril triu max_pool2d_with_indices select_backward slice_backward _reshape_copy "
    "_unsafe_view detach_ resize_ transpose_ squeeze_ unsqueeze_ t_ as_strided_ set_ scatter_ index_copy_ index_fill_ "
    "neg_ abs_ clamp_ clamp_min_ clamp_max_ hardtanh hardtanh_backward leaky_relu_backward"
)
EXACT = frozenset(_EXACT.split())


class PerturbedRounding(PausableMode):
    """A mode that perturbs the results of ops that round, by about the size of a rounding error. In float32 and
    float64, the perturbations are multiplied by ``strength``. With ``may_truncate``, all products may truncate their
    operands to TF32.
    """

    def __init__(self, seed: int, strength: float = 1.0, *, may_truncate: bool = True) -> None:
        super().__init__()
        self._seed = seed
        self._strength = strength
        self._generators: dict[torch.device, torch.Generator] = {}
        self._positions = random.Random(seed)
        self._narrow = NarrowRounding(seed)
        self._products = Products(seed, may_truncate=may_truncate)
        self._optimizers = _PerturbedSteps(seed)

    def __enter__(self) -> Any:
        self._optimizers.__enter__()
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._optimizers.__exit__(*error)

    def call(self, func: Any, args: Any, kwargs: Any) -> Any:
        is_table = _is_table(func, args)
        unrounded = None if self.is_paused or is_table else sum_before_rounding(func, args, kwargs)
        result = func(*args, **kwargs) if self.is_paused else self._products.run(func, args, kwargs)
        if unrounded is not None:
            self._narrow.round_again(unrounded, result)
        results = [leaf for leaf in tree_leaves(result) if type(leaf) is torch.Tensor]
        if is_table:
            for tensor in results:
                setattr(tensor, _TABLE, True)
        elif not self.is_paused and rounds(func):
            statistics = updated_statistics(func, args, kwargs)
            # Decomposed into ops in a 16-bit dtype, an update rounds twice: the share of the old value, and the sum.
            rounded_twice = [tensor for tensor in statistics if tensor.dtype not in _WIDE]
            for tensor in [*results, *statistics, *rounded_twice]:
                if _can_be_perturbed(tensor):
                    self._perturb(tensor, func, args, kwargs)
        return result

    def _perturb(self, tensor: torch.Tensor, func: Any, args: Any, kwargs: Any) -> None:
        """Perturb an op's result, in place."""
        if tensor.dtype not in _WIDE:
            signs = self._narrow.signs(tensor, self._noise)
            for part, *sign in _parts(tensor, *signs):
                wide = part.float()
                _store(part, self._narrow.moved(wide, self._steps(part), sign, part.dtype), wide)
            return
        errors = errors_of(func, args, kwargs, tensor)
        shared = [(one, self._steps(tensor.new_empty(errors.groups))) for one in errors.shared]
        for part, *factors in _parts(tensor, *errors.independent, *chain(*shared)):
            own, common = factors[: len(errors.independent)], factors[len(errors.independent) :]
            moved = torch.addcmul(part, math.prod(own[1:], start=own[0]) if own else part, self._steps(part))
            for error, noise in zip(common[::2], common[1::2], strict=True):
                moved.addcmul_(error, noise)
            _store(part, moved, part)

    def _steps(self, part: torch.Tensor) -> torch.Tensor:
        """Return random relative changes for all elements of a tensor."""
        if not part.is_cpu or part.numel() > PART:
            steps = _steps(self._noise(part), part.dtype)
        else:
            first = self._positions.randrange(STORED - PART)
            steps = _stored_steps(part.dtype)[first : first + part.numel()].view(part.shape)
        return steps * self._strength if self._strength != 1 and part.dtype in _WIDE else steps

    def _noise(self, like: torch.Tensor) -> torch.Tensor:
        """Return uniform random numbers in [0, 1), from a random stream that is separate from the model's stream."""
        generator = self._generators.get(like.device)
        if generator is None:
            generator = torch.Generator(like.device).manual_seed(self._seed)
            self._generators[like.device] = generator
        return torch.rand(like.shape, generator=generator, device=like.device, dtype=torch.float32)


def _parts(tensor: torch.Tensor, *factors: torch.Tensor) -> Iterator[tuple[torch.Tensor, ...]]:
    """Split a tensor on a CPU into parts that are contiguous in memory, along its outermost dimensions. Expand each
    factor to the shape of the tensor, and split it in the same way.
    """
    tensors = (tensor, *(factor.expand_as(tensor) for factor in factors))
    if tensor.is_cpu and tensor.numel() > PART:
        outermost_first = sorted(range(tensor.dim()), key=tensor.stride, reverse=True)
        yield from _split(tuple(one.permute(outermost_first) for one in tensors))
    else:
        yield tensors


def _split(tensors: tuple[torch.Tensor, ...]) -> Iterator[tuple[torch.Tensor, ...]]:
    length, elements = len(tensors[0]), tensors[0].numel()
    rows = max(1, PART * length // elements)
    for start in range(0, length, rows):
        part = tuple(one[start : start + rows] for one in tensors)
        if part[0].numel() > PART:  # a single row is larger than a part
            yield from _split(tuple(one[0] for one in part))
        else:
            yield part


def _store(part: torch.Tensor, moved: torch.Tensor, before: torch.Tensor) -> None:
    """Write the perturbed numbers into a part. The largest number must not become inf."""
    moved = moved.to(part.dtype).to(before.dtype)
    # On a CPU, the sum of a part shows faster whether all numbers are finite, because it can be read without waiting.
    if not part.is_cpu or not math.isfinite(moved.sum()):
        moved = torch.where(moved - moved == 0, moved, before)
    part.copy_(moved)


def _is_table(func: Any, args: Any) -> bool:
    """Return whether an op's result is derived only from integers and constants. Examples are positions and masks.

    Such results are not perturbed, because they often lie exactly on the boundary of a later conversion to integers.
    For example, T5 and DeBERTa compute position buckets from logarithms. A constant from ``torch.tensor`` appears as
    the result of ``lift_fresh``.
    """
    if is_higher_order(func) or torch.Tag.nondeterministic_seeded in func.tags:
        return False
    if name_in_torch(func) in ("lift_fresh", "lift_fresh_copy"):
        return True
    given = [tensor for tensor in tree_leaves(args) if isinstance(tensor, torch.Tensor)]
    return all(not tensor.is_floating_point() or hasattr(tensor, _TABLE) for tensor in given)


def rounds(func: Any) -> bool:
    """Return whether an op rounds its results; random ops are excluded."""
    if is_higher_order(func):
        return True
    if func.is_view or torch.Tag.nondeterministic_seeded in func.tags:
        return False
    return name_in_torch(func) not in EXACT


def _can_be_perturbed(tensor: torch.Tensor) -> bool:
    rounds_to = tensor.is_floating_point() and not is_packed(tensor.dtype)
    return rounds_to and tensor.layout is torch.strided and tensor.device.type != "meta"


def _steps(noise: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Turn uniform noise into the relative change of each element."""
    if dtype in _WIDE:
        return noise.sub_(0.5).mul_(2 * 3**0.5 * WIDE_EPS * torch.finfo(dtype).eps).to(dtype)
    return narrow_steps(noise, dtype)


@functools.cache
def _stored_steps(dtype: torch.dtype) -> torch.Tensor:
    generator = torch.Generator("cpu").manual_seed(0)
    return _steps(torch.rand(STORED, generator=generator, device="cpu", dtype=torch.float32), dtype)


class _PerturbedSteps:
    """A context manager that perturbs the learning rates of every optimizer while the optimizer's step runs. The
    perturbation is about as large as the error of a bias correction that is computed in float32.
    """

    def __init__(self, seed: int) -> None:
        self._generator = torch.Generator("cpu").manual_seed(seed)
        self._rates: list[Any] = []
        self._hooks = ExitStack()

    def __enter__(self) -> None:
        for register, hook in (
            (register_optimizer_step_pre_hook, self._move),
            (register_optimizer_step_post_hook, self._put_back),
        ):
            self._hooks.callback(register(hook).remove)

    def __exit__(self, *error: Any) -> None:
        self._hooks.close()

    def _move(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        self._rates = [group.get("lr") for group in optimizer.param_groups]
        for group, rate in zip(optimizer.param_groups, self._rates, strict=True):
            noise = float(torch.rand((), generator=self._generator, dtype=torch.float64, device="cpu"))
            if rate is not None:
                group["lr"] = rate * (1 + (2 * noise - 1) * _error_of_update(group, optimizer.state))

    def _put_back(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        for group, rate in zip(optimizer.param_groups, self._rates, strict=True):
            if rate is not None:
                group["lr"] = rate


def _error_of_update(group: Any, state: Any) -> float:
    """Return the relative error that an optimizer's update factor has when the factor is computed in float32.

    The relative error of ``beta ** step`` is estimated as ``(step + 1) * eps / 4``. For a beta from 0.9 to 0.9999 and
    up to 10,000 steps, the error is at most 1.15 times this estimate. The absolute errors of ``beta ** step`` and
    ``1 - beta ** step`` are equal.
    """
    known = [state[p]["step"] for p in group["params"] if p in state and "step" in state[p]]
    step = float(known[0]) + 1 if known else 1.0
    betas = [float(beta) for beta in group.get("betas", ()) if 0 < float(beta) < 1]
    sensitivity = sum((step + 1) * left / (1 - left) for left in (math.pow(beta, step) for beta in betas))
    return float(torch.finfo(torch.float32).eps / 4 * (1 + sensitivity))
