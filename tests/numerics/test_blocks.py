"""What is measured block by block is what a plain formula over the whole tensor gives, for every dtype and stride."""

from __future__ import annotations

import math
import random

import pytest
import torch

from pytest_torch_compile import Tolerances
from pytest_torch_compile.numerics import CallRecord, ExtraRuns, compare_call, measure

DTYPES = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex128, torch.complex64,
    torch.float8_e4m3fn, torch.float8_e5m2, torch.int64, torch.int32, torch.uint8, torch.bool,
]  # fmt: skip
CASES = 12
SPECIAL = (math.nan, math.inf, -math.inf, 0.0)


def plain_difference(eager, compiled, rtol, atol):
    left, right = flat(eager), flat(compiled)
    same = (left == right) | (left.isnan() & right.isnan())
    broken = ~same & ~(left.isfinite() & right.isfinite())
    error = torch.where(same | broken, 0.0, (left - right).abs())
    allowed = atol + rtol * torch.where(left.isfinite(), left.abs(), 0.0)
    ratio = torch.where(error > 0, error / allowed, 0.0)
    worst = int(ratio.argmax())
    measured = measure.Difference(differing=int((~same).sum()))
    if float(ratio[worst]) > 0:
        measured.worst = measure.Measured("error", float(error[worst]), float(allowed[worst]))
        measured.index = worst
    measured.nonfinite = int(broken.to(torch.uint8).argmax()) if bool(broken.any()) else None
    return measured


def plain_errors(eager, compiled, truth):
    left, right, true = flat(eager), flat(compiled), flat(truth)
    finite = left.isfinite() & right.isfinite() & true.isfinite()
    true = torch.where(finite, true, 0.0)
    left, right = torch.where(finite, left - true, 0.0), torch.where(finite, right - true, 0.0)
    worst, count = int(right.abs().argmax()), int(finite.sum())
    root_mean_squares = [math.sqrt(float(part.square().sum()) / max(count, 1)) for part in (true, left, right)]
    largest = float(left.abs().max()), float(right.abs().max())
    return count, *root_mean_squares, *largest, worst if largest[1] else 0, *map(float, (left @ true, right @ true))


def flat(tensor):
    return (torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor).double().reshape(-1)


def drawn(choose: random.Random, dtype: torch.dtype):
    """A tensor, one that differs from it a little or at special places, and a truth; all of one shape."""
    shape = [choose.randint(1, 9) for _ in range(choose.randint(1, 4))]
    true = torch.randn(shape, dtype=torch.complex128 if dtype.is_complex else torch.float64) * 10
    size = choose.choice([0.0, 1e-7, 1e-3, 0.3])
    legs = [(true + size * torch.randn_like(true)).to(dtype) for _ in range(2)]
    if choose.random() < 0.5 and (dtype.is_complex or dtype.is_floating_point):
        leg = choose.choice(legs)
        leg[tuple(choose.randrange(length) for length in shape)] = torch.tensor(choose.choice(SPECIAL)).to(dtype)
    return [strided(choose, leg) for leg in legs], strided(choose, true)


def strided(choose: random.Random, tensor: torch.Tensor) -> torch.Tensor:
    way = choose.randrange(4)
    if way == 1:
        return tensor.transpose(0, -1).contiguous().transpose(0, -1)
    if way == 2:
        return torch.stack([tensor, tensor], -1)[..., 0]
    if way == 3 and tensor.dim() == 4:
        return tensor.contiguous(memory_format=torch.channels_last)
    return tensor


@pytest.fixture(params=[(1 << 20, 24 << 10), (1 << 20, 3), (16, 7)], ids=["one block", "small", "small pieces"])
def small_blocks(request, monkeypatch):
    piece, block = request.param
    monkeypatch.setattr(measure, "PIECE", piece)
    monkeypatch.setattr(measure, "BLOCK_ON_CPU", block)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_difference_is_that_of_the_whole_tensor(dtype, small_blocks):
    choose = random.Random(f"{dtype}")
    torch.manual_seed(0)
    for _ in range(CASES):
        (eager, compiled), _ = drawn(choose, dtype)
        for rtol, atol in ((1e-6, 1e-6), (1e-3, 0.0), (0.0, 0.0)):
            assert measure.difference(eager, compiled, rtol, atol) == plain_difference(eager, compiled, rtol, atol)


@pytest.mark.parametrize("dtype", [t for t in DTYPES if t.is_floating_point or t.is_complex], ids=str)
def test_the_errors_are_those_of_the_whole_tensor(dtype, small_blocks):
    choose = random.Random(f"{dtype}")
    torch.manual_seed(0)
    for _ in range(CASES):
        (eager, compiled), truth = drawn(choose, dtype)
        errors = measure.errors(eager=eager, compiled=compiled, truth=truth)
        plain = plain_errors(eager, compiled, truth)
        squared = errors.count * errors.rms_reference**2
        ours = (
            errors.count, errors.rms_reference, errors.rms_eager, errors.rms_compiled, errors.max_eager,
            errors.max_compiled, errors.worst, errors.slope_eager * squared, errors.slope_compiled * squared,
        )  # fmt: skip
        assert ours == pytest.approx(plain, rel=1e-9, abs=1e-9)
        assert (errors.count, errors.max_eager, errors.max_compiled, errors.worst) == (plain[0], *plain[4:7])


def test_legs_are_not_written_to(small_blocks):
    for dtype in (torch.float64, torch.float32):
        legs = [torch.randn(8, 8, dtype=dtype) for _ in range(2)]
        copies = [leg.clone() for leg in legs]
        measure.difference(*legs, 1e-3, 1e-3)
        measure.errors(eager=legs[0], compiled=legs[1], truth=legs[0])
        assert all(torch.equal(leg, copied) for leg, copied in zip(legs, copies, strict=True))


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2], ids=str)
def test_float8_of_an_eager_that_differs_from_itself(dtype):
    """Torch has no isfinite for float8."""
    eager, compiled, again = (torch.randn(64).to(dtype) for _ in range(3))
    judged = compare_call(
        CallRecord(output=eager),
        CallRecord(output=compiled),
        ExtraRuns(float64=lambda: None, repeat=lambda: CallRecord(output=again)),
        Tolerances(),
    )
    assert judged.nondeterministic
