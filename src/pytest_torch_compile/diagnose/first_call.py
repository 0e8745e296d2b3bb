"""A change that helps code which sets itself up in its first call: one call in eager before it is compiled."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from ..legs.calls import Call

ADVICE = "call it once in eager before it is compiled"


def called_in_eager_first(calls: Sequence[Call]) -> list[Call]:
    """The same calls, before which the target is called once with the arguments of the first."""
    first = calls[0]

    def set_up(target: Any) -> None:
        args, kwargs = copy.deepcopy((first.args, dict(first.kwargs)))
        with torch.no_grad(), torch.compiler.set_stance("force_eager"):
            target(*args, **kwargs)

    return [replace(first, actions=(*first.actions, set_up)), *calls[1:]]
