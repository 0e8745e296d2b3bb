"""Call sequences: single calls, and helpers that build many calls."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

from .._torch.attributes import has
from .._torch.object_text import text_of
from ..findings import CompileUsageError

ContextFactory = Callable[[], AbstractContextManager[Any]]


@dataclass(frozen=True)
class Call:
    """One call to the target, created by ``call(...)``. Every method returns a modified copy of the call."""

    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    contexts: tuple[ContextFactory, ...] = ()
    actions: tuple[Callable[[Any], Any], ...] = ()
    label: str = ""
    exceptions: tuple[type[Exception], ...] = ()

    def under(self, *contexts: ContextFactory) -> Call:
        """Run the call inside context managers, passed as factories: ``call(x).under(torch.no_grad)``."""
        for factory in contexts:
            # torch.no_grad() is callable too, as a decorator.
            if not callable(factory) or has(type(factory), "__enter__"):
                raise CompileUsageError(
                    "under() expects factories (for example, torch.no_grad or "
                    f"lambda: torch.autocast('cpu')), not {text_of(factory)}"
                )
        return replace(self, contexts=self.contexts + contexts)

    def before(self, action: Callable[[Any], Any]) -> Call:
        """Call ``action`` with the target before this call, in eager and in compiled runs:
        ``call(x).before(lambda m: m.eval())``.
        """
        if not callable(action):
            raise CompileUsageError(f"before() expects a function that takes the target, not {text_of(action)}")
        return replace(self, actions=(*self.actions, action))

    def raises(self, *exceptions: type[Exception]) -> Call:
        """Expect the call to raise one of these exceptions, in eager and in compiled code:
        ``call(bad).raises(IndexError)``.
        """
        if not exceptions or not all(isinstance(kind, type) and issubclass(kind, Exception) for kind in exceptions):
            raise CompileUsageError(f"raises() expects exception classes, such as IndexError, not {exceptions!r}")
        return replace(self, exceptions=exceptions)

    def named(self, label: str) -> Call:
        """Set the name of the call in the report."""
        return replace(self, label=label)


def call(*args: Any, **kwargs: Any) -> Call:
    """Create a call to the target with these arguments, as an item of ``calls=``."""
    return Call(args, kwargs)


def as_call(item: Any) -> Call:
    """Convert an item of ``calls=`` to a ``Call``. The item is a ``Call``, a tuple of positional arguments, a dict of
    keyword arguments, or a single argument.
    """
    if isinstance(item, Call):
        return item
    if type(item) is tuple:
        return Call(item)
    if type(item) is dict:
        return Call((), item)
    return Call((item,))


def sizes(make_inputs: Callable[..., Any], **dimensions: Iterable[int]) -> list[Call]:
    """Create one call for every combination of sizes: ``sizes(make_inputs, batch=[1, 2, 8], length=[16, 32])``.

    ``make_inputs(batch=1, length=16)`` returns an item of ``calls=``: a ``call(...)``, a tuple of positional arguments,
    a dict of keyword arguments, or a single argument. The size of the last dimension varies fastest.

    Raises:
        CompileUsageError: If no dimensions are passed, or a dimension has no sizes.
    """
    named = {name: list(values) for name, values in dimensions.items()}
    empty = [name for name, values in named.items() if not values]
    if not named or empty:
        raise CompileUsageError(
            f"sizes() needs sizes for {' and '.join(empty) or 'at least one dimension'}, for example batch=[1, 2, 8]"
        )
    calls = []
    for combination in itertools.product(*named.values()):
        chosen = dict(zip(named, combination, strict=True))
        label = ", ".join(f"{name}={size}" for name, size in chosen.items())
        calls.append(as_call(make_inputs(**chosen)).named(label))
    return calls


def padded(lengths: Iterable[int], *, multiple: int) -> list[int]:
    """Round each length up to a multiple of ``multiple``, as a padding collator does.

    Example: ``length=padded([13, 17], multiple=8)``.

    Raises:
        CompileUsageError: If ``multiple`` is less than 1.
    """
    if multiple < 1:
        raise CompileUsageError(f"padded(multiple={multiple}): multiple must be 1 or more")
    return [-(-length // multiple) * multiple for length in lengths]


def random_lengths(
    count: int, *, low: int, high: int, seed: int = 0, distribution: Callable[[random.Random], float] | None = None
) -> list[int]:
    """Draw ``count`` random lengths from ``low`` to ``high``, inclusive. The same seed always produces the same
    lengths.

    ``distribution`` takes a ``random.Random`` and returns one length: ``lambda r: r.lognormvariate(3, 1)``.
    Each length is rounded, and is clamped to the range from ``low`` to ``high``. By default, lengths are uniformly
    distributed.

    Raises:
        CompileUsageError: If the range is empty or ``count`` is less than 1.
    """
    if count < 1 or low > high:
        raise CompileUsageError(
            f"random_lengths(count={count}, low={low}, high={high}): count must be at least 1, and low must not "
            "exceed high"
        )
    source = random.Random(seed)
    if distribution is None:
        return [source.randint(low, high) for _ in range(count)]
    return [min(high, max(low, round(distribution(source)))) for _ in range(count)]


def as_calls(args: Sequence[Any], kwargs: Mapping[str, Any], calls: Iterable[Any] | None) -> list[Call]:
    """Return a check's call sequence: the items of ``calls=``, the ``call(...)`` objects that were passed to the check,
    or one call with the arguments that were passed to the check.

    Raises:
        CompileUsageError: If the caller passes both arguments and ``calls=``, or passes neither, or passes
            ``call(...)`` objects together with arguments, or if ``calls=`` is empty or is not a list of calls.
    """
    if calls is None:
        if not args and not kwargs:
            raise CompileUsageError(
                "no call was passed: pass the arguments, as in check_compile(model, x), or calls=[call(x), "
                "...]; for a target without arguments, pass calls=[call()]"
            )
        return _passed_directly(args, kwargs)
    if args or kwargs:
        raise CompileUsageError("pass either the arguments of one call or calls=[...], not both")
    is_single = isinstance(calls, (Call, Mapping, str, bytes)) or has(type(calls), "__array__")
    if is_single or not isinstance(calls, Iterable):
        kind = type(calls).__name__
        described = {"Tensor": "tensor", "Call": "call(...)", "ndarray": "array"}.get(kind, kind)
        raise CompileUsageError(
            f"calls is a single {described}, but it must be a list of calls: "
            "calls=[call(x), call(y)]; for a single call, use check_compile(model, x)"
        )
    sequence = [as_call(item) for item in calls]
    if not sequence:
        raise CompileUsageError("calls=[] is empty: pass at least one call, for example calls=[call(x)]")
    return sequence


def _passed_directly(args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Call]:
    """Return the calls of ``check_compile(model, call(x), call(y))`` or ``check_compile(model, x)``."""
    if all(isinstance(value, Call) for value in args) and not kwargs:
        return list(args)
    for value in (*args, *kwargs.values()):
        items = value if type(value) in (list, tuple) else [value]
        if any(isinstance(item, Call) for item in items):
            others = ", ".join(f"{name}=" for name in kwargs)
            unknown = f" ({others} is not an option of the check)" if others else ""
            raise CompileUsageError(
                f"a call(...) was passed together with other arguments, or in a list{unknown}: put all arguments of a "
                "call into its call(...), and pass a sequence as check_compile(model, calls=[call(x), call(y)])"
            )
    return [Call(tuple(args), kwargs)]
