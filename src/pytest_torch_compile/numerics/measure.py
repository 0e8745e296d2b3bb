"""Measure errors between tensors, block by block in float64."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch

from .._torch.narrow_rounding import channel_dim

PIECE = 1 << 20  # large tensors are split into pieces of at most this many elements; non-contiguous pieces are copied
# Number of float64 elements in a block on a CPU. A block must fit in a core's cache. It must have fewer than 32,768
# elements: from that size on, torch starts threads, and starting them takes longer than processing the block. On other
# devices, a block has up to ``PIECE`` elements.
BLOCK_ON_CPU = 24 << 10


Measure = Literal[
    "error", "largest error", "error in scale", "error of the channel means", "NaN or infinity", "wrong elements"
]


@dataclass(frozen=True)
class Measured:
    """One measured error of a tensor, and the limit that the error must not exceed."""

    name: Measure
    error: float
    limit: float

    @property
    def ratio(self) -> float:
        """The measured error divided by the limit; infinite if no error is allowed."""
        if self.error == 0:
            return 0.0
        return self.error / self.limit if self.limit > 0 else math.inf


@dataclass
class Difference:
    """The result of a comparison with eager: the error of the worst element relative to its tolerance, the element's
    index, and the number of elements that differ.
    """

    worst: Measured = Measured("error", 0.0, 0.0)
    index: int = 0
    differing: int = 0
    nonfinite: int | None = None


@dataclass
class Errors:
    """The errors of eager and compiled results against a reference, over the elements that are finite in all three
    results.

    A slope is an error in scale: the factor ``c`` for which ``c * reference`` fits the errors best. ``carrying`` is
    the effective number of elements that determine a slope. For most tensors, ``carrying`` is equal to the number of
    elements, but it is small if only a few elements are large. ``carrying`` is computed from the kurtosis of the
    reference, which is 3 for a normal distribution. ``channels`` is 0 if the channel means were not measured.
    """

    count: int = 0
    carrying: float = 1.0
    rms_reference: float = 0.0
    rms_eager: float = 0.0
    rms_compiled: float = 0.0
    max_eager: float = 0.0
    max_compiled: float = 0.0
    worst: int = 0
    slope_eager: float = 0.0
    slope_compiled: float = 0.0
    rows: int = 0
    channels: int = 0
    channel_eager: float = 0.0
    channel_compiled: float = 0.0


def is_floating(tensor: torch.Tensor) -> bool:
    """Return whether a tensor is floating-point or complex, and therefore judged by its error. All other tensors must
    be equal.
    """
    return bool(tensor.dtype.is_floating_point or tensor.dtype.is_complex)


def real_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype of the real and imaginary parts."""
    return dtype.to_real() if dtype.is_complex else dtype


