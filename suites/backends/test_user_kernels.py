"""Functions that launch Triton kernels of their own. In eager code, a launch fills the caches of the kernel object;
compiled code launches the kernel in another way. Neither is state of the user's code.
"""

import pytest
import torch

from pytest_torch_compile import CompileCheckFailed

if not torch.cuda.is_available():  # here and not in a marker, because triton.autotune in torch 2.6 needs a device
    pytest.skip("a Triton kernel needs a CUDA device", allow_module_level=True)
triton = pytest.importorskip("triton")
tl = pytest.importorskip("triton.language")

pytestmark = pytest.mark.gpu


@triton.jit
def scaled_relu(x, out, n, factor, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    value = tl.load(x + at, mask=mask)
    tl.store(out + at, tl.maximum(value, 0.0) * factor, mask=mask)


@triton.autotune(configs=[triton.Config({"BLOCK": size}) for size in (256, 512)], key=["n"])
@triton.jit
def tuned_add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(out + at, tl.load(x + at, mask=mask) + tl.load(y + at, mask=mask), mask=mask)


def blocks(n):
    return lambda meta: (triton.cdiv(n, meta["BLOCK"]),)


class Kernels(torch.nn.Module):
    """Two launches between two layers. ``planted`` is "factor" for another factor in compiled code, or "break" for a
    graph break, which makes two frames that each recompile.
    """

    def __init__(self, width=64, planted=""):
        super().__init__()
        self.before, self.after, self.planted = torch.nn.Linear(width, width), torch.nn.Linear(width, width), planted

    def forward(self, x):
        hidden = self.before(x)
        out, total = torch.empty_like(hidden), torch.empty_like(hidden)
        factor = 2.1 if self.planted == "factor" and torch.compiler.is_compiling() else 2.0
        scaled_relu[blocks(hidden.numel())](hidden, out, hidden.numel(), factor, BLOCK=256)
        if self.planted == "break":
            torch._dynamo.graph_break()
        tuned_add[blocks(hidden.numel())](out, x, total, hidden.numel())
        return self.after(total)


@pytest.fixture
def batches():
    return [(torch.randn(rows, 64, device="cuda"),) for rows in (4, 9, 17)]


@pytest.mark.parametrize("backend", ["inductor", "aot_eager"])
def test_kernels_in_a_module(compile_check, batches, backend):
    with torch.no_grad():
        report = compile_check(Kernels().cuda(), calls=batches, backend=backend, max_recompiles=1)

    assert not report.graph_breaks


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        out = torch.empty_like(x)
        scaled_relu[blocks(x.numel())](x, out, x.numel(), 2.0, BLOCK=256)
        ctx.save_for_backward(x)
        return out

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return torch.where(x > 0, 2.0 * grad, torch.zeros_like(grad))


def test_kernel_with_a_backward(compile_check, batches):
    class Trains(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(64, 64)

        def forward(self, x):
            return Doubled.apply(self.layer(x)).square().mean()

    compile_check(Trains().cuda(), calls=batches, train=True, max_recompiles=1)


@pytest.mark.parametrize(("planted", "kind"), [("factor", "numerics"), ("break", "graph-break")])
def test_planted_defect_beside_a_kernel_is_found(compile_check, batches, planted, kind):
    with torch.no_grad(), pytest.raises(CompileCheckFailed) as failed:
        compile_check(Kernels(planted=planted).cuda(), calls=batches, max_recompiles=2, diagnose="off")

    assert {finding.kind for finding in failed.value.findings} == {kind}
