"""Determine whether the runs of a target were compiled."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from .._torch import support
from ..budget import Budget
from ..check.judge import Conditions, judge
from ..findings import Finding
from ..observation import Deviation, Observation

# Graph breaks and recompiles do not matter here, as long as the code is compiled.
_ANY_GRAPHS = Budget(max_graph_breaks=sys.maxsize, max_recompiles=sys.maxsize)


def not_compiled(seen: Observation, deviations: Sequence[Deviation] = ()) -> list[Finding]:
    """Return findings if nothing was compiled, or if some of the code ran eagerly because its compilation failed or the
    recompile limit was hit. ``deviations`` are settings that differ from torch's defaults, and that may be the cause.
    """
    return judge(seen, _ANY_GRAPHS, Conditions(support.recompile_limit(), deviations=deviations))
