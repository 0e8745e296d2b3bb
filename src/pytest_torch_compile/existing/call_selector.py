"""Receive the calls that tests make, and run the checks of the calls that ``ledger.py`` selects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from .. import settings
from .._torch.compiled_before import compiled_codes
from ..check import acceptance
from ..events import running_check
from .call_observer import CallObserver, Taken
from .checking import Checked, Rules, checked
from .ledger import Family, Ledger
from .place import Parts, Place, place_of_call
from .public_targets import Called, Targets
from .recipes import NotWritten, Recipe, Recipes
from .run_time import RunTime, minutes, now
from .signature import Signature, signature
from .verdicts import SUFFIX

_SAY_EVERY = 30.0
# The share of the remaining time that one check may take, and the bounds of its time limit in seconds. The rest of the
# time is for targets that are called later.
_SHARE, _LEAST_SECONDS, _MOST_SECONDS = 0.1, 10.0, 60.0
_COMPILES = "code was compiled earlier in the test, and a check could discard it"
_REPLACED = "the test has replaced {}"


class CallSelector:
    """An observer of the calls that tests make into the package. The observer selects the calls to check, and runs the
    checks.
    """

    def __init__(
        self,
        package: str,
        patterns: tuple[str, ...],
        backend: str | None,
        root: Path,
        say: Callable[[str], None],
        time: RunTime,
    ) -> None:
        chosen = settings.current
        writes = chosen.write_tests is not None
        self._targets = Targets(package, patterns, hears_of_objects=writes)
        self._parts = Parts(self._targets.owns)
        self._recipes = Recipes(self._targets.owns) if writes else None
        self._time = time
        self._ledger = Ledger(time, chosen.existing_shapes)
        self._observer = CallObserver(self._targets.by_code, self._targets.modules, self._targets.owns, self._hear)
        self._given = chosen.existing or package
        self._backend = backend
        self._accepting = chosen.accept
        self._accepted, _ = acceptance.load(root / acceptance.FILE_NAME)
        self._say = say
        self._said = now()
        self._test = ""
        self._compiled: set[int] = set()
        self._test_compiles = False
        self._calls_compiled = False  # whether a target that the package compiles has been called since the last look
        self._busy = False
        self._spent_before = 0.0
        self.problem = ""

    @contextmanager
    def listening(self, test: str, progress: float) -> Iterator[None]:
        """Observe one test's calls inside the ``with`` block. ``progress`` is the fraction of the tests that have
        started.
        """
        self._time.note_progress(progress)
        self._test, self._spent_before = test, self._time.spent
        self._targets.refresh()
        self._compiled, self._test_compiles = set(map(id, compiled_codes())), False
        self._calls_compiled = False
        try:
            body = self._observer.listening(self._targets.codes)
            body.__enter__()
        except Taken as taken:
            self.problem = str(taken)
            yield
            return
        try:
            yield
        finally:
            body.__exit__(None, None, None)
            self._time.observing = self._observer.seconds
            if self._recipes is not None:
                self._recipes.forget_made()

    def taken(self) -> float:
        """Return the number of seconds spent on observing and checking calls during the most recent test."""
        return self._time.spent - self._spent_before

    def results(self) -> tuple[list[Checked], dict[str, dict[str, int]], float, str]:
        """Return all checks, the number of skipped calls for each target and reason, the seconds spent, and, if calls
        could not be observed, the reason.
        """
        left_out = {name: target.left_out for name, target in self._ledger.targets.items()}
        return self._ledger.results, left_out, self._time.on_checks, self.problem or self._observer.problem

    def _hear(self, frame: FrameType) -> None:
        """Handle the start of a call."""
        if self._busy or running_check() is not None:
            return
        self._time.observing = self._observer.seconds
        with self._time.spending():
            self._attend(frame)

    def _attend(self, frame: FrameType) -> None:
        place = place_of_call(frame, self._targets.owns)
        called = self._targets.called(frame) if place is not None else None
        if place is None or called is None:
            return
        if called.is_made:
            if self._recipes is not None:
                self._recipes.note_made(called.target, called.name, called.args, called.kwargs)
            return
        self._busy = True
        try:
            self._consider(called, place)
            self._calls_compiled = self._calls_compiled or self._targets.is_compiled(called.target)
        except Exception as error:  # a fault in the plugin must not fail the test
            self._ledger.fail(called.name, self._test, error)
        finally:
            self._busy = False

    def _consider(self, called: Called, place: Place) -> None:
        modes = torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu")
        seen = signature(called.name, called.target, called.args, called.kwargs, modes, place.wants_gradients)
        family = self._ledger.wants(called.name, seen)
        if family is None:
            return
        refused = place.refused or (_COMPILES if self._has_compiled() else "")
        if not refused and (replaced := self._parts.replaced()):
            refused = _REPLACED.format(replaced)
        if refused:
            done = Checked(called.name, self._test, refused=refused)
        else:
            done = self._checked(called, place, family, seen)
        self._ledger.note(family, done, called.args, called.kwargs, seen)
        if now() - self._said >= _SAY_EVERY:
            self._said = now()
            targets = sum(target.checks > 0 for target in self._ledger.targets.values())
            left = minutes(self._time.left)
            self._say(f"torch.compile: targets checked: {targets}, time left for checks: {left}")

    def _has_compiled(self) -> bool:
        """Return whether the test has compiled code. The functions that the package itself compiles, for example with
        the decorator ``torch.compile``, do not count, because a test that calls them need not know about it.
        """
        new = [code for code in compiled_codes() if id(code) not in self._compiled]
        self._compiled.update(map(id, new))
        # One compiled function leads to others, such as functions that it calls after a graph break.
        if new and not self._calls_compiled and not any(map(self._targets.compiles, new)):
            self._test_compiles = True
        self._calls_compiled = False
        return self._test_compiles

    def _checked(self, called: Called, place: Place, family: Family, seen: Signature) -> Checked:
        earlier, recompiles = self._ledger.sequence(family, seen)
        seconds = min(max(self._time.left * _SHARE, _LEAST_SECONDS), _MOST_SECONDS)
        seconds = min(seconds, max(self._time.left, self._ledger.usual))
        why_not = partial(self._ledger.why_not, called.name)
        rules = Rules(self._given, self._targets.owns, why_not, self._backend, seconds, self._accepting)
        entry: Any = self._accepted.get(f"{called.name}{SUFFIX}", {"breaks": {}, "recompiles": {}})
        version = ".".join(str(torch.__version__).split("+")[0].split(".")[:2])
        allowed = acceptance.allowed_recompiles(entry, version)
        accepted = acceptance.Acceptance(frozenset(entry["breaks"]), allowed, self._accepting)
        written = self._written(called)
        done = checked(called, self._test, earlier, recompiles, place.wants_gradients, rules, accepted)
        if done.report is not None:
            self._write(done, family, written, len(earlier))
        self._compiled.update(map(id, compiled_codes()))  # code that the check compiled is not the test's
        return done

    def _written(self, called: Called) -> Recipe | str:
        """Return the call as source, written before the check runs, or the reason why the call cannot be written as
        source.
        """
        if self._recipes is None:
            return ""
        try:
            return self._recipes.of(called, self._targets.module_of(called.name))
        except NotWritten as why:
            return str(why)

    def _write(self, done: Checked, family: Family, written: Recipe | str, earlier: int) -> None:
        """Store the source of the checked call and of the earlier calls in the same check."""
        if isinstance(written, str):
            done.unwritten = written
            return
        done.module, done.made = written.module, written.target
        done.calls = (*family.written[:earlier], *[written.call] * done.times)
        family.written.append(written.call)
