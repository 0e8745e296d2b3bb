"""Write a rank's observations while the rank runs, so that the observations are available even if the rank hangs or is
killed.
"""

from __future__ import annotations

import contextlib
import os
import pickle
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from .._torch.compiled_before import counting_calls
from ..events import RunningCheck, hearing_progress, running_check
from ..observation import Collective, Location, Observation


@dataclass(frozen=True)
class Fact:
    """One observation in a check, such as a graph break. Equal observations have equal keys on all ranks; ``text`` is
    used in messages.

    The observation was made in a call to a compiled function, and ``during`` is the number of this call; such calls are
    counted from 1 over the whole check.
    """

    kind: str
    key: tuple[Any, ...]
    text: str
    call: int = 0
    location: Location | None = None
    during: int = 0


@dataclass
class CheckSeen:
    """One rank's observations in one check. ``calls`` counts calls to compiled functions, as a measure of progress."""

    name: str
    facts: list[Fact] = field(default_factory=list)
    calls: int = 0
    ended: bool = False


def facts_of(seen: Observation) -> list[Fact]:
    """Return the observations that are compared between ranks."""
    facts = []
    for broken in seen.graph_breaks:
        # The field `times` of the graph break is left out, because it increases if a rank compiles the code again.
        facts.append(Fact("graph break", (broken.fingerprint,), broken.shown(), broken.call, broken.location))
    for again in seen.recompiles:
        guard = again.guards[0] if again.guards else None
        # The guard itself is not part of the key, because it contains this rank's sizes.
        key: tuple[Any, ...] = (again.call, again.frame, guard and guard.cause, guard and guard.names)
        call = f"call {again.call}: " if again.call else ""
        facts.append(Fact("recompile", key, f"{call}{again.frame}: {again.guard}", again.call, again.location))
    for one in seen.fallbacks:
        text = f"{one.frame} ran eagerly ({one.why})" + (f": {one.detail}" if one.detail else "")
        facts.append(Fact("eager fallback", (one.call, one.frame, one.why, one.cause), text, one.call, one.location))
    # All collectives in a graph are one observation, because a graph is observed as a whole.
    for (_, graph), in_graph in groupby(seen.collectives, lambda one: (one.compile_id, one.graph)):
        found = list(in_graph)
        key = (found[0].call, graph, *map(_collective_key, found))
        text = f"{graph} graph: {', '.join(one.shown() for one in found)}"
        facts.append(Fact("collective", key, text, found[0].call))
    for made in seen.graphs:
        call = f"call {made.call}: " if made.call else ""
        ops = " ".join(f"{op} x{times}" if times > 1 else op for op, times in Counter(made.ops).items())
        facts.append(Fact("graph", (made.call, made.frame, made.ops), f"{call}{made.frame}: {ops}", made.call))
    return facts


def _collective_key(found: Collective) -> tuple[Any, ...]:
    # In all_to_all_single, ranks may send different numbers of elements.
    size = "" if found.op == "all_to_all_single" else found.size
    # In a device mesh, ranks belong to different but corresponding groups, such as different rows of the mesh.
    of_all = len(found.ranks) == int(os.environ.get("WORLD_SIZE", 0))
    group = found.group if of_all else tuple(rank - found.ranks[0] for rank in found.ranks)
    return found.op, found.how, size, group


class Recorder:
    """A recorder that writes the observations and the progress of this process's checks to a file."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)
        self._checks: list[RunningCheck] = []
        self._calls: Counter[int] = Counter()
        self._amounts: dict[int, tuple[int, ...]] = {}
        self._written: dict[int, tuple[Observation, list[Fact], dict[Any, int]]] = {}

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record the checks inside the ``with`` block."""
        with self._file, hearing_progress(self._hear), counting_calls(lambda _: self._called()):
            yield

    def _hear(self, check: RunningCheck, seen: Observation) -> None:
        number = self._number(check)
        # Many torch events add no observations. This key changes only when there are new ones.
        lists = (seen.graphs, seen.graph_breaks, seen.recompiles, seen.fallbacks, seen.collectives)
        amount = (id(seen), *(len(one) for one in lists), id(seen.graphs[-1]) if seen.graphs else 0)
        if self._amounts.get(number) == amount and not check.ended:
            return
        self._amounts[number] = amount
        facts, calls = facts_of(seen), self._calls[number]
        last, written, when = self._written.get(number, (seen, [], {}))
        # Each run of a check has a new observation object, none of whose observations have been written.
        new = list(Counter(facts) - Counter(written if last is seen else []))
        when |= {fact.key: calls for fact in new if fact.key not in when}
        self._written[number] = seen, facts, when
        if check.ended:
            facts = [replace(fact, during=when[fact.key]) for fact in facts]
            self._write(CheckSeen(check.name, facts, calls, ended=True), number)
        elif new:
            self._write(CheckSeen(check.name, [replace(fact, during=calls) for fact in new], calls), number)

    def _called(self) -> None:
        if check := running_check():
            number = self._number(check)
            self._calls[number] += 1
            self._write(CheckSeen(check.name, [], self._calls[number]), number)

    def _number(self, check: RunningCheck) -> int:
        if check not in self._checks:
            self._checks.append(check)
        return self._checks.index(check)

    def _write(self, seen: CheckSeen, number: int) -> None:
        self._file.write(pickle.dumps((number, seen)))


def checks_in(path: Path) -> dict[str, CheckSeen]:
    """Read the observations that a rank wrote to a file. The result maps each check to its observations. The key of a
    check is its name, followed by its number among the checks with this name.
    """
    checks: dict[int, CheckSeen] = {}
    with contextlib.suppress(OSError, EOFError, pickle.UnpicklingError), path.open("rb") as file:
        while True:  # a killed rank may have left a partial record
            number, seen = pickle.load(file)
            before = checks.get(number, seen)
            if not seen.ended and before is not seen:
                seen.facts = before.facts + seen.facts
            checks[number] = seen
    times: Counter[str] = Counter()
    named = {}
    for _, seen in sorted(checks.items()):
        times[seen.name] += 1
        named[f"{seen.name} {times[seen.name]}"] = seen
    return named
