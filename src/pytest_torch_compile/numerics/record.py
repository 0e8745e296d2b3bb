"""The record of one call in one run, eager or compiled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from .aliasing import Sharing
from .tree import Flat

Part = Literal["forward", "backward pass", "optimizer step"]


@dataclass
class CallRecord:
    """The record of one call in one run, eager or compiled.

    ``number`` counts the calls from 1. ``part`` is the part of the call that started last; if the call failed, this
    part raised ``error``. ``exceptions`` contains the classes of the exceptions that the call is expected to raise.

    ``output`` and ``arguments`` are flattened structures or the values themselves. ``pristine`` contains the args and
    kwargs before the call, and ``arguments`` contains them after the call, so that in-place changes by the eager run
    can be detected. ``argument_names`` contains the names of positional arguments, for messages.

    ``state`` maps names to the parameters and buffers after the call, and ``initial_state`` maps names to the
    parameters and buffers before the call (``initial_state`` may be empty). ``parameters`` contains the names of those
    entries in ``state`` that are parameters; if ``parameters`` is empty, the keys of ``grads`` are used. ``grads`` maps
    names to the gradients of the parameters, and ``input_grads`` maps names to the gradients of the inputs.

    ``kept`` is the rest of the target's state after the call, such as attributes and closed-over variables.
    ``initial_kept`` contains the tensors in the rest of the target's state before the call. ``kept_at_start`` contains
    only the attributes, as they were before the first call. ``overwritten`` contains the names of those tensors in
    ``initial_state`` and ``initial_kept`` to whose memory the call may have written, so that their values before the
    call are unknown.

    ``sharing`` lists the outputs that share memory with other tensors. ``sharing`` is None if it was not recorded
    during the run.
    """

    number: int = 1
    output: Any = None
    part: Part = "forward"
    error: BaseException | None = None
    arguments: Any = None
    pristine: Any = None
    input_grads: Mapping[str, torch.Tensor | None] = field(default_factory=dict)
    state: Mapping[str, torch.Tensor] = field(default_factory=dict)
    grads: Mapping[str, torch.Tensor | None] = field(default_factory=dict)
    initial_state: Mapping[str, torch.Tensor] = field(default_factory=dict)
    kept: Flat = field(default_factory=Flat)
    kept_at_start: Flat = field(default_factory=Flat)
    initial_kept: Mapping[str, torch.Tensor] = field(default_factory=dict)
    overwritten: frozenset[str] = frozenset()
    sharing: Sharing | None = None
    rng: Mapping[str, torch.Tensor] = field(default_factory=dict)
    optimizer_steps: int = 0
    parameters: frozenset[str] = frozenset()
    argument_names: Sequence[str] = ()
    exceptions: tuple[type[Exception], ...] = ()

    def is_parameter(self, name: str) -> bool:
        """Return whether an entry of ``state`` is a parameter rather than a buffer."""
        known = self.parameters or frozenset(self.grads)
        return name in known or isinstance(self.state.get(name), torch.nn.Parameter)

    def state_label(self, name: str) -> str:
        """Return the label ``parameter NAME`` or ``buffer NAME``."""
        return f"{'parameter' if self.is_parameter(name) else 'buffer'} {name}"

    def argument_label(self, position: int) -> str:
        """Return the label ``argument NAME``, or ``argument 0`` if the name is unknown."""
        names = self.argument_names
        return f"argument {names[position] if position < len(names) else position}"