def bitwise_equal(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Return whether all elements are equal, with NaN equal to NaN."""
    if left.shape != right.shape or left.dtype != right.dtype:
        return False
    if not is_floating(left):
        return bool(torch.equal(left, right))
    return all(bool(torch.equal(a, b) or _same(a, b).all()) for _, (a, b) in blocks(left, right))


def _same(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return (left == right) | (left.isnan() & right.isnan())


def blocks(*tensors: torch.Tensor) -> Iterator[tuple[int, tuple[torch.Tensor, ...]]]:
    """Split tensors of equal shape into flat blocks, and yield each block's offset and a float64 copy of the block from
    each tensor. Each complex number becomes a pair of real numbers.
    """
    views = tuple(torch.view_as_real(t.detach()) if t.dtype.is_complex else t.detach() for t in tensors)
    offset = 0
    for pieces in _split(views):
        flat = tuple(piece.reshape(-1) for piece in pieces)
        size = flat[0].numel()
        step = BLOCK_ON_CPU if flat[0].device.type == "cpu" else PIECE
        for start in range(0, size, step):
            yield offset + start, tuple(_to_double(part[start : start + step], copy=True) for part in flat)
        offset += size


def _split(tensors: tuple[torch.Tensor, ...]) -> Iterator[tuple[torch.Tensor, ...]]:
    shape, count = tensors[0].shape, tensors[0].numel()
    if count <= PIECE:
        yield tensors
        return
    rows = PIECE * shape[0] // count
    for start in range(0, shape[0], max(1, rows)):
        if rows or len(shape) == 1:
            yield tuple(t[start : start + max(1, rows)] for t in tensors)
        else:  # a single row is larger than a piece
            yield from _split(tuple(t[start] for t in tensors))


def _to_double(tensor: torch.Tensor, *, copy: bool = False) -> torch.Tensor:
    # Apple's GPUs (mps) do not support float64.
    return (tensor.cpu() if tensor.device.type == "mps" else tensor).to(torch.float64, copy=copy)


def all_finite(tensor: torch.Tensor) -> bool:
    """Return whether all elements are finite. Unlike ``torch.isfinite``, this function also works for float8 dtypes."""
    return all(bool(values.isfinite().all()) for _, (values,) in blocks(tensor))


def root_mean_square(tensor: torch.Tensor) -> float:
    """Return the root mean square of the finite elements; 0 if there are none."""
    total, count = 0.0, 0
    for _, (values,) in blocks(tensor):
        squared = float(values.square().sum())
        if not math.isfinite(squared):
            values = values[values.isfinite()]
            squared = float(values.square().sum())
        total, count = total + squared, count + values.numel()
    return math.sqrt(total / count) if count else 0.0


def difference(eager: torch.Tensor, compiled: torch.Tensor, rtol: float, atol: float) -> Difference:
    """Compare the difference in every element with ``atol + rtol * |eager|``; NaN and infinities must be at the same
    positions in both tensors.
    """
    result = Difference()
    for offset, (left, right) in blocks(eager, compiled):
        error = (left - right).abs_()
        if math.isfinite(float(error.max())):
            result.differing += int(error.count_nonzero())
        else:
            same, finite = _same(left, right), left.isfinite() & right.isfinite()
            result.differing += int((~same).sum())
            if result.nonfinite is None and not bool((same | finite).all()):
                result.nonfinite = offset + int((~(same | finite)).to(torch.uint8).argmax())
            error, left = (torch.where(finite, part, 0.0) for part in (error, left))
        allowed = left.abs_().mul_(rtol).add_(atol)
        ratio = (error / allowed).nan_to_num_(0.0, math.inf)  # 0 / 0: there is no error, and no error is allowed
        largest = float(ratio.max())
        if largest > result.worst.ratio:
            worst = int(ratio.argmax())
            result.worst = Measured("error", float(error[worst]), float(allowed[worst]))
            result.index = offset + worst
    return result


def errors(*, eager: torch.Tensor, compiled: torch.Tensor, truth: torch.Tensor) -> Errors:
    """Return the errors of an eager and a compiled run against a reference, in one pass.

    ``eager`` is from the first eager run, an eager run with perturbed rounding, or a second eager run. The reference is
    the fp64 run, or the first eager run if there is no fp64 run.
    """
    result = Errors()
    sums = [0.0] * 6
    for offset, (left, right, true) in blocks(eager, compiled, truth):
        count = true.numel()
        left_error, right_error = left - true, right - true
        largest = [float(part.abs().max()) for part in (left_error, right_error)]
        if not all(map(math.isfinite, largest)):
            finite = left.isfinite() & right.isfinite() & true.isfinite()
            count = int(finite.sum())
            left_error, right_error, true = (torch.where(finite, t, 0.0) for t in (left_error, right_error, true))
            largest = [float(part.abs().max()) for part in (left_error, right_error)]
        squares = true.square()
        parts = (
            squares, left_error.square(), right_error.square(), left_error * true, right_error * true, squares.square(),
        )  # fmt: skip
        sums = [total + part for total, part in zip(sums, torch.stack([p.sum() for p in parts]).tolist(), strict=True)]
        result.count += count
        result.max_eager = max(result.max_eager, largest[0])
        if largest[1] > result.max_compiled:
            result.max_compiled, result.worst = largest[1], offset + int(right_error.abs().argmax())
    if not result.count:
        return result
    squared, squared_eager, squared_compiled, product_eager, product_compiled, quartic = sums
    result.rms_reference = math.sqrt(squared / result.count)
    result.rms_eager = math.sqrt(squared_eager / result.count)
    result.rms_compiled = math.sqrt(squared_compiled / result.count)
    if squared > 0:
        result.slope_eager, result.slope_compiled = product_eager / squared, product_compiled / squared
        result.carrying = min(result.count, squared / quartic * 3 * squared) if 0 < quartic < math.inf else 1.0
    _add_channels(result, eager, compiled, truth)
    return result


def _add_channels(result: Errors, eager: torch.Tensor, compiled: torch.Tensor, truth: torch.Tensor) -> None:
    """Add the root mean square of the channels' mean errors to ``result``. The mean over all other dimensions cancels
    most rounding errors, but not the error that a wrong constant causes.
    """
    complete = result.count == truth.numel() and not truth.dtype.is_complex
    if truth.dim() < 2 or truth.numel() > PIECE or not complete:
        return
    channel = channel_dim(truth)
    others = [dim for dim in range(truth.dim()) if dim != channel]
    result.channels = truth.shape[channel]
    result.rows = truth.numel() // result.channels
    true = _to_double(truth)
    left, right = ((_to_double(leg) - true).mean(others).square().mean() for leg in (eager, compiled))
    result.channel_eager, result.channel_compiled = math.sqrt(float(left)), math.sqrt(float(right))


def element(tensor: torch.Tensor, position: int) -> tuple[tuple[int, ...], float | complex | int | bool]:
    """Return the index and the value of one element, given its position in the order of the blocks."""
    if tensor.dtype.is_complex:
        position //= 2
    index: tuple[int, ...] = ()
    for size in reversed(tensor.shape):
        index = (position % size, *index)
        position //= size
    return index, tensor.detach()[index].item()
