"""Compare two runs of a target whose results must be equal."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from .._torch.object_text import repr_of
from ..numerics.containers import is_below
from ..numerics.measure import bitwise_equal, blocks, difference, element, is_floating
from ..numerics.metadata import plain_tensors
from ..numerics.tolerances import Tolerance
from ..report.failure_text import digits_apart, number
from .observed import Observed
from .outputs import Values

ROUNDING = 1000  # a difference of up to this many eps may come from a kernel's summation order


@dataclass(frozen=True)
class Pair:
    """Two runs whose outputs must be equal. If ``row`` is set, ``first`` is the run with the whole batch of ``size``
    rows, and ``other`` is the run with only this row.
    """

    label: str
    first: Observed
    other: Observed
    row: int | None = None
    size: int = 0

    @property
    def first_label(self) -> str:
        """The name of the first run in messages."""
        return "the first run" if self.row is None else "the batch"


@dataclass(frozen=True)
class Difference:
    """A difference between two runs in the value at ``path``."""

    path: str
    largest: float
    limit: float
    text: str
    is_rounding: bool = False


@dataclass
class Compared:
    """The differences between two runs. ``says_something`` is true if a value was compared or, if rows are compared
    with a batch, a row of a value. ``without_rows`` contains the paths of the values that have no batch dimension, and
    ``others`` the types of the values that cannot be compared, by path.
    """

    differences: list[Difference] = field(default_factory=list)
    says_something: bool = False
    without_rows: list[str] = field(default_factory=list)
    others: dict[str, str] = field(default_factory=dict)


def compared(pair: Pair, first: Values, other: Values, tolerance: Tolerance) -> Compared:
    """Compare two outputs of the runs in ``pair``."""
    result = Compared(others=first.others | other.others)
    # The values of one row are in these containers, and are compared as a whole.
    of_row = _lists_of_rows(pair, first, other)
    first = _row_of_lists(first, of_row, pair.row or 0)
    for path in dict.fromkeys([*first.paths, *other.paths]):
        if is_below(path, [found.path for found in result.differences]) or path in result.others:
            continue
        text = _structure(path, pair, first, other)
        if text:
            result.differences.append(Difference(path, math.inf, 0.0, text))
        elif path in first.leaves:
            has_rows = pair.row is None or is_below(path, of_row)
            _compare_leaves(result, pair, path, first.leaves[path], other.leaves[path], tolerance, has_rows=has_rows)
    return result


def _lists_of_rows(pair: Pair, first: Values, other: Values) -> list[str]:
    """Return the paths of the lists (and nested tensors) that contain one item for each row of the batch."""
    if pair.row is None:
        return []
    found: list[str] = []
    for path, (kind, shape) in first.containers.items():
        alone = other.containers.get(path)
        if shape == f"length {pair.size}" and alone == (kind, "length 1") and not is_below(path, found):
            found.append(path)
    return found


def _row_of_lists(values: Values, lists: list[str], row: int) -> Values:
    """Return the values with only the item ``row`` of each list, as if the list contained only this item."""

    def chosen(by_path: dict[str, Any]) -> Iterator[tuple[str, Any]]:
        for path, value in by_path.items():
            above = next((one for one in lists if is_below(path, [one])), None)
            if above is None:
                yield path, (value[0], "length 1") if path in lists else value
            elif path == f"{above}[{row}]" or is_below(path, [f"{above}[{row}]"]):
                yield f"{above}[0]{path.removeprefix(f'{above}[{row}]')}", value

    if not lists:
        return values
    return Values(dict(chosen(values.leaves)), dict(chosen(values.containers)), dict(chosen(values.others)))


def _structure(path: str, pair: Pair, first: Values, other: Values) -> str:
    """Return a message if the two values have different types, or are containers with different contents."""
    if path not in other:
        return f"{pair.label} has no {path}"
    if path not in first:
        return f"{pair.first_label} has no {path}"
    kinds = [values.containers.get(path) or (type(values.leaves[path]).__name__, "") for values in (first, other)]
    if kinds[0] == kinds[1]:
        return ""
    here, there = (f"{kind} ({shape})" if shape else kind for kind, shape in kinds)
    return f"{path} is {here}, but {there} in {pair.label}"


def _compare_leaves(
    result: Compared, pair: Pair, path: str, first: Any, other: Any, tolerance: Tolerance, *, has_rows: bool
) -> None:
    """Compare two values of the same type, and add the outcome to ``result``. ``has_rows`` is true if the whole values
    must be equal; otherwise, ``other`` must be equal to one row of ``first``.
    """
    if isinstance(first, torch.Tensor):
        other = other.to(first.device)
        if not has_rows:
            rows = _row(pair, first, other)
            if rows is None:
                result.without_rows.append(path)
                return
            first, other = rows
        found = _tensor_difference(pair, path, first, other, tolerance)
        result.says_something = result.says_something or first.numel() > 0
    else:
        found = _plain_difference(pair, path, first, other, tolerance)
        result.says_something = result.says_something or (has_rows and first is not None)
    result.differences += [found] if found is not None else []


def _row(pair: Pair, whole: torch.Tensor, alone: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Return the row of the whole batch, and the row that ran alone; None if the tensors have no batch dimension.

    The batch dimension is the only dimension whose size differs between the whole batch and a single row.
    """
    if whole.ndim != alone.ndim:
        return None
    smaller = [dim for dim in range(whole.ndim) if whole.shape[dim] != alone.shape[dim]]
    if len(smaller) != 1 or (whole.shape[smaller[0]], alone.shape[smaller[0]]) != (pair.size, 1):
        return None
    if whole.layout is not torch.strided:
        whole, alone = whole.to_dense(), alone.to_dense()
    return whole.narrow(smaller[0], pair.row or 0, 1), alone


