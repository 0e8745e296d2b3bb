"""One leg of a check: its own copy of the target and the inputs, its own random stream, the whole call sequence."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from .._torch.defaults import defaults, set_defaults
from .._torch.dynamic import mark_dynamic_dim, mark_unbacked_dim
from .._torch.sandbox import (
    host_rng_state,
    kept_rng,
    rng_state,
    seed_accelerator,
    seed_everything,
    set_host_rng_state,
    set_rng_state,
)
from ..findings import CompileUsageError
from ..numerics import CallRecord, Flat, flatten
from .calls import Call
from .copies import copy_leg, functions_left
from .kept import Kept, kept
from .state import SharedState, Values

Loss = Callable[[Any], torch.Tensor]
OptimizerFactory = Callable[[list[torch.nn.Parameter]], torch.optim.Optimizer]
DynamicDims = Mapping[str | int, Any]


@dataclass(frozen=True)
class Work:
    """What each leg does: the caller's target and calls, and how a call is carried out."""

    target: Any
    calls: Sequence[Call]
    train: bool | Loss = False
    optimizer: OptimizerFactory | None = None
    steps: int = 1
    seed: int = 0
    dynamic_dims: DynamicDims | None = None
    warmup: int | None = None


class Leg:
    """Runs the calls of ``work`` in order on a copy of the target; ``wrap`` turns the copy into what is called.

    ``modules`` are those of the copy, by the name that leads to them.
    ``shared`` is the state that cannot be copied, one object for all legs of a check.
    """

    def __init__(
        self,
        work: Work,
        shared: SharedState | None = None,
        wrap: Callable[[Any], Any] | None = None,
        cast: torch.dtype | None = None,
    ) -> None:
        self._work = work
        self.shared = shared or SharedState(work.target, functions_left(work.target, work.calls))
        self._values = Values()
        self._defaults = replace(defaults(), dtype=cast) if cast is not None else defaults()
        self._initial, self._calls, self.modules = copy_leg(work.target, work.calls, cast)
        self._names = argument_names(work.target)
        if wrap is not None and work.dynamic_dims:
            for call in self._calls:
                mark_dynamic(call, work.dynamic_dims, self._names)
        with self.shared.in_force(self._values):
            self._called = wrap(self._initial) if wrap else _eager(self._initial)
        params = [p for m in self.modules.values() for p in m.parameters() if p.requires_grad]
        self._optimizer = work.optimizer(params) if work.optimizer else None
        self._at_start: Flat | None = None
        self.went_backward = callable(work.train)
        with kept_rng():
            seed_everything(work.seed)
            self._rng, self._host_rng = rng_state(), host_rng_state()
        self._seeded = self._rng

    @property
    def has_drawn(self) -> bool:
        """Whether the calls so far have drawn random numbers, or may have: on a device that they woke up."""
        if self._rng.keys() != self._seeded.keys():
            return True
        return any(not torch.equal(state, self._seeded[device]) for device, state in self._rng.items())

    def run(self, index: int) -> CallRecord:
        """Carry out call ``index`` (0 is the first; they must come in order) and record what it did."""
        call, given = self._calls[index], self._work.calls[index]
        record = CallRecord(index + 1, pristine=(given.args, dict(given.kwargs)), exceptions=given.exceptions)
        buffers = self._named(lambda module: module.named_buffers())
        record.initial_state = {name: buffer.detach().clone() for name, buffer in buffers.items()}
        with self._own_random_stream(record), self._own_defaults(), self.shared.in_force(self._values):
            before = self._kept()
            self._at_start = self._at_start or before.own
            record.kept_at_start = self._at_start
            record.initial_kept = {path: tensor.detach().clone() for path, tensor in before.everything.tensors.items()}
            for action in call.actions:
                action(self._initial)
            self._zero_grad(call)
            try:
                self._steps(call, index, record)
            except Exception as error:
                record.error = error
            record.kept = self._kept().everything
        self._take_state(call, record)
        return record

    def _kept(self) -> Kept:
        compared_already = [*self._parameters().values(), *self._named(lambda module: module.named_buffers()).values()]
        return kept(self._initial, self.shared, [id(tensor) for tensor in compared_already])

    def _steps(self, call: Call, index: int, record: CallRecord) -> None:
        for step in range(self._work.steps):
            if step:
                self._zero_grad(call)
            with ExitStack() as stack:
                for factory in call.contexts:
                    stack.enter_context(factory())
                record.output = self._called(*call.args, **call.kwargs)
            if self._work.train:
                self._backward(record.output, index)
            if self._optimizer is not None:
                self._optimizer.step()
                record.optimizer_steps = step + 1

    def _backward(self, output: Any, index: int) -> None:
        if callable(self._work.train):
            self._work.train(output).backward()
            return
        tensors = [
            tensor
            for tensor in flatten(output).tensors.values()
            if tensor.requires_grad and (tensor.is_floating_point() or tensor.is_complex())
        ]
        unique = list({id(tensor): tensor for tensor in tensors}.values())
        if unique:
            self.went_backward = True
            torch.autograd.backward(unique, self._cotangents(unique, index))

    def _cotangents(self, outputs: Sequence[torch.Tensor], index: int) -> list[torch.Tensor]:
        """What backward starts from in call ``index``: the same numbers in every leg."""
        return _cotangents(outputs, self._work.seed + index)

    def _zero_grad(self, call: Call) -> None:
        for tensor in (*self._parameters().values(), *self._inputs(call).values()):
            if tensor.is_leaf:
                tensor.grad = None

    def _take_state(self, call: Call, record: CallRecord) -> None:
        record.arguments = (call.args, dict(call.kwargs))
        record.argument_names = self._names
        parameters = {name: _whole(parameter) for name, parameter in self._parameters().items()}
        record.state = {**parameters, **self._named(lambda module: module.named_buffers())}
        record.parameters = frozenset(parameters)
        if self._work.train:
            record.grads = {name: _whole(parameter.grad) for name, parameter in self._parameters().items()}
            record.input_grads = {
                path: tensor.grad
                for path, tensor in self._inputs(call).items()
                if tensor.requires_grad and tensor.is_leaf
            }

    def _inputs(self, call: Call) -> dict[str, torch.Tensor]:
        named = {_label(self._names, i): value for i, value in enumerate(call.args)} | dict(call.kwargs)
        input_tensors: dict[str, torch.Tensor] = {}
        for name, value in named.items():
            input_tensors |= flatten(value, name).tensors
        return input_tensors

    def _parameters(self) -> dict[str, torch.Tensor]:
        return self._named(lambda module: module.named_parameters())

    def _named(
        self, entries: Callable[[torch.nn.Module], Iterator[tuple[str, torch.Tensor]]]
    ) -> dict[str, torch.Tensor]:
        return {
            f"{prefix}.{name}".lstrip("."): tensor
            for prefix, module in self.modules.items()
            for name, tensor in entries(module)
        }

    @contextmanager
    def _own_random_stream(self, record: CallRecord) -> Iterator[None]:
        with kept_rng():
            seed_accelerator(self._work.seed)  # for a device that wakes up in this call, or that another leg woke up
            set_rng_state(self._rng)
            set_host_rng_state(self._host_rng)
            try:
                yield
            finally:
                self._rng, self._host_rng = rng_state(), host_rng_state()
                record.rng = self._rng

    @contextmanager
    def _own_defaults(self) -> Iterator[None]:
        """The leg's default dtype and device: what one of its calls changes holds in the next, and nowhere else."""
        callers = defaults()
        set_defaults(self._defaults)
        try:
            yield
        finally:
            self._defaults = defaults()
            set_defaults(callers)


