"""Find out which of Inductor's decompositions and lowerings are used, and temporarily remove some of them.

This module was checked with torch 2.6, 2.8, 2.11, 2.13 and 2.15.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch

Table = Literal["decomposition", "lowering"]


def is_set(option: str) -> bool:
    """Return whether this torch version has the Inductor option and the option's value is not None."""
    from torch._inductor import config

    return getattr(config, option, None) is not None


@contextmanager
def noting(table: Table, used: list[str]) -> Iterator[None]:
    """Inside the ``with`` block, append to ``used`` the name of each op whose table entry is used."""

    def noted(op: Any, entry: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(entry)
        def note(*args: Any, **kwargs: Any) -> Any:
            if str(op) not in used:
                used.append(str(op))
            return entry(*args, **kwargs)

        return note

    with _changed(table, lambda op, entry: noted(op, entry)):
        yield


@contextmanager
def without(table: Table, ops: Collection[str]) -> Iterator[None]:
    """Inside the ``with`` block, turn off the table entries of the ``ops``. If entries of ``decomposition`` are turned
    off, Inductor does not decompose the ops. If entries of ``lowering`` are turned off, Inductor calls the eager
    kernels of the ops.
    """
    from torch._inductor.lowering import fallback_handler

    def left_out(op: Any, entry: Callable[..., Any]) -> Callable[..., Any] | None:
        if str(op) not in ops:
            return entry
        return fallback_handler(op, add_to_fallback_set=False) if table == "lowering" else None

    with _changed(table, left_out):
        yield


@contextmanager
def _changed(table: Table, change: Callable[[Any, Any], Any]) -> Iterator[None]:
    """Inside the ``with`` block, replace each op's table entry with the result of ``change`` (None removes the entry),
    and turn off compile caches.
    """
    from torch._functorch import config as aot_config
    from torch._inductor import config, decomposition, lowering

    entries = decomposition.decompositions if table == "decomposition" else lowering.lowerings
    before = dict(entries)
    changed = {op: change(op, entry) for op, entry in before.items() if isinstance(op, torch._ops.OpOverload)}
    try:
        _fill(entries, {op: entry for op, entry in (before | changed).items() if entry is not None})
        decomposition.fast_random_decomps.cache_clear()
        with config.patch(fx_graph_cache=False), aot_config.patch(enable_autograd_cache=False):
            yield
    finally:
        added = {op: entry for op, entry in entries.items() if op not in before}
        _fill(entries, before | added)
        decomposition.fast_random_decomps.cache_clear()


def _fill(entries: dict[Any, Any], content: dict[Any, Any]) -> None:
    entries.clear()
    entries.update(content)
