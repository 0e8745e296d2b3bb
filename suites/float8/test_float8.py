"""Practice 4 in docs/coverage.md: torchao's float8 training, sharded and compiled:
`compile(distributed(quantized(model)))`.

The model is quantized, then sharded or replicated, and then compiled. Compiled float8 training matches eager float8
training, and its loss matches training without float8 within the precision of float8 (e4m3 has three mantissa bits, or
one part in 16).

No figures were published. float8 products require compute capability 8.9. On other devices they are emulated, using the
same code path.
"""

import pytest
import torch

pytest.importorskip("torchao", reason="the float8 suite needs torchao")

from pytest_torch_compile import check_compile

from .._ranks import BREAKS_AT_SHARDS, BREAKS_INSIDE_DDP, Net
from .on_ranks import WIDTH, float8, in_order


def test_blocks_are_quantized_and_the_head_is_not():
    model = float8(Net(WIDTH))
    kinds = [type(module).__name__ for module in model.modules() if isinstance(module, torch.nn.Linear)]
    assert kinds == ["Float8Linear"] * 3 + ["Linear"]


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_compiled_float8_is_eager_float8(device, backend):
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    model, x = Net(WIDTH, layers=1).to(device), torch.randn(32, WIDTH, device=device)
    check_compile(float8(model), x, train=True, compile=lambda m: torch.compile(m, backend=backend))


@pytest.mark.parametrize(("order", "breaks"), [("ddp", BREAKS_INSIDE_DDP), ("fully_shard", BREAKS_AT_SHARDS)])
def test_quantized_distributed_compiled(ranks, order, breaks):
    # In a sharded model, each layer is a graph. The input of the first layer does not require a gradient, which causes
    # a recompile.
    budget = {"max_graph_breaks": breaks, "max_recompiles": int(order == "fully_shard")}
    for seen in ranks.run(in_order, order, **budget):
        assert seen["loss_error"] < 1 / 16
        assert 0 < seen["error"] < 0.5  # the relative difference in a parameter's change, which float8 causes
