"""Separate keyword arguments into options of a check and arguments of its target."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

from .._torch.compiled import uncompiled
from .._torch.object_text import name_of
from ..findings import CompileUsageError
from .calls import Call
from .targets import called_function

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Keywords:
    """The options of a function that runs a target, such as ``check_compile``.

    ``holder`` is the name of the option that contains the target's arguments: ``calls`` for a check, ``kwargs`` for a
    measurement. If the caller passes the option ``holder``, all other keywords are treated as options.
    """

    function: str
    options: frozenset[str]
    holder: str

    def require_clear(self, target: Any, args: Sequence[Any], given: Mapping[str, Any]) -> None:
        """Reject ambiguous keywords and misspelled options. A keyword is ambiguous if both an option and a parameter of
        the target have this name.

        Raises:
            CompileUsageError: If a keyword is ambiguous or misspelled; the message shows the alternatives.
        """
        named = _named_parameters(target, args)
        held = given.get(self.holder) is not None
        for name in given:
            if name == self.holder:
                value = given[name]
                is_calls = isinstance(value, (list, tuple)) and all(isinstance(item, Call) for item in value)
                if name in named and value is not None and not is_calls:
                    raise CompileUsageError(self._both(target, name))
            elif name in self.options:
                if name in named and not held:
                    raise CompileUsageError(self._both(target, name))
            elif held or self.holder == "kwargs":
                raise CompileUsageError(self._unknown(name, near(name, self.options)))
            elif name not in named and (meant := near(name, self.options)):
                raise CompileUsageError(self._unknown(name, meant))

    def split(
        self, target: Any, args: Sequence[Any], given: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Split the keywords of one call into options and the target's keywords.

        Raises:
            CompileUsageError: If a keyword is ambiguous or misspelled; the message shows the alternatives.
        """
        self.require_clear(target, args, given)
        options = {name: value for name, value in given.items() if name in self.options}
        return options, {name: value for name, value in given.items() if name not in self.options}

    def require_known(self, names: Iterable[str], where: str) -> None:
        """Reject names that are not options; ``where`` describes where the options were set.

        Raises:
            CompileUsageError: If a name is unknown; the message suggests an option.
        """
        for name in names:
            if name not in self.options:
                meant = near(name, self.options)
                end = f"; did you mean {meant}?" if meant else f"; the options are: {', '.join(sorted(self.options))}"
                raise CompileUsageError(f"{where}: {name} is not an option of {self.function}{end}")

    def _both(self, target: Any, name: str) -> str:
        return (
            f"{name} is an option of {self.function} and an argument of {name_of(target)}: to pass it "
            f"to the target, use {self._way(name)}; to set the option, use {self._way('')} together with "
            f"{name}=..."
        )

    def _unknown(self, name: str, meant: str) -> str:
        end = f"; did you mean {meant}?" if meant else "."
        return f"{name} is not an option of {self.function}{end} To pass it to the target, use {self._way(name)}"

    def _way(self, name: str) -> str:
        if self.holder == "kwargs":
            return f"kwargs={{'{name}': ...}}" if name else "kwargs={...}"
        return f"calls=[call(x, {name}=...)]" if name else "calls=[call(x)]"


def near(name: str, options: Collection[str]) -> str:
    """Return the option that is most similar to a misspelled name, or an empty string if no option is similar."""
    return next(iter(difflib.get_close_matches(name, sorted(options), n=1, cutoff=0.8)), "")


def keyword_options(function: Callable[..., Any]) -> frozenset[str]:
    """Return the names of a function's keyword-only parameters."""
    parameters = inspect.signature(function).parameters.values()
    return frozenset(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)


def clear_keywords(holder: str, also: Iterable[str] = ()) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that makes a function reject ambiguous keywords.

    The decorator checks the keywords before it calls the function, because the function cannot distinguish an option
    that was passed with its default value from an option that was not passed.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        keywords = Keywords(function.__name__, keyword_options(function) | frozenset(also), holder)

        @functools.wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            __tracebackhide__ = True
            if args:
                keywords.require_clear(args[0], args[1:], kwargs)
            return function(*args, **kwargs)

        return checked

    return decorate


def _named_parameters(target: Any, args: Sequence[Any]) -> set[str]:
    """Return the parameters of a target that can still be passed by keyword if ``args`` are passed by
    position.
    """
    try:
        # inspect.signature of a module describes __call__, which accepts any arguments.
        signature = inspect.signature(called_function(uncompiled(target)))
        filled = set(signature.bind_partial(*args).arguments)
    except (TypeError, ValueError):
        return set()
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {p.name for p in signature.parameters.values() if p.kind in kinds and p.name not in filled}
