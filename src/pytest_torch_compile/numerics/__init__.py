"""Compare the eager and compiled runs: values, gradients, in-place writes, aliasing, metadata, exceptions and random
states.
"""

from __future__ import annotations

from .compare import Comparison, LeafVerdict, compare_call
from .extra_runs import ExtraRuns
from .record import CallRecord
from .tolerances import Tolerance, Tolerances
from .tree import Flat, Node, flatten

__all__ = [
    "CallRecord",
    "Comparison",
    "ExtraRuns",
    "Flat",
    "LeafVerdict",
    "Node",
    "Tolerance",
    "Tolerances",
    "compare_call",
    "flatten",
]
