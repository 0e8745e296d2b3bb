"""Practice 28 in docs/coverage.md: a denoiser whose blocks are compiled needs no more memory than in eager, and does
not wait for the GPU between steps.

This follows the tests of diffusion libraries: the repeated blocks are compiled, and a loop of denoising steps runs with
a memory limit. Memory and synchronizations need a CUDA device; on a CPU, the loop's graphs and recompiles are limited.
"""

import pytest
import torch

from pytest_torch_compile import Budget, CompileCheckFailed, check_compile, compile_guard

WIDTH, HEADS, BLOCKS, STEPS = 64, 4, 3, 4
on_gpu = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="memory and waits can be measured only on a CUDA device"
)


class Block(torch.nn.Module):
    """Attention and a feed-forward layer, both shifted and scaled depending on the time step."""

    def __init__(self, width):
        super().__init__()
        self.norm = torch.nn.LayerNorm(width, elementwise_affine=False)
        self.qkv = torch.nn.Linear(width, 3 * width)
        self.out = torch.nn.Linear(width, width)
        self.modulation = torch.nn.Linear(width, 4 * width)
        self.wide = torch.nn.Sequential(
            torch.nn.Linear(width, 4 * width), torch.nn.GELU(approximate="tanh"), torch.nn.Linear(4 * width, width)
        )

    def forward(self, x, time):
        shift, scale, shift_wide, scale_wide = self.modulation(time).unsqueeze(1).chunk(4, dim=-1)
        heads = self.qkv(self.norm(x) * (1 + scale) + shift).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        attended = torch.nn.functional.scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2)
        x = x + self.out(attended)
        return x + self.wide(self.norm(x) * (1 + scale_wide) + shift_wide)


class Denoiser(torch.nn.Module):
    """Repeated blocks over patches of an image."""

    def __init__(self, width=WIDTH):
        super().__init__()
        self.blocks = torch.nn.ModuleList(Block(width) for _ in range(BLOCKS))
        self.last = torch.nn.Linear(width, width)

    def forward(self, x, time):
        for block in self.blocks:
            x = block(x, time)
        return self.last(x)


def by_blocks(model, **options):
    for block in model.blocks:
        block.compile(**options)
    return model


@torch.no_grad()
def denoised(model, x, time, wait=False):
    for _ in range(STEPS):
        noise = model(x, time)
        if wait:
            noise = noise * noise.abs().max().item()
        x = x - noise / STEPS
    return x


def inputs(device="cpu", width=WIDTH, patches=48):
    return torch.randn(2, patches, width, device=device), torch.randn(2, width, device=device)


def test_loop_has_one_graph_for_all_blocks(backend):
    model = by_blocks(Denoiser().eval(), backend=backend)
    with compile_guard(budget=Budget(max_graphs=1)):
        denoised(model, *inputs())
    with compile_guard(steady=True):
        denoised(model, *inputs())


def test_denoiser_equals_eager(backend):
    report = check_compile(Denoiser().eval(), *inputs(), backend=backend, budget=Budget(max_graphs=1))
    assert len(report.graphs) == 1


@pytest.mark.gpu
@on_gpu
def test_compiled_denoiser_needs_no_more_memory_than_eager_and_does_not_wait():
    model = Denoiser(512).to("cuda").eval().requires_grad_(False)
    check_compile(
        model, *inputs("cuda", 512, 1024), budget=Budget(max_memory_ratio=1.0, max_syncs=0), backend="inductor"
    )


@pytest.mark.gpu
@on_gpu
def test_wait_between_steps_is_found_at_its_line():
    model = by_blocks(Denoiser(512).to("cuda").eval())
    x, time = inputs("cuda", 512, 256)
    denoised(model, x, time)
    with compile_guard(steady=True, budget=Budget(max_syncs=0)):
        denoised(model, x, time)
    with pytest.raises(CompileCheckFailed, match=f"{STEPS} GPU synchronizations, 0 allowed") as failure:
        with compile_guard(steady=True, budget=Budget(max_syncs=0)):
            denoised(model, x, time, wait=True)
    (finding,) = failure.value.findings
    assert "noise.abs().max().item()" in finding.location.source
