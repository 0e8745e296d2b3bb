"""Watch code while it is compiled and run: what torch reports, which compilations come after the warm-up, and the
quantities that a budget limits.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

from .._torch import canary
from .._torch.compiled_before import counting_calls, functions_with_graphs
from .._torch.deviations import deviations, stance
from .._torch.eager_runs import EagerRuns
from .._torch.trace import TraceObserver
from ..budget import Budget
from ..observation import Deviation, LateCompilation, Observation
from .counted_limits import Figures, measuring_body
from .leg_errors import machine_faults_named
from .steady import after_warm_up


@dataclass
class Watched:
    """What was observed while code was compiled and run.

    ``warmup`` is the number of warm-up calls, after which compilations are listed in ``late``; None if there is no
    warm-up. ``figures`` contains the counted quantities, and ``deviations`` the torch settings that differed from
    their defaults before the run. ``stances`` contains the stances of torch, other than the default, under which
    compiled functions were called.
    """

    observer: TraceObserver = field(default_factory=TraceObserver)
    warmup: int | None = None
    late: list[LateCompilation] = field(default_factory=list)
    figures: Figures = field(default_factory=Figures)
    deviations: list[Deviation] = field(default_factory=list)
    stances: dict[str, Deviation] = field(default_factory=dict)

    @property
    def seen(self) -> Observation:
        """The observations about compilation."""
        return self.observer.seen

    @contextmanager
    def watching(self, number: int, counting: AbstractContextManager[None]) -> Iterator[None]:
        """Watch the ``with`` block, which runs call ``number``, and count quantities with ``counting``."""
        self.observer.call = number
        late = after_warm_up(self.warmup, number, self.late, self.seen.undecided)
        with self.observer, late, counting, counting_calls(lambda _: self._note_stance()):
            yield

    def _note_stance(self) -> None:
        self.stances |= {one.value: one for one in stance()}


def opened_block(*, steady: bool) -> Watched:
    """Return the record of a ``compile_guard`` block that is about to start. If ``steady`` is true, the warm-up took
    place before the block.
    """
    differing, before = deviations(), functions_with_graphs()
    with machine_faults_named():
        block = Watched(canary.observer(steady=steady), warmup=0 if steady else None, deviations=differing)
    block.seen.compiled_before = before
    return block


@contextmanager
def watching_block(block: Watched, budget: Budget) -> Iterator[None]:
    """Watch the ``with`` block, which is not divided into calls: count its calls to compiled functions, and note the
    functions that run eagerly.
    """
    runs = EagerRuns()
    with counting_calls(runs.called) as observed:
        try:
            with block.watching(0, measuring_body(budget, block.figures)):
                yield
        finally:
            block.seen.compiled_calls = runs.calls if observed else None
            reported = {(one.frame, one.location) for one in block.seen.fallbacks}
            block.seen.fallbacks += [run for run in runs.found if (run.frame, run.location) not in reported]
            block.seen.undecided += runs.undecided
