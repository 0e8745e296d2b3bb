"""Record the random numbers of one run, and replay them in a run with a different dtype.

With the same seed, torch draws different random numbers in fp64 than in fp32. Without a replay, dropout would therefore
drop different elements in an fp64 run. This module uses op tags, which are the same in torch 2.6 to 2.15.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from .dispatch_mode import DispatchMode, is_higher_order
from .sandbox import rng_state


@dataclass
class Tape:
    """The results of a run's random ops, in order."""

    drawn: list[tuple[str, list[torch.Tensor]]] = field(default_factory=list)
    position: int = 0

    def next(self, name: str) -> list[torch.Tensor]:
        """Return the next recorded result, which must come from op ``name``.

        Raises:
            RuntimeError: If the two runs do not draw random numbers with the same ops in the same order.
        """
        if self.position >= len(self.drawn) or self.drawn[self.position][0] != name:
            raise RuntimeError(
                f"{name} draws random numbers in the float64 run, but not at this point of the eager run"
            )
        self.position += 1
        return self.drawn[self.position - 1][1]


class Recording(DispatchMode):
    """A mode that records the results of random ops."""

    def __init__(self, tape: Tape) -> None:
        super().__init__()
        self._tape = tape

    def call(self, func: Any, args: Any, kwargs: Any) -> Any:
        result = func(*args, **kwargs)
        if is_random(func, args, kwargs):
            self._tape.drawn.append((_name(func), [tensor.detach().clone() for tensor in _tensors(result)]))
        return result


class Replaying(DispatchMode):
    """A mode that makes random ops return recorded numbers."""

    def __init__(self, tape: Tape) -> None:
        super().__init__()
        self._tape = tape

    def call(self, func: Any, args: Any, kwargs: Any) -> Any:
        if is_higher_order(func):
            return _without_random_numbers(func, args, kwargs)
        # A random op runs as well, because its result has the right shape, dtype and layout for the recorded numbers.
        result = func(*args, **kwargs)
        if not is_random(func, args, kwargs):
            return result
        drawn = self._tape.next(_name(func))
        special = _SPECIAL.get(_name(func))
        if special is not None:
            special(result, drawn, args)
        elif _name(func).startswith(_SEALED):
            raise RuntimeError(f"the random numbers inside {_name(func)} cannot be replayed")
        else:
            for made, known in zip(_tensors(result), drawn, strict=True):
                made.copy_(known)
        return result


def is_random(func: Any, args: Any, kwargs: Any) -> bool:
    """Return whether an op draws random numbers. Attention with a dropout probability of 0 draws none."""
    if is_higher_order(func) or torch.Tag.nondeterministic_seeded not in func.tags:
        return False
    for position, argument in enumerate(func._schema.arguments):
        if argument.name in ("dropout_p", "dropout"):
            given = args[position] if position < len(args) else kwargs.get(argument.name, argument.default_value)
            return bool(given)
    return True


def _without_random_numbers(op: Any, args: Any, kwargs: Any) -> Any:
    """Run a higher-order op, which must not draw random numbers: the ops inside it cannot be replayed."""
    before = rng_state()
    result = op(*args, **kwargs)
    if any(not torch.equal(state, before[device]) for device, state in rng_state().items() if device in before):
        raise RuntimeError(f"the random numbers inside {op.__name__} cannot be replayed")
    return result


def _name(func: Any) -> str:
    return str(func.overloadpacket).removeprefix("aten.")


def _tensors(result: Any) -> list[torch.Tensor]:
    values = result if isinstance(result, (tuple, list)) else (result,)
    return [value for value in values if isinstance(value, torch.Tensor)]


def _dropout(result: Any, drawn: list[torch.Tensor], args: Any) -> None:
    """Replay only dropout's random mask; the output is computed from the mask and this run's input."""
    output, mask = result
    mask.copy_(drawn[1])
    probability = float(args[1])
    # With a probability of 1, the mask is 0 everywhere, and the usual scale would be a division by 0.
    scale = 0.0 if probability == 1 else 1 / (1 - probability)
    output.copy_(args[0] * mask * scale)


_SPECIAL: dict[str, Callable[[Any, list[torch.Tensor], Any], None]] = {"native_dropout": _dropout}
# The random numbers of these ops are not visible in the results, or depend on the input.
_SEALED = (
    "_scaled_dot_product",
    "_efficient_attention",
    "_flash_attention",
    "_fused_dropout",
    "_cudnn_rnn",
    "miopen_rnn",
    "rrelu_with_noise",
)
