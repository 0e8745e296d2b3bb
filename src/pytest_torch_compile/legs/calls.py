"""Call sequences: single calls, and short ways to write many of them."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

from ..findings import CompileUsageError

ContextFactory = Callable[[], AbstractContextManager[Any]]


@dataclass(frozen=True)
class Call:
    """One call of the target. Made by ``call(...)``; every method gives a changed copy."""

    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    contexts: tuple[ContextFactory, ...] = ()
    actions: tuple[Callable[[Any], Any], ...] = ()
    label: str = ""
    exceptions: tuple[type[Exception], ...] = ()

    def under(self, *contexts: ContextFactory) -> Call:
        """Run the call inside contexts, given as factories: ``call(x).under(torch.no_grad)``."""
        for factory in contexts:
            # A finished torch.no_grad() is callable too: as a decorator.
            if not callable(factory) or (hasattr(factory, "__enter__") and not isinstance(factory, type)):
                raise CompileUsageError(
                    f"under() takes factories, such as torch.no_grad or lambda: torch.autocast('cpu'); got {factory!r}"
                )
        return replace(self, contexts=self.contexts + contexts)

    def before(self, action: Callable[[Any], Any]) -> Call:
        """Change state first: ``action`` gets each leg's copy of the target, ``call(x).before(lambda m: m.eval())``."""
        if not callable(action):
            raise CompileUsageError(f"before() takes a function of the target; got {action!r}")
        return replace(self, actions=(*self.actions, action))

    def raises(self, *exceptions: type[Exception]) -> Call:
        """Expect the call to raise one of these, eager and compiled: ``call(bad).raises(IndexError)``."""
        if not exceptions or not all(isinstance(kind, type) and issubclass(kind, Exception) for kind in exceptions):
            raise CompileUsageError(f"raises() takes classes of exceptions, such as IndexError; got {exceptions!r}")
        return replace(self, exceptions=exceptions)

    def named(self, label: str) -> Call:
        """Give the call a name for the report."""
        return replace(self, label=label)


def call(*args: Any, **kwargs: Any) -> Call:
    """One call of the target with these arguments, an item of ``calls=``."""
    return Call(args, kwargs)


def as_call(item: Any) -> Call:
    """A sequence item as a ``Call``: a tuple is positional arguments, a mapping keyword ones, else the one argument."""
    if isinstance(item, Call):
        return item
    if type(item) is tuple:
        return Call(item)
    if type(item) is dict:
        return Call((), item)
    return Call((item,))


def sizes(make_inputs: Callable[..., Any], **dimensions: Iterable[int]) -> list[Call]:
    """One call for every combination of sizes: ``sizes(make_inputs, batch=[1, 2, 8], length=[16, 32])``.

    ``make_inputs(batch=1, length=16)`` returns what an item of ``calls=`` may be: a ``call(...)``, a tuple of
    positional arguments, a dict of keyword arguments, or the one argument. The last dimension varies fastest.

    Raises:
        CompileUsageError: no dimension, or one without sizes.
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
    """Each length rounded up to the next multiple, the way a collator pads: ``length=padded([13, 17], multiple=8)``.

    Raises:
        CompileUsageError: a multiple below 1.
    """
    if multiple < 1:
        raise CompileUsageError(f"padded(multiple={multiple}): a multiple is 1 or more")
    return [-(-length // multiple) * multiple for length in lengths]


def random_lengths(
    count: int, *, low: int, high: int, seed: int = 0, distribution: Callable[[random.Random], float] | None = None
) -> list[int]:
    """``count`` lengths in ``low..high``, the same for the same seed.

    ``distribution`` draws one length from a ``random.Random``, for example ``lambda r: r.lognormvariate(3, 1)``; it is
    rounded and cut to the range. Without one, lengths are uniform.

    Raises:
        CompileUsageError: an empty range or a count below 1.
    """
    if count < 1 or low > high:
        raise CompileUsageError(f"random_lengths(count={count}, low={low}, high={high}): give count >= 1, low <= high")
    source = random.Random(seed)
    if distribution is None:
        return [source.randint(low, high) for _ in range(count)]
    return [min(high, max(low, round(distribution(source)))) for _ in range(count)]


def _described(value: Any) -> str:
    """What people call a value: ``tensor``, ``dict``, ``call(...)``."""
    names = {"Tensor": "tensor", "Call": "call(...)", "ndarray": "array"}
    return names.get(type(value).__name__, type(value).__name__)


def as_calls(args: Sequence[Any], kwargs: Mapping[str, Any], calls: Iterable[Any] | None) -> list[Call]:
    """The sequence that a check was given: ``calls=``, or one call of its positional arguments.

    Raises:
        CompileUsageError: both given, or neither, an empty sequence, or a value that is no list of calls.
    """
    if calls is None:
        if not args and not kwargs:
            raise CompileUsageError(
                "no call was given: pass the arguments, check_compile(model, x), or calls=[call(x), ...]; "
                "for a target without arguments calls=[call()]"
            )
        return [Call(tuple(args), kwargs)]
    if args or kwargs:
        raise CompileUsageError("give the arguments of one call, or calls=[...], not both")
    if isinstance(calls, (Call, Mapping, str, bytes)) or hasattr(calls, "__array__") or not isinstance(calls, Iterable):
        raise CompileUsageError(
            f"calls is one {_described(calls)}, and it takes a list of calls: calls=[call(x), call(y)]; "
            "a single call needs no calls=, check_compile(model, x)"
        )
    sequence = [as_call(item) for item in calls]
    if not sequence:
        raise CompileUsageError("calls=[] holds no call: give at least one, for example calls=[call(x)]")
    return sequence
