"""Which code Inductor made, to know whether two processes ran the same kernels.

Inductor chooses by timing: how a kernel is tiled, whether a product is padded. Two compilations of one graph are
therefore seldom the same code, and their speed differs.

Private names used, checked on torch 2.6, 2.8, 2.11, 2.13 and 2.15: ``PyCodeCache.modules``, the modules it loads having
a ``call`` for each graph and the Triton kernels as globals, each with its ``launchers`` (one, once tuned).
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable
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
    # Comments hold paths of the compile cache; the code itself holds none.
    sources = [Path(graph.__file__).read_text(encoding="utf-8").splitlines() for graph in graphs]
    code = ["\n".join(line for line in lines if not line.lstrip().startswith("#")) for lines in sources]
    kernels = [(name, getattr(kernel, "launchers", None)) for graph in graphs for name, kernel in vars(graph).items()]
    # A kernel that is tuned has one launcher left.
    tuning = [
        f"{name}: {getattr(launchers[0], 'config', '')}"
        for name, launchers in kernels
        if isinstance(launchers, list) and len(launchers) == 1
    ]
    return f"{_hash(code)}/{_hash(tuning)}"


def _modules() -> list[Any]:
    codecache = sys.modules.get("torch._inductor.codecache")
    return codecache.PyCodeCache.modules if codecache else []


def _hash(texts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(sorted(set(texts))).encode()).hexdigest()[:16]
