"""The state that all runs of a check share with the caller."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .._torch.lazy_libraries import set_up_imported
from . import outcome
from .named_state import NamedState
from .snapshot import Contents, Snapshot
from .targets import Factory
from .work import Work


class World:
    """The state that all runs share with the caller: all objects that are reachable from the target and the calls, and
    the variables to which their code refers by name. This shared state is restored after each run.
    """

    def __init__(self, work: Work) -> None:
        set_up_imported()
        target = None if isinstance(work.target, Factory) else work.target
        roots = [target, work.train, work.optimizer]
        for call in work.calls:
            roots += [call.args, call.kwargs, call.actions, call.contexts]
        on_host = None if work.snapshots is None else work.snapshots == "host"
        self.snapshot = Snapshot(roots, on_host=on_host, training=work.trains)
        self.names = NamedState(self.snapshot, target, roots)
        self.kept = outcome.KeptStates(self.snapshot)

    @contextmanager
    def in_force(self, contents: Contents) -> Iterator[None]:
        """Install the state of one run inside the ``with`` block, and restore the caller's state afterwards."""
        with self.snapshot.in_force(contents):
            self.names.listening(True)
            try:
                yield
            finally:
                self.names.listening(False)

    def not_observable(self) -> list[str]:
        """Return a list with one line, which contains the types whose state can be neither compared nor restored.
        Return an empty list if the state of all types can be compared and restored.
        """
        return self.snapshot.not_observable()
