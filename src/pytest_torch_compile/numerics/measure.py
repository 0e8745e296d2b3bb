"""Errors between tensors, measured block by block in float64."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch

BLOCK = 1 << 20  # elements that are held in float64 at once


@dataclass
class Difference:
    """Eager against compiled: the worst element, as a multiple of what a tolerance allows there."""

    ratio: float = 0.0
    error: float = 0.0
    limit: float = 0.0
    index: int = 0
    differing: int = 0
    nonfinite: int | None = None


@dataclass
class Errors:
    """Eager's and compiled's errors against a reference, over the elements that are finite in all three.

    ``carrying`` is how many normally distributed elements would make a mean as steady as these do in the slopes: all of
    them in most leaves, few where few are large (from the kurtosis of the reference, which is 3 for a normal one).
    ``channels`` is 0 where the errors of the channels' means were not taken.
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
    """Floating or complex: judged by error. Everything else must be equal."""
    return bool(tensor.dtype.is_floating_point or tensor.dtype.is_complex)


def real_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype of the real and imaginary parts."""
    return dtype.to_real() if dtype.is_complex else dtype


def bitwise_equal(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Equal in every element, NaN being equal to NaN."""
    if left.shape != right.shape or left.dtype != right.dtype:
        return False
    if not is_floating(left):
        return bool(torch.equal(left, right))
    return all(bool(((a == b) | (a.isnan() & b.isnan())).all()) for _, (a, b) in blocks(left, right))


def blocks(*tensors: torch.Tensor) -> Iterator[tuple[int, tuple[torch.Tensor, ...]]]:
    """Equally shaped tensors as flat float64 blocks (complex ones as pairs of reals), with the block's offset."""
    views = tuple(torch.view_as_real(t.detach()) if t.dtype.is_complex else t.detach() for t in tensors)
    offset = 0
    for pieces in _split(views):
        if size := pieces[0].numel():
            yield offset, tuple(_to_double(piece).reshape(-1) for piece in pieces)
            offset += size


def _split(tensors: tuple[torch.Tensor, ...]) -> Iterator[tuple[torch.Tensor, ...]]:
    shape, count = tensors[0].shape, tensors[0].numel()
    if count <= BLOCK:
        yield tensors
        return
    rows = BLOCK * shape[0] // count
    for start in range(0, shape[0], max(1, rows)):
        if rows or len(shape) == 1:
            yield tuple(t[start : start + max(1, rows)] for t in tensors)
        else:  # one row is larger than a block
            yield from _split(tuple(t[start] for t in tensors))


def _to_double(tensor: torch.Tensor) -> torch.Tensor:
    return (tensor.cpu() if tensor.device.type == "mps" else tensor).to(torch.float64)


def root_mean_square(tensor: torch.Tensor) -> float:
    """Over the finite elements; 0 for none."""
    total, count = 0.0, 0
    for _, (values,) in blocks(tensor):
        values = values[values.isfinite()]
        total, count = total + float(values.square().sum()), count + values.numel()
    return math.sqrt(total / count) if count else 0.0


def difference(eager: torch.Tensor, compiled: torch.Tensor, rtol: float, atol: float) -> Difference:
    """Compare every element with ``atol + rtol * |eager|``; NaN and infinities must be at the same places."""
    result = Difference()
    for offset, (left, right) in blocks(eager, compiled):
        same = (left == right) | (left.isnan() & right.isnan())
        result.differing += int((~same).sum())
        broken = ~same & ~(left.isfinite() & right.isfinite())
        if result.nonfinite is None and bool(broken.any()):
            result.nonfinite = offset + int(broken.to(torch.uint8).argmax())
        error = torch.where(same | broken, 0.0, (left - right).abs())
        allowed = atol + rtol * torch.where(left.isfinite(), left.abs(), 0.0)
        ratio = torch.where(error > 0, error / allowed, 0.0)
        worst = int(ratio.argmax())
        if float(ratio[worst]) > result.ratio:
            result.ratio, result.index = float(ratio[worst]), offset + worst
            result.error, result.limit = float(error[worst]), float(allowed[worst])
    return result


def errors(*, eager: torch.Tensor, compiled: torch.Tensor, truth: torch.Tensor) -> Errors:
    """The errors of an eager and a compiled run against what counts as the truth, in one pass.

    The eager run is the leg itself, one with perturbed rounding, or a second one; the truth is the fp64 run, or the
    eager leg where there is no fp64 run.
    """
    result = Errors()
    sums = torch.zeros(6, dtype=torch.float64, device="cpu")
    for offset, (left, right, true) in blocks(eager, compiled, truth):
        finite = left.isfinite() & right.isfinite() & true.isfinite()
        zero = torch.zeros((), dtype=torch.float64, device=true.device)
        true = torch.where(finite, true, zero)
        left, right = torch.where(finite, left - true, zero), torch.where(finite, right - true, zero)
        squares = true.square()
        parts = (squares, left.square(), right.square(), left * true, right * true, squares.square())
        sums += torch.stack([part.sum() for part in parts]).cpu()
        result.count += int(finite.sum())
        result.max_eager = max(result.max_eager, float(left.abs().max()))
        worst = int(right.abs().argmax())
        if float(right[worst].abs()) > result.max_compiled:
            result.max_compiled, result.worst = float(right[worst].abs()), offset + worst
    if not result.count:
        return result
    squared, squared_eager, squared_compiled, product_eager, product_compiled, quartic = (float(s) for s in sums)
    result.rms_reference = math.sqrt(squared / result.count)
    result.rms_eager = math.sqrt(squared_eager / result.count)
    result.rms_compiled = math.sqrt(squared_compiled / result.count)
    if squared > 0:
        result.slope_eager, result.slope_compiled = product_eager / squared, product_compiled / squared
        result.carrying = min(result.count, squared / quartic * 3 * squared) if 0 < quartic < math.inf else 1.0
    _add_channels(result, eager, compiled, truth)
    return result


def _add_channels(result: Errors, eager: torch.Tensor, compiled: torch.Tensor, truth: torch.Tensor) -> None:
    """Errors averaged over everything but the channels: rounding averages out there, a wrong constant does not."""
    complete = result.count == truth.numel() and not truth.dtype.is_complex
    if truth.dim() < 2 or truth.numel() > BLOCK or not complete:
        return
    channel = 1 if truth.dim() == 4 else truth.dim() - 1
    others = [dim for dim in range(truth.dim()) if dim != channel]
    result.channels = truth.shape[channel]
    result.rows = truth.numel() // result.channels
    true = _to_double(truth)
    left, right = ((_to_double(leg) - true).mean(others).square().mean() for leg in (eager, compiled))
    result.channel_eager, result.channel_compiled = math.sqrt(float(left)), math.sqrt(float(right))


def element(tensor: torch.Tensor, position: int) -> tuple[tuple[int, ...], float | complex | int | bool]:
    """The index and the value of one element, counted in the blocks' order."""
    if tensor.dtype.is_complex:
        position //= 2
    index: tuple[int, ...] = ()
    for size in reversed(tensor.shape):
        index = (position % size, *index)
        position //= size
    return index, tensor.detach()[index].item()
