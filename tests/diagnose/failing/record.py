"""A failing target with its labels: what fails, why, where, and what would help. Written by hand, not read off a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any

import torch
from packaging.specifiers import SpecifierSet
from torch.nn import functional as F

from pytest_torch_compile import CompileReport, check_compile

Context = Callable[[], AbstractContextManager[Any]]
VERSION = str(torch.__version__).split("+")[0]


@dataclass(frozen=True)
class Check:
    """What ``check_compile`` is given, and the contexts in which it runs: those that plant a defect in torch."""

    target: Callable[..., Any]
    calls: Sequence[Any]
    options: Mapping[str, Any] = field(default_factory=lambda: {"backend": "eager"})
    contexts: Sequence[Context] = ()

    def run(self, **more: Any) -> CompileReport:
        with ExitStack() as stack:
            for context in self.contexts:
                stack.enter_context(context())
            return check_compile(self.target, calls=list(self.calls), **{**self.options, **more})


Apply = Callable[[Check], Check]


@dataclass(frozen=True)
class Failing:
    """One failing target.

    ``cause`` is the cause of the failed guard, the category of the break, or the op whose entry in a table is wrong; ""
    where the stage is all there is to say. ``stage`` and ``module`` are "" where a right diagnosis names none; ``cause`` and ``module`` may
    name several, any of which is right. ``fixes`` are words that a line of advice may hold, each with the same
    check after that advice was followed. ``innocent``: no advice helps, so that none may be shown. ``torch`` is a
    version specifier: on others the target does not fail like this.
    """

    name: str
    build: Callable[[], Check]
    kind: str
    cause: str | tuple[str, ...] = ""
    stage: str = ""
    module: str | tuple[str, ...] | None = ""
    fixes: Mapping[str, Apply] = field(default_factory=dict)
    innocent: bool = False
    torch: str = ""
    also: frozenset[str] = frozenset()

    @property
    def on_this_torch(self) -> bool:
        return SpecifierSet(self.torch).contains(VERSION, prereleases=True)

    @property
    def causes(self) -> tuple[str, ...]:
        return (self.cause,) if isinstance(self.cause, str) else self.cause

    @property
    def modules(self) -> tuple[str, ...]:
        return (self.module,) if isinstance(self.module, str) else self.module or ()


CATALOGUE: list[Failing] = []


def failing(kind: str, **labels: Any) -> Callable[[Callable[[], Check]], Callable[[], Check]]:
    """Put a function that builds a check into the catalogue, under its name and with its labels."""

    def keep(build: Callable[[], Check]) -> Callable[[], Check]:
        @wraps(build)
        def seeded() -> Check:
            torch.manual_seed(0)
            return build()

        CATALOGUE.append(Failing(build.__name__, seeded, kind, **labels))
        return seeded

    return keep


def since(version: str, fixes: Mapping[str, Apply]) -> Mapping[str, Apply]:
    """Fixes that help from this torch on."""
    return fixes if SpecifierSet(f">={version}").contains(VERSION, prereleases=True) else {}


def options(**changed: Any) -> Apply:
    return lambda check: replace(check, options={**check.options, **changed})


def target(other: Any) -> Apply:
    return lambda check: replace(check, target=other)


def calls(change: Callable[..., tuple[Any, ...]]) -> Apply:
    """Every call with its arguments changed."""
    return lambda check: replace(check, calls=[change(*one) for one in check.calls])


def within(context: Context) -> Apply:
    return lambda check: replace(check, contexts=[*check.contexts, context])


def padded(multiple: int) -> Apply:
    """Every tensor with its first dimension padded to a multiple."""
    return calls(lambda *args: tuple(F.pad(x, (*(0, 0) * (x.ndim - 1), 0, -len(x) % multiple)) for x in args))
