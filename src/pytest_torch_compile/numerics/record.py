"""What one leg did on one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from .aliasing import Sharing
from .tree import Flat


@dataclass
class CallRecord:
    """What one leg did on one call.

    ``number`` counts the calls from 1.
    ``output`` and ``arguments`` are structures taken apart, or the values themselves: for the arguments ``(args,
    kwargs)`` after the call. ``pristine`` is the same before it, which shows what eager changed in place. ``state``
    holds parameters and buffers after the call by name, ``initial_state`` the same before it (may be empty), ``grads``
    the parameters' gradients, ``input_grads`` those of the inputs.
    ``kept`` is what the target keeps apart from those, such as attributes and closed-over variables, and
    ``kept_at_start`` the same before the first call; ``initial_kept`` holds its tensors before this call.
    ``sharing`` is which outputs shared memory with what, where it was noted while the leg's tensors were in place.
    ``parameters`` names the entries of ``state`` that are parameters (the keys of ``grads`` when empty).
    ``exceptions`` are those that the call is meant to raise. ``argument_names`` gives the positional arguments names
    for messages.
    """

    number: int = 1
    output: Any = None
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
    sharing: Sharing | None = None
    rng: Mapping[str, torch.Tensor] = field(default_factory=dict)
    optimizer_steps: int = 0
    parameters: frozenset[str] = frozenset()
    argument_names: Sequence[str] = ()
    exceptions: tuple[type[Exception], ...] = ()

    def is_parameter(self, name: str) -> bool:
        """Whether an entry of ``state`` is a parameter, and no buffer."""
        known = self.parameters or frozenset(self.grads)
        return name in known or isinstance(self.state.get(name), torch.nn.Parameter)

    def state_label(self, name: str) -> str:
        """``parameter NAME`` or ``buffer NAME``."""
        return f"{'parameter' if self.is_parameter(name) else 'buffer'} {name}"

    def argument_label(self, position: int) -> str:
        """``argument NAME``, or ``argument 0`` where the name is not known."""
        names = self.argument_names
        return f"argument {names[position] if position < len(names) else position}"
