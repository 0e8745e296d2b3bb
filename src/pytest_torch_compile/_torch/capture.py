"""Make dynamo capture more code by turning on config switches and by tracing functions that are marked with
``torch.compiler.disable``.

This module was checked with torch 2.6, 2.8, 2.11, 2.13 and 2.15.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FunctionType
from typing import Any

import torch._dynamo.config

from .user_lines import is_library

SCALARS = "capture_scalar_outputs"
INTEGERS_OF_MODULES = "allow_unspec_int_on_nn_module"
DYNAMIC_OUTPUTS = "capture_dynamic_output_shape_ops"


@contextmanager
def capturing(switches: tuple[str, ...]) -> Iterator[None]:
    """Inside the ``with`` block, turn on the ``switches``, which are options of ``torch._dynamo.config``."""
    with torch._dynamo.config.patch(dict.fromkeys(switches, True)):
        yield


def written(switch: str) -> str:
    """Return the line of source code that turns on the switch."""
    return f"torch._dynamo.config.{switch} = True"


def disabled_functions(said: str) -> list[Any]:
    """Return the user's functions that are marked with ``torch.compiler.disable`` and mentioned in torch's message
    about a graph break.
    """
    marked = [one for one in gc.get_objects() if type(one) is FunctionType and "_torchdynamo_disable" in vars(one)]
    return [
        one
        for one in marked
        if re.search(rf"(?<![\w.]){re.escape(one.__qualname__)}(?![\w.])", said)
        and isinstance(original := vars(one).get("_torchdynamo_orig_callable"), FunctionType)
        and not is_library(original.__code__.co_filename)
    ]


@contextmanager
def enabled(functions: Sequence[Any]) -> Iterator[None]:
    """Inside the ``with`` block, trace the ``functions`` as if they were not marked with ``torch.compiler.disable``."""
    try:
        for function in functions:
            function._torchdynamo_disable = False
            function._torchdynamo_inline = function._torchdynamo_orig_callable
        yield
    finally:
        for function in functions:
            function._torchdynamo_disable = True
            del function._torchdynamo_inline
