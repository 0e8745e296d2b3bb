"""Work that is counted, not timed: kernels and Python calls of one call. Plain data: neither torch nor pytest.

Where others use the host too, times scatter between processes by several percent; counts do not. A leg that does more
of its work than in any stored run is not slower by chance: where its time agrees, that is enough.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..sample import Figures, name_in

# What a time is made of, and from how much more of it on that counts, as a number and as a share: kernels are exact,
# while processes that ran the same code differed by one Python call. Code that calls as many functions as the forward
# passes of five models do makes 2 to 5 % more calls where it slows a compiled leg by 5 % (inject-6.json).
WORK = {"device": ("kernels", 1, 0.0), "wall": ("python-calls", 2, 0.01)}
# One-sided: a host 5 % slower is called in 66 to 100 % where processes scatter by 4.5 to 0.3 %, one 10 % slower in 99
# to 100 %, and work that costs nothing in 5 to 0 % (benchmarks/speed/simulated.py).
LEVEL = 0.03
# So many standard errors under the floor, a change of time is given up: on a quiet machine after the first process.
STANDARD_ERRORS = 1.5
TITLES = {"kernels": "kernels", "python-calls": "Python calls"}
MIN_COUNTED_RUNS = 3


def more_work(metric: str, stored: Sequence[Figures], new: Sequence[Figures]) -> float | None:
    """How much more of a metric's work all new runs do than any stored one, as a log ratio.

    None where they do not, and where it was not counted, by the same Python, in all of them and in three stored ones.
    """
    quantity, number, share = WORK.get(metric, ("", 0, 0.0))
    name = name_in(new[0], quantity)
    known = [run[name][1] for run in stored if name in run]
    if len(known) < MIN_COUNTED_RUNS or not all(name in run for run in new):
        return None
    most, now = max(known), min(run[name][1] for run in new)
    return math.log(now / most) if now - most >= max(number, share * most) else None


def explained(metric: str, more: float) -> str:
    """One line about it."""
    return f"{TITLES[WORK[metric][0]]} of a call: {100 * math.expm1(more):.1f} % more than in any stored run"