def _whole(tensor: Any) -> Any:
    """A tensor of which each rank holds a part (a DTensor), gathered; any other as it is."""
    if not hasattr(tensor, "full_tensor"):
        return tensor
    whole = tensor.full_tensor()
    return torch.nn.Parameter(whole, tensor.requires_grad) if isinstance(tensor, torch.nn.Parameter) else whole


def _eager(target: Any) -> Callable[..., Any]:
    """The target in eager all the way down, also where it compiles a part of itself."""

    def run(*args: Any, **kwargs: Any) -> Any:
        with torch.compiler.set_stance("force_eager"):
            return target(*args, **kwargs)

    return run


class LazyLeg:
    """A leg that runs only as far as somebody asks: the fp64 reference, the second eager run. Its records, or None."""

    def __init__(self, build: Callable[[], Leg]) -> None:
        self._build = build
        self._leg: Leg | None = None
        self._done = 0
        self._broken = False
        self._record: CallRecord | None = None
        self.used = False

    def record(self, index: int) -> CallRecord | None:
        """What the leg did on call ``index``, having run all calls up to it; None where it cannot run."""
        self.used = True
        while not self._broken and self._done <= index:
            self._advance()
        return None if self._broken else self._record

    def _advance(self) -> None:
        try:
            self._leg = self._leg or self._build()
            self._record = self._leg.run(self._done)
        except (RuntimeError, TypeError, CompileUsageError):
            self._broken = True
            return
        self._done += 1
        error = self._record.error
        self._broken = error is not None and not isinstance(error, self._record.exceptions)


