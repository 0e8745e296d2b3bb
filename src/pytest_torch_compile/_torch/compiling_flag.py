"""Run code eagerly while ``is_compiling()`` returns True, so that the code takes the branches meant for compiled code.

This module uses these private torch names, checked with torch 2.6, 2.8, 2.11, 2.13 and 2.15:
``torch.compiler._is_compiling_flag``, which ``torch.compiler.is_compiling`` returns in eager code. During tracing,
dynamo replaces calls to ``is_compiling`` and ``is_dynamo_compiling`` with True.
"""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import torch

from ..observation import Location
from .profile_function import profile_function
from .user_lines import is_torch


def _yes() -> bool:
    return True


@contextmanager
def believing_to_be_compiled() -> Iterator[list[Location]]:
    """Make ``is_compiling`` and ``is_dynamo_compiling`` return True inside the ``with`` block, and record each line
    outside torch that calls one of them.
    """
    asked: list[Location] = []
    compiler: Any = torch.compiler
    dynamo_asks = torch.compiler.is_dynamo_compiling
    flag, code = compiler._is_compiling_flag, dynamo_asks.__code__
    answers = {torch.compiler.is_compiling.__code__, _yes.__code__}

    def note(frame: FrameType, event: str, argument: object) -> None:
        caller = frame.f_back
        if event != "call" or frame.f_code not in answers or caller is None or is_torch(caller.f_code.co_filename):
            return
        file, line = caller.f_code.co_filename, caller.f_lineno
        asked.append(Location(file, line, caller.f_code.co_name, linecache.getline(file, line).strip()))

    # Replace the code of the function, because user code may have imported the function by name.
    compiler._is_compiling_flag, dynamo_asks.__code__ = True, _yes.__code__
    try:
        with profile_function(note):
            yield asked
    finally:
        compiler._is_compiling_flag, dynamo_asks.__code__ = flag, code
