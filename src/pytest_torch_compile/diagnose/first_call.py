"""Fix code that initializes itself in its first call: call the code once in eager before compiling it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

ADVICE = "call the target once in eager before compiling it"


def set_up(target: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Call the target once in eager with copies of these arguments."""
    own_args, own_kwargs = copy.deepcopy((tuple(args), dict(kwargs)))
    with torch.no_grad(), torch.compiler.set_stance("force_eager"):
        target(*own_args, **own_kwargs)
