"""Choices that Inductor makes by timing alternatives while it compiles.

Inductor times whether a matrix product is faster if its operands are padded. The result can depend on what else the
host and the device do, and it changes the number of kernels.

This module uses one private torch name, checked with torch 2.11 and 2.15:
``torch._inductor.fx_passes.pad_mm.get_do_bench``, which returns the function that times one alternative. Without this
name, Inductor times the alternatives as usual.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any


@contextmanager
def timing_in(turn: Callable[[], AbstractContextManager[None]]) -> Iterator[None]:
    """Inside the ``with`` block, enter ``turn()`` whenever Inductor times whether to pad a matrix product."""
    try:
        from torch._inductor.fx_passes import pad_mm

        original = pad_mm.get_do_bench
    except (ImportError, AttributeError):
        yield
        return

    def in_turn() -> Callable[..., Any]:
        measure = original()

        def measured(*args: Any, **kwargs: Any) -> Any:
            with turn():
                return measure(*args, **kwargs)

        return measured

    pad_mm.get_do_bench = in_turn
    try:
        yield
    finally:
        pad_mm.get_do_bench = original
