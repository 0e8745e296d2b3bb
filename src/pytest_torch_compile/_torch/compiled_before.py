"""Handle earlier compilations: find functions with graphs, observe calls to compiled code, and discard graphs.

This module uses these private torch names, checked with torch 2.6, 2.8, 2.11, 2.13 and 2.15:
``convert_frame.input_codes``, ``torch._dynamo.eval_frame._debug_get_cache_entry_list``, ``reset_code``, and
``_callback_from_stance``, which runs on each call of a compiled function; since 2.13, also
``get_eval_frame_isolate_recompiles_id``. C code selects the graph that a call runs, so this selection cannot be
observed.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

from ..observation import Location
from .user_lines import function_name


def compiled_codes() -> list[CodeType]:
    """Return the code objects that dynamo has processed since its last reset, or an empty list if dynamo is not
    loaded.
    """
    convert_frame = sys.modules.get("torch._dynamo.convert_frame")
    if convert_frame is None:
        return []
    return [code for ref in convert_frame.input_codes.seen if (code := ref()) is not None]


def has_graphs(code: CodeType) -> bool:
    """Return whether a code object currently has compiled graphs."""
    from torch._dynamo.eval_frame import _debug_get_cache_entry_list

    return bool(_debug_get_cache_entry_list(code))


def functions_with_graphs() -> tuple[Location, ...]:
    """Return the functions that currently have compiled graphs, excluding resume functions."""
    return tuple(
        Location(code.co_filename, code.co_firstlineno, code.co_name)
        for code in compiled_codes()
        if code.co_name == function_name(code.co_name) and has_graphs(code)
    )


def isolated_region() -> int:
    """Return the number of the cache region in which dynamo compiles now: each ``torch.compile`` with
    ``isolate_recompiles=True`` has a region, and a compilation in an empty region is not a recompile. -1 is the common
    region, which is the only one before torch 2.13.
    """
    from torch._C._dynamo import eval_frame

    region: Callable[[], int] | None = getattr(eval_frame, "get_eval_frame_isolate_recompiles_id", None)
    return -1 if region is None else region()


def drop(codes: Iterable[CodeType]) -> None:
    """Discard the graphs of these code objects."""
    from torch._dynamo.eval_frame import reset_code

    for code in codes:
        reset_code(code)


# The functions to call for each call of compiled code, and what ``_callback_from_stance`` was before there were any.
# Blocks in several threads may overlap, so the first one replaces it, and the last one puts it back.
_notes: list[Callable[[FrameType], None]] = []
_original: list[Any] = []
_lock = threading.Lock()


@contextmanager
def counting_calls(note: Callable[[FrameType], None]) -> Iterator[bool]:
    """Call ``note`` for each call to a compiled function inside the ``with`` block, in any thread, with the frame of
    the wrapper that calls the function. The context manager yields True if these calls can be observed, and False
    otherwise.
    """
    from torch._dynamo import eval_frame

    if not hasattr(eval_frame, "_callback_from_stance"):
        yield False
        return

    def counting(callback: Any) -> Any:
        if callback not in (None, False):
            for one in list(_notes):
                one(sys._getframe(1))
        return _original[0](callback)

    with _lock:
        if not _notes:
            _original[:] = [eval_frame._callback_from_stance]
            eval_frame._callback_from_stance = counting
        _notes.append(note)
    try:
        yield True
    finally:
        with _lock:
            _notes.remove(note)
            if not _notes:
                eval_frame._callback_from_stance = _original[0]
