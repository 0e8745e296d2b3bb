"""Code that names a float type: the float64 run follows, and where no such run is possible the report says so."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from pytest_torch_compile import CompileCheckFailed, check_compile
from pytest_torch_compile._torch.perturbed_rounding import PerturbedRounding
from pytest_torch_compile._torch.widening import Widening


class Linear(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16)


class Embedded(Linear):
    """As every timestep embedding does."""

    def forward(self, steps):
        return self.linear(steps.float()[:, None] * torch.arange(16).float() / 16)


class Made(Linear):
    def forward(self, steps):
        return self.linear(torch.full((3, 16), 0.3, dtype=torch.float32) * steps[:, None])


class Island(Linear):
    """Half precision, left for float32 where it matters."""

    def forward(self, steps):
        with torch.autocast("cpu", torch.bfloat16):
            hidden = self.linear(steps[:, None].expand(-1, 16).to(self.linear.weight.dtype))
            with torch.autocast("cpu", enabled=False):
                return self.linear(hidden.float())


class Summed(Linear):
    def forward(self, steps):
        return self.linear(steps[:, None].expand(-1, 16) / 7).sum(1, dtype=torch.float32)


TARGETS = [Embedded, Made, Island, Summed]
STEPS = torch.tensor([1, 5, 9])


def off_by(kind, relative):
    class Off(kind):
        def forward(self, steps):
            y = super().forward(steps)
            return y * (1 + relative) if torch.compiler.is_compiling() else y

    torch.manual_seed(0)
    return Off()


def checked(target, *args, **options):
    return check_compile(target, *args, diagnose="off", backend="aot_eager", **options)


def report_of(target, *args):
    """The report on an error so large that the reference is asked, whether it excuses the error or not."""
    try:
        return checked(target, *args)
    except CompileCheckFailed as failed:
        return failed.report


@pytest.mark.parametrize("kind", TARGETS)
def test_the_reference_runs(kind):
    report = report_of(off_by(kind, 1e-5), STEPS)
    assert report.numerics.reference == "fp64"
    assert not report.observation.not_observable
    assert checked(off_by(kind, 1e-7), STEPS).ok


@pytest.mark.parametrize("kind", [Embedded, Made, Summed])
def test_error_that_the_tolerance_of_the_dtype_would_pass_is_found(kind):
    with pytest.raises(CompileCheckFailed) as failed:
        checked(off_by(kind, 3e-5), STEPS)
    (finding,) = failed.value.findings
    assert finding.kind == "numerics" and "eager fp64 run" in finding.evidence


def test_reference_with_dropout_and_a_named_type():
    class Dropped(Linear):
        def forward(self, steps):
            return nn.functional.dropout(self.linear(steps.float()[:, None].expand(-1, 16)), 0.5)

    report = report_of(off_by(Dropped, 1e-5), STEPS)
    assert report.numerics.reference == "fp64" and not report.observation.not_observable


def test_named_types_change_nothing_in_a_run_that_names_none():
    x, linear = torch.randn(5, 16).double(), nn.Linear(16, 16).double()
    with Widening():
        widened = linear(x).softmax(-1).cumsum(0)
    assert torch.equal(widened, linear(x).softmax(-1).cumsum(0))


def test_bits_looked_at_as_another_type_stay():
    x = torch.randn(4)
    with Widening():
        assert torch.equal(x.view(torch.int32), x.view(torch.int32)) and x.view(torch.int32).dtype is torch.int32
        assert x.to(torch.int64).dtype is torch.int64 and x.bool().dtype is torch.bool
        assert x.to(torch.complex64).dtype is torch.complex128


def test_reference_that_cannot_run_is_said():
    class Doubles(torch.nn.Module):
        def forward(self, x):
            if x.dtype is torch.float64:
                raise TypeError("not for doubles:\n- no doubles here")
            return (x @ x).sin() + (1e-6 if torch.compiler.is_compiling() else 0)

    report = checked(Doubles(), torch.randn(6, 6))
    (line,) = report.observation.not_observable
    assert line.startswith("errors relative to float64") and line.endswith(
        "TypeError: not for doubles: - no doubles here"
    )


def test_perturbed_runs_that_cannot_run_are_said():
    def alone(x):
        if torch._C._len_torch_dispatch_stack():
            raise RuntimeError("no modes here")
        return x.sin() + (1 if torch.compiler.is_compiling() else 0)

    with pytest.raises(CompileCheckFailed) as failed:
        checked(alone, torch.randn(6))
    assert any("perturbed rounding" in line for line in failed.value.report.observation.not_observable)


def test_float8_moves_by_single_steps():
    x = torch.randn(100, 100, generator=torch.Generator().manual_seed(0))
    with PerturbedRounding(1):
        moved = x.to(torch.float8_e4m3fn)
    off = moved.float() - x.to(torch.float8_e4m3fn).float()
    assert 0.02 < float((off != 0).float().mean()) < 0.2 and bool(moved.float().isfinite().all())


def test_float8_that_falls_to_the_other_side_is_no_finding():
    """A few values halfway between two of float8: eager and compiled code are equally far from what was quantised."""

    def quantised(x, off):
        y = x * 1.5
        y = y * (1 + off) if torch.compiler.is_compiling() else y
        return y.to(torch.float8_e4m3fn).float() * 0.7

    x = torch.linspace(0.5, 2, 256)
    x[::32] = 1.0625 / 1.5 * (1 - 2**-23)
    assert checked(quantised, x, 2**-21).numerics.worst_ratio > 0
    with pytest.raises(CompileCheckFailed):
        checked(quantised, x, 0.2)


needs_float4 = pytest.mark.skipif(
    not hasattr(torch, "float4_e2m1fn_x2"), reason="the dtype float4_e2m1fn_x2 is new in torch 2.8"
)


@needs_float4
def test_float4_is_compared_by_its_bytes():
    def packed(x, wrong=False):
        y = x + 1 if wrong and torch.compiler.is_compiling() else x
        return y.view(torch.float4_e2m1fn_x2), y.float()

    checked(packed, torch.arange(16, dtype=torch.uint8))
    with pytest.raises(CompileCheckFailed) as failed:
        checked(packed, torch.arange(16, dtype=torch.uint8), True)
    assert "output[0].view(torch.uint8)" in {finding.subject for finding in failed.value.findings}
