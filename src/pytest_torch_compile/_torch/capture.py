"""Switches of dynamo that let it capture more. Read on torch 2.6, 2.8, 2.11, 2.13 and 2.15."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch._dynamo.config

SCALARS = "capture_scalar_outputs"
INTEGERS_OF_MODULES = "allow_unspec_int_on_nn_module"
DYNAMIC_OUTPUTS = "capture_dynamic_output_shape_ops"


@contextmanager
def capturing(switches: tuple[str, ...]) -> Iterator[None]:
    """The body with these switches on."""
    with torch._dynamo.config.patch(dict.fromkeys(switches, True)):
        yield


def written(switch: str) -> str:
    """How people write it."""
    return f"torch._dynamo.config.{switch} = True"
