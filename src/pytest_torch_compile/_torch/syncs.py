"""Find the line of user code for each synchronization, which is a point at which the host waits for the GPU.

``torch.cuda.set_sync_debug_mode`` makes torch warn about synchronizations in torch functions. The debug mode is a
prototype and does not detect all synchronizations. To observe explicit synchronizations, this module wraps the torch
functions that wait for the GPU. This module depends on these parts of torch, checked with torch 2.6, 2.8, 2.11, 2.13
and 2.15: ``set_sync_debug_mode``, the text of its warnings, ``synchronize`` of ``torch.cuda``, ``torch.cuda.Stream``
and ``torch.cuda.Event``. Synchronizations in C++ extensions are not detected.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

from ..observation import Location
from .stack import line_now

_WARNING = "called a synchronizing CUDA operation"
_OF_THE_MODE = "Synchronization debug mode is a prototype feature"
_WAITERS: tuple[Any, ...] = (torch.cuda, torch.cuda.Stream, torch.cuda.Event)
Note = Callable[[Location | None], None]


@contextmanager
def noting_syncs(note: Note) -> Iterator[None]:
    """Call ``note`` with the line of user code for each synchronization inside the ``with`` block."""
    before = torch.cuda.get_sync_debug_mode()
    with hearing_warnings(note), ExitStack() as stack:
        stack.callback(torch.cuda.set_sync_debug_mode, before)
        torch.cuda.set_sync_debug_mode("warn")
        for owner in _WAITERS:
            stack.callback(setattr, owner, "synchronize", owner.synchronize)
            owner.synchronize = _noted(owner.synchronize, note)
        yield


def _noted(wait: Callable[..., Any], note: Note) -> Callable[..., Any]:
    def synchronize(*args: Any, **kwargs: Any) -> Any:
        note(line_now())
        return wait(*args, **kwargs)

    return synchronize


@contextmanager
def hearing_warnings(note: Note) -> Iterator[None]:
    """Call ``note`` for each of torch's warnings about a synchronization inside the ``with`` block, instead of showing
    the warning.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("always", message=_WARNING)
        warnings.filterwarnings("ignore", message=_OF_THE_MODE)
        show = warnings.showwarning

        def showwarning(message: Any, *args: Any, **kwargs: Any) -> None:
            if str(message).startswith(_WARNING):
                note(line_now())
            else:
                show(message, *args, **kwargs)

        warnings.showwarning = showwarning
        yield
