"""User-defined tolerances; the default rule is in ``rule``."""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import torch

from ..findings import CompileUsageError


@dataclass(frozen=True)
class Tolerance:
    """A tolerance: every element must satisfy ``|compiled - eager| <= atol + rtol * |eager|``.

    Raises:
        ValueError: If a number is negative or not finite.
    """

    rtol: float
    atol: float

    def __post_init__(self) -> None:
        for name, number in (("rtol", self.rtol), ("atol", self.atol)):
            is_number = isinstance(number, (int, float)) and not isinstance(number, bool)
            if not is_number or not math.isfinite(number) or number < 0:
                raise ValueError(f"{name} is {number!r}; it must be a finite number, 0 or more")


@dataclass(frozen=True)
class Tolerances:
    """The tolerances for the tensors and values in the results. If no argument is set, the rule in ``docs/numerics.md``
    applies.

    Args:
        rtol, atol: the tolerances for every floating-point tensor, with the same meaning as in
            ``torch.testing.assert_close``. Set both or neither.
        leaves: tolerances for tensors by path, with ``*`` and ``?`` as wildcards, for example
            ``{"output.logits": Tolerance(rtol=1e-2, atol=1e-3)}``. The first matching pattern applies.
        dtypes: tolerances for all tensors of a dtype.
        ignored: paths of values that are not compared, with ``*`` and ``?`` as wildcards, for example
            ``["attribute statistics*"]``.
        state: compare the target's attributes, and its closed-over and global variables. Parameters and buffers are
            always compared.
        strides: compare the strides of dense tensors.
        aliasing: compare which outputs share memory with arguments, parameters, buffers or other outputs.
        rng: compare the state of the random number generators after the call. The comparison requires compiled code to
            draw the same random numbers as eager (``fallback_random``); see ``docs/numerics.md`` for exceptions.

    Raises:
        ValueError: If only one of ``rtol`` and ``atol`` is set, a number is negative or not finite, or an entry is not
            a ``Tolerance``.
    """

    rtol: float | None = None
    atol: float | None = None
    leaves: Mapping[str, Tolerance] = field(default_factory=dict)
    dtypes: Mapping[torch.dtype, Tolerance] = field(default_factory=dict)
    ignored: Sequence[str] = ()
    state: bool = True
    strides: bool = True
    aliasing: bool = True
    rng: bool = True

    def __post_init__(self) -> None:
        if (self.rtol is None) != (self.atol is None):
            raise ValueError("set both rtol and atol, or neither")
        if self.rtol is not None and self.atol is not None:
            Tolerance(self.rtol, self.atol)  # raises an error if a value is not a valid number
        for name, entries in (("leaves", self.leaves), ("dtypes", self.dtypes)):
            if not isinstance(entries, Mapping):
                raise ValueError(f"{name} must be a mapping, not {type(entries).__name__}")
            for key, tolerance in entries.items():
                if not isinstance(tolerance, Tolerance):
                    raise ValueError(f"{name}[{key!r}] is {tolerance!r}; it must be Tolerance(rtol=..., atol=...)")
        for dtype in self.dtypes:
            if not isinstance(dtype, torch.dtype):
                raise ValueError(f"dtypes: {dtype!r} is not a torch.dtype")
        if isinstance(self.ignored, str):
            raise ValueError(
                f"ignored is a single string, {self.ignored!r}; it must be a list of patterns: [{self.ignored!r}]"
            )

    def ignores(self, path: str) -> bool:
        """Return whether ``ignored`` excludes the value at this path from the comparison."""
        return any(_matches(path, pattern) for pattern in self.ignored)

    def given_for(self, path: str, dtype: torch.dtype) -> Tolerance | None:
        """Return the tolerance that the user set for the tensor at this path, or None if no tolerance applies to it."""
        for pattern, tolerance in self.leaves.items():
            if _matches(path, pattern):
                return tolerance
        if dtype in self.dtypes:
            return self.dtypes[dtype]
        if self.rtol is not None and self.atol is not None:
            return Tolerance(self.rtol, self.atol)
        return None

    def unmatched(self, paths: Iterable[str]) -> list[str]:
        """Return the patterns of ``leaves`` and ``ignored`` that do not match any of these paths."""
        known = list(paths)
        patterns = (*self.leaves, *self.ignored)
        return [pattern for pattern in patterns if not any(_matches(path, pattern) for path in known)]


def require_tolerances(name: str, given: object, wanted: type[Tolerance] | type[Tolerances] = Tolerances) -> None:
    """Reject any value that is not an instance of ``wanted``, such as a number. None is accepted, and means the default
    tolerances.

    Raises:
        CompileUsageError: If the value has the wrong type; the message shows the correct form.
    """
    if given is None or isinstance(given, wanted):
        return
    number = given if isinstance(given, (int, float)) and not isinstance(given, bool) else "..."
    values = f"rtol={given.rtol}, atol={given.atol}" if isinstance(given, (Tolerance, Tolerances)) else ""
    raise CompileUsageError(
        f"{name} is {given!r}; use {name}={wanted.__name__}({values or f'rtol={number}, atol={number}'})"
    )


def _matches(path: str, pattern: str) -> bool:
    # ``fnmatch`` would interpret the brackets in a path such as ``output[0]`` as a set of characters.
    return path == pattern or fnmatch.fnmatchcase(path, pattern.replace("[", "[[]"))
