"""Run a check's calls once, for example in eager. Each run uses the caller's target, starts from the caller's state and
draws from a separate random stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.nn.parameter import is_lazy

from .._torch.compiled import run_eagerly
from .._torch.process_state import ProcessState
from .._torch.sandbox import (
    host_rng_state,
    kept_rng,
    rng_state,
    seed_accelerator,
    seed_everything,
    set_host_rng_state,
    set_rng_state,
)
from .._torch.tensor_state import without_torch_function
from ..numerics import CallRecord, Flat, Node, arguments_of, flatten, sharing_in, storage_key
from . import outcome
from .calls import Call
from .converted import Convert, convert, with_replacements
from .cotangents import cotangents
from .holders import Key
from .snapshot import Contents
from .targets import argument_label, argument_names, mark_dynamic, modules_of
from .work import Work
from .world import World

# The prefix that a compiled module adds to parameter names. This prefix is removed, because the function passed as
# compile= may compile submodules in place.
COMPILED = "_orig_mod."


@dataclass
class _State:
    """The state after a call: parameters and buffers (``state``), and all other state (``kept``)."""

    state: Flat = field(default_factory=Flat)
    kept: Flat = field(default_factory=Flat)


class Leg:
    """One run of the calls of ``work``, in order. ``wrap`` turns the target into the function to call, for example by
    compiling it; without ``wrap``, the target runs in eager.

    ``modules`` maps names to the target's modules. ``change`` converts the tensors to another dtype or device.
    ``holds_records`` is true if the record of a call is still used after later calls have run. ``mode`` is the context
    manager in which the calls run. ``records_start`` is true if the state before each call is recorded, which shows
    what a call has written.
    """

    records_start = True

    def __init__(
        self,
        work: Work,
        world: World | None = None,
        wrap: Callable[[Any], Any] | None = None,
        *,
        change: Convert | None = None,
        holds_records: bool = False,
    ) -> None:
        self._work = work
        self.world = world or World(work)
        self.mode: AbstractContextManager[Any] = nullcontext()
        self._holds_records = holds_records
        self._contents = self.world.snapshot.new_leg()
        # Tensors that a float64 run creates in the default dtype must be float64 as well.
        self._process = ProcessState.now().with_dtype(torch.float64) if change else ProcessState.now()
        with kept_rng():
            seed_everything(work.seed)
            self._rng, self._host_rng = rng_state(), host_rng_state()
            self._target = work.make_target()
        if self._target is not work.target:
            self.world.names.note_target(self._target)
        self._seeded = self._rng
        self._names = argument_names(self._target)
        # The modules are found before the target is wrapped, because a wrapper may replace modules.
        self.modules = modules_of(self._target)
        with without_torch_function():
            self._start(change)
        self._calls = [with_replacements(call, self._contents.replacements) for call in work.calls]
        self._called, self._optimizer = run_eagerly(self._target), None
        if wrap is not None or work.optimizer is not None:
            with self._own_process(), self.world.in_force(self._contents):
                self._prepare(wrap)
        self._at_start: Flat | None = None
        self._latest: _State | None = None
        self._allocated = frozenset[str]()  # the tensors in ``_latest`` whose memory the run has allocated
        self.went_backward = callable(work.train)

    def _prepare(self, wrap: Callable[[Any], Any] | None) -> None:
        """Wrap the target and create the optimizer, which may run the caller's code."""
        if wrap is not None:
            if self._work.dynamic_dims is not None:
                for call in self._calls:
                    mark_dynamic(call, self._work.dynamic_dims, self._names, self._calls)
            self._called = wrap(self._target)
        if self._work.optimizer is not None:
            params = [p for m in self.modules.values() for p in m.parameters() if p.requires_grad]
            self._optimizer = self._work.make_optimizer(params)

    def _start(self, change: Convert | None) -> None:
        """Replace the parts of the state that this run does not share with the caller."""
        snapshot = self.world.snapshot
        if self._work.trains:  # backward stops at the calls' inputs, and does not enter the caller's autograd graph
            for tensor in snapshot.tensors():
                if tensor.requires_grad and not tensor.is_leaf:
                    self._contents.replacements.add(tensor, tensor.detach().requires_grad_())
        if change is not None:
            convert(snapshot, self._contents, change)
        snapshot.replace(self._contents)

    @property
    def has_drawn(self) -> bool:
        """Whether the calls so far have drawn random numbers from torch's default generators. ``has_drawn`` is also
        true if a call initialized a device, because it is unknown whether the call drew random numbers on that device.
        """
        if self._rng.keys() != self._seeded.keys():
            return True
        return any(not torch.equal(state, self._seeded[device]) for device, state in self._rng.items())

    @property
    def changed_objects(self) -> dict[Key, Any]:
        """The new contents of the objects and variables that the calls so far have changed. Tensors are omitted."""
        return self.world.snapshot.changed_objects(self._contents)

    def run(self, index: int) -> CallRecord:
        """Run call ``index`` (from 0, in order) and record its results."""
        call = self._calls[index]
        record = CallRecord(index + 1, exceptions=call.exceptions, argument_names=self._names)
        record.parameters = frozenset(self._parameters())
        has_lazy = any(is_lazy(parameter) for parameter in self._parameters().values())
        before = Contents(dict(self._contents.held))
        with self._own_random_stream(record), self._own_process(), self.world.in_force(self._contents):
            with without_torch_function():
                initial = self._latest or (self._present() if self.records_start else _State())
                arguments = outcome.while_it_lasts(arguments_of(record, call.args, call.kwargs), self.world.snapshot)
            with self.mode:
                self._call(call, index, record)
            if index + 1 == len(self._calls):
                self._optimizer = None  # frees the optimizer's state, which may be twice as large as the model
            with without_torch_function():
                self._record(call, record)
        if has_lazy:  # dynamo initializes lazy parameters while tracing, and then restores the random state
            record.rng = {}
        with without_torch_function():
            self._settle(record, arguments, initial, before, last=index + 1 == len(self._calls))
        return record

    def _record(self, call: Call, record: CallRecord) -> None:
        """Record what a call has left, before the caller's state is restored."""
        self._record_gradients(call, record)
        left = arguments_of(record, call.args, call.kwargs)
        if self.records_start:  # the other runs are references for tensors only
            left = outcome.with_contents(left, record, call, self.world.snapshot)
        record.arguments = outcome.while_it_lasts(left, self.world.snapshot)
        record.output = outcome.while_it_lasts(flatten(record.output), self.world.snapshot)
        self.world.snapshot.take()
        now = self._present()
        record.state, record.kept = dict(now.state.tensors), now.kept
        record.sharing = sharing_in(record)

    def _call(self, call: Call, index: int, record: CallRecord) -> None:
        for action in call.actions:
            action(self._target)
        if self._work.trains:
            self._zero_grad(call)
        try:
            self._steps(call, index, record)
        except Exception as error:
            record.error = error

    def _present(self) -> _State:
        """Return the target's current state. The result contains the target's tensors, not copies."""
        buffers = self._named(lambda module: module.named_buffers())
        state = {**{name: _whole(parameter) for name, parameter in self._parameters().items()}, **buffers}
        covered = [id(tensor) for tensor in (*self._parameters().values(), *buffers.values())]
        process = {name: Node(type(value), True, value) for name, value in ProcessState.now().named().items()}
        kept = Flat({**self.world.kept.of(self._target, self._contents, covered).nodes, **process})
        snapshot = self.world.snapshot
        return _State(outcome.while_it_lasts(_flat(state), snapshot), outcome.while_it_lasts(kept, snapshot))

    def _settle(self, record: CallRecord, arguments: Flat, initial: _State, before: Contents, *, last: bool) -> None:
        """Replace the values in the record with values that remain valid after the caller's state is restored."""
        # A later call may write to memory that this call allocated, which matters only while the record is still used.
        own = self._holds_records and not last
        held_on_to = {storage_key(tensor) for tensor in record.kept.tensors.values()} - {None}

        def settled(flat: Flat, *, copy: bool = own, contents: Contents = self._contents) -> Flat:
            return outcome.at_end_of_call(flat, self.world.snapshot, contents, copy=copy)

        record.output = Flat(
            {
                path: settled(Flat({path: node}), copy=own and storage_key(node.value) in held_on_to).nodes[path]
                if node.is_leaf and isinstance(node.value, torch.Tensor)
                else node
                for path, node in record.output.nodes.items()
            }
        )
        record.pristine = settled(arguments, copy=False, contents=before)
        record.arguments = settled(record.arguments)
        record.grads = settled(_flat(record.grads)).leaves
        record.input_grads = settled(_flat(record.input_grads)).leaves
        if self._latest is None:
            initial = _State(*(settled(flat, copy=False, contents=before) for flat in (initial.state, initial.kept)))
        # Only attributes are recorded here. A compile wrapper may add attributes to its target, and these are not
        # compared.
        at_start = {path: node for path, node in initial.kept.nodes.items() if path.startswith("attribute ")}
        self._at_start = self._at_start or Flat(at_start)
        record.kept_at_start, record.initial_kept = self._at_start, initial.kept.tensors
        record.initial_state, record.overwritten = initial.state.tensors, self._allocated
        left = () if own else (*record.state.items(), *record.kept.tensors.items())
        self._allocated = frozenset(name for name, tensor in left if not self.world.snapshot.is_noted(tensor))
        self._latest = _State(settled(_flat(record.state)), settled(record.kept))
        record.state, record.kept = self._latest.state.tensors, self._latest.kept

    def _steps(self, call: Call, index: int, record: CallRecord) -> None:
        for step in range(self._work.steps):
            if step and self._work.trains:
                self._zero_grad(call)
            with ExitStack() as stack:
                for factory in call.contexts:
                    stack.enter_context(factory())
                record.part = "forward"
                record.output = self._called(*call.args, **call.kwargs)
            if self._work.trains:
                record.part = "backward pass"
                self._backward(record.output, index)
            if self._optimizer is not None:
                record.part = "optimizer step"
                self._optimizer.step()
                record.optimizer_steps = step + 1

    def _backward(self, output: Any, index: int) -> None:
        if callable(self._work.train):
            self._work.train(output).backward()
            return
        with without_torch_function():
            tensors = [
                tensor
                for tensor in flatten(output).tensors.values()
                if tensor.requires_grad and (tensor.dtype.is_floating_point or tensor.dtype.is_complex)
            ]
            # A tensor that is returned twice would otherwise add its gradient twice.
            unique = list({id(tensor): tensor for tensor in tensors}.values())
            gradients = self._cotangents(unique, index)
        if unique:
            self.went_backward = True
            torch.autograd.backward(unique, gradients)

    def _cotangents(self, outputs: Sequence[torch.Tensor], index: int) -> list[torch.Tensor]:
        """Return the gradients from which backward starts in call ``index``, which are the same in eager and compiled
        runs.
        """
        return cotangents(outputs, self._work.seed + index)

    def _zero_grad(self, call: Call) -> None:
        with without_torch_function():
            for tensor in (*self._parameters().values(), *self._inputs(call).values()):
                if tensor.is_leaf:
                    tensor.grad = None

    def _record_gradients(self, call: Call, record: CallRecord) -> None:
        record.grads = {name: _whole(p.grad) for name, p in self._parameters().items() if p.is_leaf}
        inputs = self._inputs(call).items()
        record.input_grads = {path: tensor.grad for path, tensor in inputs if tensor.requires_grad and tensor.is_leaf}

    def _inputs(self, call: Call) -> dict[str, torch.Tensor]:
        named = {argument_label(self._names, i): value for i, value in enumerate(call.args)} | dict(call.kwargs)
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
            f"{prefix}.{name}".lstrip(".").replace(COMPILED, ""): tensor
            for prefix, module in self.modules.items()
            for name, tensor in entries(module)
        }

    @contextmanager
    def _own_random_stream(self, record: CallRecord) -> Iterator[None]:
        with kept_rng():
            seed_accelerator(self._work.seed)  # for a device that is initialized later
            set_rng_state(self._rng)
            set_host_rng_state(self._host_rng)
            try:
                yield
            finally:
                self._rng, self._host_rng = rng_state(), host_rng_state()
                record.rng = self._rng

    @contextmanager
    def _own_process(self) -> Iterator[None]:
        """Inside the ``with`` block, apply this run's process-wide settings, such as grad mode and autocast. If a call
        changes a setting, the change affects only later calls of the same run.
        """
        with ProcessState.kept():
            self._process.put()
            try:
                yield
            finally:
                self._process = ProcessState.now()


def _flat(named: Mapping[str, Any]) -> Flat:
    return Flat({name: Node(type(value), True, value) for name, value in named.items()})


def _whole(tensor: Any) -> Any:
    """Gather a sharded tensor (DTensor); return any other tensor unchanged."""
    if not hasattr(tensor, "full_tensor"):
        return tensor
    whole = tensor.full_tensor()
    return torch.nn.Parameter(whole, tensor.requires_grad) if isinstance(tensor, torch.nn.Parameter) else whole
