"""Which code Inductor made, so that two processes can be told to have run the same kernels.

Inductor chooses by timing: how a kernel is tiled, whether a product is padded. Two compilations of one graph are
therefore seldom the same code, and their speed differs.

Private names used, checked on torch 2.6, 2.8, 2.11, 2.13 and 2.15: ``PyCodeCache.modules``, the modules it loads having
a ``call`` for each graph and the Triton kernels as globals, each with its ``launchers`` (one, once tuned).
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any


def loaded() -> int:
    """How many modules Inductor has loaded so far: what is loaded later belongs to what is compiled next."""
    return len(_modules())


def identity(since: int) -> str:
    """``source/tuning``: the first the same for the same code, the second for the same choices of how to run it.

    Empty where Inductor made no code. ``since`` is what ``loaded`` said before compiling. Ask after the code has run:
    kernels are tuned in their first call.
    """
    graphs = [module for module in _modules()[since:] if hasattr(module, "call")]
    if not graphs:
        return ""
    return f"{_hash(map(_source, graphs))}/{_hash(line for graph in graphs for line in _tuned(vars(graph).items()))}"


def _modules() -> list[Any]:
    codecache = sys.modules.get("torch._inductor.codecache")
    return codecache.PyCodeCache.modules if codecache else []


def _hash(texts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(sorted(set(texts))).encode()).hexdigest()[:16]


def _source(module: Any) -> str:
    # Comments hold paths of the compile cache; the code itself holds none.
    lines = Path(module.__file__).read_text(encoding="utf-8").splitlines()
    return "\n".join(line for line in lines if not line.lstrip().startswith("#"))


def _tuned(names: Iterable[tuple[str, Any]]) -> Iterator[str]:
    for name, kernel in names:
        launchers = getattr(kernel, "launchers", None)
        if isinstance(launchers, list) and len(launchers) == 1:
            yield f"{name}: {getattr(launchers[0], 'config', '')}"
