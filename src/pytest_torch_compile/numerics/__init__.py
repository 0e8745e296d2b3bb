"""Compare the eager and compiled runs: values, gradients, in-place writes, aliasing, metadata, exceptions and random
states.
"""

from __future__ import annotations

from .aliasing import storage_key
from .compare import Comparison, LeafVerdict, compare_call
from .extra_runs import ExtraRuns
from .record import CallRecord
from .sections import arguments_of, sharing_in
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
    "arguments_of",
    "compare_call",
    "flatten",
    "sharing_in",
    "storage_key",
]
