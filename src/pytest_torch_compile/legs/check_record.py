"""The record of a check, which the stages in ``check/pipeline.py`` carry out."""

from __future__ import annotations

from dataclasses import dataclass

from ..budget import Budget
from ..numerics import Tolerances
from .compiling import Compiling
from .work import Work


@dataclass(frozen=True)
class Check:
    """A check: what to run, how to compile it, and what is allowed.

    ``work`` contains the target and its calls. ``declared`` is the budget that the caller passed; ``budget``
    also contains what the running test accepts (``check/acceptance.py``). With ``warm``, every graph must come from
    the compile cache. With ``custom_ops``, the custom ops that the target calls are tested too. ``diagnose`` is the
    level of the diagnosis of a failure, or None for the level of ``--compile-diagnose``. ``faster_backend`` is the
    backend that ``--compile-fast`` uses instead of Inductor, or empty.
    """

    work: Work
    compiling: Compiling
    declared: Budget
    budget: Budget
    tolerances: Tolerances
    warm: bool = False
    custom_ops: bool = False
    diagnose: str | None = None
    faster_backend: str = ""