def _cotangents(tensors: Sequence[torch.Tensor], seed: int) -> list[torch.Tensor]:
    """Random gradients for backward, the same in every leg: a plain sum would hide errors that cancel."""
    generator = torch.Generator("cpu").manual_seed(seed)
    made = []
    for tensor in tensors:
        draw = partial(torch.randn, tensor.shape, generator=generator, dtype=torch.float32, device="cpu")
        # Numbers of bfloat16 are exact in every dtype, so that all legs get the same.
        noise = torch.complex(draw(), draw()) if tensor.is_complex() else draw().bfloat16()
        made.append(noise.to(device=tensor.device, dtype=tensor.dtype))
    return made


def argument_names(target: Any) -> tuple[str, ...]:
    """The names of a target's positional arguments, as far as its signature shows."""
    function = target.forward if isinstance(target, torch.nn.Module) else target
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return ()
    return tuple(p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD))


def _label(names: Sequence[str], position: int) -> str:
    return names[position] if position < len(names) else f"argument {position}"


def mark_dynamic(call: Call, dynamic_dims: DynamicDims, names: Sequence[str]) -> None:
    """Mark dimensions of a call's tensors dynamic: ``{"x": 0, 1: (0, 2), "mask": {1: (2, 512)}}`` (min and max).

    A name in place of the range, ``{"x": {0: "batch"}, "y": {0: "batch"}}``, is an unbacked size, shared by that name.

    Raises:
        CompileUsageError: a name or position that is no tensor argument of the call, or a dimension it does not have.
    """
    named = [name for dims in dynamic_dims.values() if isinstance(dims, Mapping) for name in dims.values()]
    for key, dims in dynamic_dims.items():
        tensor = _argument(call, key, names)
        if not isinstance(tensor, torch.Tensor):
            given = [_label(names, i) for i in range(len(call.args))] + list(call.kwargs)
            raise CompileUsageError(
                f"dynamic_dims names {key!r}, which is no tensor argument of the call; it has: {', '.join(given)}"
            )
        ranges = dims if isinstance(dims, Mapping) else dict.fromkeys((dims,) if isinstance(dims, int) else dims)
        for dim, bounds in ranges.items():
            if not -tensor.ndim <= dim < tensor.ndim:
                raise CompileUsageError(f"dynamic_dims: {key!r} has {tensor.ndim} dimensions, so no dimension {dim}")
            if isinstance(bounds, str):
                mark_unbacked_dim(tensor, dim % tensor.ndim, bounds, shared=named.count(bounds) > 1)
            else:
                mark_dynamic_dim(tensor, dim % tensor.ndim, bounds)


def _argument(call: Call, key: str | int, names: Sequence[str]) -> Any:
    if isinstance(key, int):
        return call.args[key] if 0 <= key < len(call.args) else None
    if key in call.kwargs:
        return call.kwargs[key]
    position = names.index(key) if key in names else len(call.args)
    return call.args[position] if position < len(call.args) else None
