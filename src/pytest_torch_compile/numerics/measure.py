"""Errors between tensors, measured block by block in float64."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch

BLOCK = 1 << 20
# The means of fewer channels say little: over the 3 of an image, an honest bf16 run was twice as far off as eager.
FEWEST_CHANNELS = 16


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
        flat = tuple(_to_double(piece).reshape(-1) for piece in pieces)
        if flat[0].numel():
            yield offset, flat
        offset += pieces[0].numel()


def _split(tensors: tuple[torch.Tensor, ...]) -> Iterator[tuple[torch.Tensor, ...]]:
    shape = tensors[0].shape
    if tensors[0].numel() <= BLOCK or not shape:
        yield tensors
        return
    rows = max(1, BLOCK // max(1, tensors[0].numel() // shape[0]))
    for start in range(0, shape[0], rows):
        pieces = tuple(t.narrow(0, start, min(rows, shape[0] - start)) for t in tensors)
        if rows > 1 or len(shape) == 1:
            yield pieces
        else:
            yield from _split(tuple(piece.squeeze(0) for piece in pieces))


def _to_double(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.device.type == "mps":
        tensor = tensor.cpu()
    return tensor.to(torch.float64)


def root_mean_square(tensor: torch.Tensor) -> float:
    """Over the finite elements; 0 for none."""
    total, count = 0.0, 0
    for _, (values,) in blocks(tensor):
        values = values[values.isfinite()]
        total, count = total + float(values.square().sum()), count + values.numel()
    return math.sqrt(total / count) if count else 0.0


def difference(eager: torch.Tensor, compiled: torch.Tensor, rtol: float, atol: float) -> Difference:
    """Compare every element with ``atol + rtol * |eager|``; NaN and infinities must stand at the same places."""
    found = Difference()
    for offset, (left, right) in blocks(eager, compiled):
        same = (left == right) | (left.isnan() & right.isnan())
        found.differing += int((~same).sum())
        broken = ~same & ~(left.isfinite() & right.isfinite())
        if found.nonfinite is None and bool(broken.any()):
            found.nonfinite = offset + int(broken.to(torch.uint8).argmax())
        error = torch.where(same | broken, 0.0, (left - right).abs())
        allowed = atol + rtol * torch.where(left.isfinite(), left.abs(), 0.0)
        ratio = torch.where(error > 0, error / allowed, 0.0)
        worst = int(ratio.argmax())
        if float(ratio[worst]) > found.ratio:
            found.ratio, found.index = float(ratio[worst]), offset + worst
            found.error, found.limit = float(error[worst]), float(allowed[worst])
    return found


def errors(eager: torch.Tensor, compiled: torch.Tensor, reference: torch.Tensor) -> Errors:
    """Both legs' errors against the reference, in one pass."""
    found = Errors()
    sums = torch.zeros(6, dtype=torch.float64, device="cpu")
    for offset, (left, right, true) in blocks(eager, compiled, reference):
        finite = left.isfinite() & right.isfinite() & true.isfinite()
        zero = torch.zeros((), dtype=torch.float64, device=true.device)
        true = torch.where(finite, true, zero)
        left, right = torch.where(finite, left - true, zero), torch.where(finite, right - true, zero)
        squares = true.square()
        parts = (squares, left.square(), right.square(), left * true, right * true, squares.square())
        sums += torch.stack([part.sum() for part in parts]).cpu()
        found.count += int(finite.sum())
        found.max_eager = max(found.max_eager, float(left.abs().max()))
        worst = int(right.abs().argmax())
        if float(right[worst].abs()) > found.max_compiled:
            found.max_compiled, found.worst = float(right[worst].abs()), offset + worst
    if found.count:
        _fill(found, [float(total) for total in sums])
        _fill_channels(found, eager, compiled, reference)
    return found


def _fill(found: Errors, sums: list[float]) -> None:
    true, left, right, slope_left, slope_right, quartic = sums
    found.rms_reference, found.rms_eager, found.rms_compiled = (math.sqrt(s / found.count) for s in (true, left, right))
    if true > 0:
        found.slope_eager, found.slope_compiled = slope_left / true, slope_right / true
        found.carrying = min(found.count, true / quartic * 3 * true) if 0 < quartic < math.inf else 1.0


def _fill_channels(found: Errors, eager: torch.Tensor, compiled: torch.Tensor, reference: torch.Tensor) -> None:
    """Errors averaged over everything but the channels: rounding averages out there, a wrong constant does not."""
    complete = found.count == reference.numel() and not reference.dtype.is_complex
    if reference.dim() < 2 or reference.numel() > BLOCK or not complete:
        return
    channels = 1 if reference.dim() == 4 else reference.dim() - 1
    if reference.shape[channels] < FEWEST_CHANNELS:
        return
    others = [dim for dim in range(reference.dim()) if dim != channels]
    found.rows = reference.numel() // reference.shape[channels]
    true = _to_double(reference)
    left, right = ((_to_double(leg) - true).mean(others).square().mean() for leg in (eager, compiled))
    found.channel_eager, found.channel_compiled = math.sqrt(float(left)), math.sqrt(float(right))


def element(tensor: torch.Tensor, flat_index: int) -> tuple[tuple[int, ...], float | complex | int | bool]:
    """The index and the value of one element, counted in the blocks' order."""
    if tensor.dtype.is_complex:
        flat_index //= 2
    index = []
    for size in reversed(tensor.shape):
        index.append(flat_index % size)
        flat_index //= size
    position = tuple(reversed(index))
    return position, tensor.detach()[position].item()