def _tensor_difference(
    pair: Pair, path: str, first: torch.Tensor, other: torch.Tensor, tolerance: Tolerance
) -> Difference | None:
    """Return the largest difference between two tensors if it exceeds the tolerance; otherwise, return None."""
    kinds = [_kind_text(tensor) for tensor in (first, other)]
    if kinds[0] != kinds[1]:
        return Difference(path, math.inf, 0.0, f"{path} is {kinds[0]}, but {kinds[1]} in {pair.label}")
    if first.layout is not torch.strided:
        parts, others = plain_tensors(first, path), plain_tensors(other, path)
        found = [_tensor_difference(pair, name, part, others[name], tolerance) for name, part in parts.items()]
        return max((one for one in found if one is not None), key=lambda one: one.largest, default=None)
    if bitwise_equal(first, other):
        return None
    measured = difference(first, other, tolerance.rtol, tolerance.atol)
    index, largest, limit = measured.index, measured.worst.error, measured.worst.limit
    if measured.nonfinite is not None:
        index, largest = measured.nonfinite, math.inf
    elif measured.worst.ratio <= 1:
        if is_floating(first) or tolerance.rtol or tolerance.atol:
            return None
        # The difference is measured in float64, in which large integers that differ can become equal.
        index, largest = int((first != other).flatten().to(torch.uint8).argmax()), 1.0
    (place, value), (_, there) = element(first, index), element(other, index)
    digits = digits_apart(value, there)
    where = f"{path}{list(place)}" if place else path
    text = f"{where} is {number(value, digits)}, but {number(there, digits)} in {pair.label}"
    if place:
        text = f"{text}; {max(measured.differing, 1)} of {first.numel()} elements differ"
    return Difference(path, largest, limit, text, _is_rounding(first, largest))


def _kind_text(tensor: torch.Tensor) -> str:
    layout = "" if tensor.layout is torch.strided else f" {tensor.layout}"
    return f"{tensor.dtype} {list(tensor.shape)}{layout}"


def _plain_difference(pair: Pair, path: str, first: Any, other: Any, tolerance: Tolerance) -> Difference | None:
    """Return the difference between two values that are not tensors. Numbers may differ by the tolerance."""
    if first == other:
        return None
    if isinstance(first, (float, complex)):
        dtype = torch.complex128 if isinstance(first, complex) else torch.float64
        one, two = (torch.tensor(value, dtype=dtype, device="cpu") for value in (first, other))
        return _tensor_difference(pair, path, one, two, tolerance)
    error = math.inf
    if isinstance(first, int) and not isinstance(first, bool):
        error = abs(first - other)
        if error <= tolerance.atol + tolerance.rtol * abs(first):
            return None
    return Difference(path, error, 0.0, f"{path} is {repr_of(first)}, but {repr_of(other)} in {pair.label}")


def _is_rounding(tensor: torch.Tensor, error: float) -> bool:
    """Return whether the difference is small enough, relative to the largest element, to come from a different
    summation order.
    """
    if not is_floating(tensor) or not tensor.numel():
        return False
    share: float = min(ROUNDING * torch.finfo(tensor.dtype).eps, 0.05)
    return error <= share * max(float(values.abs().max()) for _, (values,) in blocks(tensor))


def worst_of(results: list[Compared]) -> Difference | None:
    """Return the largest difference, or None if there is none."""
    found = [one for result in results for one in result.differences]
    return max(found, key=lambda one: one.largest, default=None)
