"""Recreate objects that can only advance, such as iterators, so that each run starts with them at the same position."""

from __future__ import annotations

import copy
import functools
import inspect
import itertools
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

from .._torch.attributes import is_a

_EXAMPLES: tuple[Any, ...] = (
    iter([]), iter(()), iter(range(0)), iter(""), iter({}), iter({}.values()), iter({}.items()), iter(set()),
    reversed([]), enumerate([]), zip(), map(str, []), filter(None, []),
)  # fmt: skip
_OF_ITERTOOLS = (kind for kind in vars(itertools).values() if isinstance(kind, type) and "tee" not in kind.__name__)
_ITERATOR_IDS = frozenset(map(id, (*map(type, _EXAMPLES), *_OF_ITERTOOLS)))
_CACHED = type(functools.lru_cache(lambda: None))


class SharedItems:
    """The items of a generator that has already started, recorded so that each run receives the same items."""

    def __init__(self, source: Iterator[Any]) -> None:
        self._source, self._items = source, list[Any]()

    def from_start(self) -> Iterator[Any]:
        """Iterate over the items, starting with the first item."""
        for number in itertools.count():
            if number == len(self._items):
                try:
                    self._items.append(next(self._source))
                except StopIteration:
                    return
            yield self._items[number]


def renewal(value: Any) -> Callable[[], Any] | None:
    """Return a function that recreates ``value`` for one run: an iterator or generator at the same position, or an
    ``lru_cache`` function with an empty cache. Return None if ``value`` need not be recreated, because all runs can
    share it.
    """
    if is_a(value, types.GeneratorType):
        has_started = inspect.getgeneratorstate(value) != inspect.GEN_CREATED
        return SharedItems(value).from_start if has_started else functools.partial(_made_again, value)
    if _is_iterator(value):
        return functools.partial(_copied, value)
    if type(value) is _CACHED:  # a filled cache would prevent the next run from calling the function
        return functools.partial(_uncached, value)
    return None


def _is_iterator(value: Any) -> bool:
    return id(type(value)) in _ITERATOR_IDS  # by id, because a metaclass may raise on comparison


def _made_again(generator: types.GeneratorType[Any, Any, Any]) -> Any:
    """Recreate a generator that has not started, by calling its function with the same arguments."""
    code, frame = generator.gi_code, generator.gi_frame
    assert frame is not None, "it has not started"
    held = dict(frame.f_locals)
    closure = tuple(types.CellType(held[name]) for name in code.co_freevars)
    function = types.FunctionType(code, frame.f_globals, code.co_name, None, closure)
    plain = code.co_argcount
    named = code.co_varnames[plain : plain + code.co_kwonlyargcount]
    rest = list(code.co_varnames[plain + code.co_kwonlyargcount :])
    arguments = [held[name] for name in code.co_varnames[:plain]]
    keywords = {name: held[name] for name in named}
    if code.co_flags & inspect.CO_VARARGS:
        arguments += held[rest.pop(0)]
    if code.co_flags & inspect.CO_VARKEYWORDS:
        keywords |= held[rest.pop(0)]
    return function(*(_copied(one) if _is_iterator(one) else one for one in arguments), **keywords)


def _copied(iterator: Any) -> Any:
    """Copy an iterator and its source iterators; the copy yields the same objects."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # itertools, since Python 3.12
        make, arguments, *state = iterator.__reduce__()
    made = make(*(_copied(one) if _is_iterator(one) else one for one in arguments))
    if state and state[0] is not None:
        held = state[0]
        made.__setstate__(
            tuple(_copied(part) if _is_iterator(part) else part for part in held) if type(held) is tuple else held
        )
    return made


def _uncached(cached: Any) -> Any:
    made = functools.lru_cache(**cached.cache_parameters())(cached.__wrapped__)
    made.__dict__.update(cached.__dict__)
    return made


class Replacements:
    """The objects that replace the caller's objects in one run."""

    def __init__(self) -> None:
        self._by_id: dict[int, tuple[Any, Any]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_id)

    def add(self, value: Any, replacement: Any) -> None:
        """Replace ``value`` with ``replacement``."""
        self._by_id[id(value)] = value, replacement

    def __call__(self, value: Any) -> Any:
        """Return the replacement for a value, or the value itself if it is not replaced. Tuples and partials that
        contain replaced values are recreated.
        """
        if (found := self._by_id.get(id(value))) is not None:
            return found[1]
        if is_a(value, tuple) and type(value) is not torch.Size:
            parts = [self(part) for part in tuple.__iter__(value)]
            if any(one is not other for one, other in zip(parts, tuple.__iter__(value), strict=True)):
                self.add(value, tuple.__new__(type(value), parts))
                return self._by_id[id(value)][1]
        elif is_a(value, functools.partial):
            arguments, keywords = self(value.args), {name: self(held) for name, held in value.keywords.items()}
            if arguments is not value.args or any(keywords[name] is not held for name, held in value.keywords.items()):
                made = copy.copy(value)
                made.__setstate__((value.func, arguments, keywords, vars(value)))
                self.add(value, made)
                return made
        return value
