"""Identify the code that Inductor generated, to determine whether two processes ran the same kernels.

Inductor makes some decisions, such as how to tile a kernel or whether to pad a matrix product, by timing the
alternatives. So two compilations of one graph often produce different code, which runs at different speeds.

This module uses these private torch names, checked with torch 2.6, 2.8, 2.11, 2.13 and 2.15: ``PyCodeCache.modules``.
In the module that Inductor generates for a graph, ``call`` and the Triton kernels are global variables. Each kernel has
a list of ``launchers``, in which autotuning leaves only one launcher.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def loaded() -> int:
    """Return the number of modules that Inductor has loaded so far. ``identity`` uses this number to find the modules
    that were loaded later.
    """
    return len(_modules())


def identity(since: int) -> str:
    """Return two hashes in the form ``code/tuning``: ``code`` is a hash of the code that Inductor generated, and
    ``tuning`` is a hash of the autotuning choices.

    The result is empty if Inductor generated no code. ``since`` is the number that ``loaded`` returned before the
    compilation. Call this function after the code has run, because kernels are autotuned when they are first called.
    """
    graphs = [module for module in _modules()[since:] if hasattr(module, "call")]
    if not graphs:
        return ""
    # Comments contain paths of the compile cache; the code does not.
    sources = [Path(graph.__file__).read_text(encoding="utf-8").splitlines() for graph in graphs]
    code = ["\n".join(line for line in lines if not line.lstrip().startswith("#")) for lines in sources]
    kernels = [(name, getattr(kernel, "launchers", None)) for graph in graphs for name, kernel in vars(graph).items()]
    # After autotuning, a kernel has only one launcher left.
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
