"""Practice 6 in docs/coverage.md: CUDA graphs, shape padding and autotuning match eager, and skipped CUDA graphs are
reported.

Measured (H200, torch 2.11): with CUDA graphs, BERT was 2.19x faster than eager, and ResNet-50 was 2.68x faster.

On a CPU there are no CUDA graphs: a mode that requests them compiles and returns correct results, and the CUDA graphs
are reported as skipped. Autotuning on a CPU chooses among templates for matrix products. On a GPU, a region that writes
to its input cannot be recorded.
"""

import pytest
import torch
from torch import nn

from pytest_torch_compile import CompileCheckFailed, call

GRAPHED = ["reduce-overhead", "max-autotune"]
gpu = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA graphs need a CUDA device"),
]
pytestmark = pytest.mark.torch_compile(backend="inductor")


def model():
    """A model with odd sizes, so that padding has an effect."""
    return nn.Sequential(nn.Linear(33, 65), nn.ReLU(), nn.Linear(65, 7))


def batches(device="cpu"):
    return [call(torch.randn(5, 33, device=device)) for _ in range(3)]


OPTIONS = [
    # On one core, choosing among templates takes two minutes.
    pytest.param({"mode": "max-autotune-no-cudagraphs"}, id="max-autotune-no-cudagraphs", marks=pytest.mark.slow),
    pytest.param({"options": {"shape_padding": True}}, id="shape-padding"),
]


@pytest.mark.parametrize("options", OPTIONS)
def test_numbers(compile_check, options):
    report = compile_check(model(), calls=batches(), train=True, **options)

    assert len(report.graphs) == 1


@pytest.mark.parametrize("mode", GRAPHED)
def test_cuda_graphs_on_cpu_are_reported_as_skipped(compile_check, compile_device, mode):
    if compile_device.type != "cpu":
        pytest.skip("the device has CUDA graphs")

    with pytest.raises(CompileCheckFailed) as caught:
        compile_check(model(), calls=batches(), mode=mode)

    assert {finding.kind for finding in caught.value.findings} == {"cudagraph-skip"}


@pytest.mark.parametrize("train", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("mode", [pytest.param(mode, marks=gpu) for mode in GRAPHED])
def test_cuda_graphs_are_recorded(compile_check, mode, train):
    compile_check(model().cuda(), calls=batches("cuda"), mode=mode, train=train)


@pytest.mark.parametrize("mode", [pytest.param("reduce-overhead", marks=gpu)])
def test_write_to_an_input_is_a_skip(compile_check, mode):
    def count(x):
        x.add_(1)
        return x * 2

    with pytest.raises(CompileCheckFailed) as caught:
        compile_check(count, calls=batches("cuda"), mode=mode)

    assert {finding.kind for finding in caught.value.findings} == {"cudagraph-skip"}
