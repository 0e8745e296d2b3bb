"""Practice 8 in docs/coverage.md: a model that moves to another device or dtype, before and after it is compiled.

A model that is moved first compiles once. A model that is moved after its first call compiles again at the next call,
and never after that.

Published recommendation: move the model before it is compiled.
"""

import pytest
import torch

from pytest_torch_compile import call, compile_guard

from .._ranks import Net

pytestmark = pytest.mark.torch_compile

MOVES = [
    pytest.param("meta", torch.float32, id="meta"),
    pytest.param("cpu", torch.bfloat16, id="bf16"),
    pytest.param("cuda", torch.float32, id="cuda", marks=pytest.mark.gpu),
]


@pytest.fixture
def moved(request):
    """A device and a dtype to move to."""
    device, dtype = request.param
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    return torch.device(device), dtype


@pytest.mark.parametrize("moved", [pytest.param(p.values, id=p.id, marks=p.marks) for p in MOVES], indirect=True)
def test_a_move_after_compilation_costs_one_recompile(moved):
    model, x = Net(width=16), torch.randn(4, 16)
    compiled = torch.compile(model, backend="aot_eager")
    with compile_guard(max_recompiles=1) as seen:
        compiled(x)
        model.to(*moved)
        for _ in range(2):
            compiled(x.to(*moved))
    assert len(seen.recompiles) == 1


@pytest.mark.parametrize("moved", [pytest.param(p.values, id=p.id, marks=p.marks) for p in MOVES], indirect=True)
def test_a_move_before_compilation_costs_none(moved):
    model, x = torch.compile(Net(width=16), backend="aot_eager"), torch.randn(4, 16)
    model.to(*moved)
    with compile_guard():
        for _ in range(2):
            model(x.to(*moved))


def test_numbers_hold_after_a_move_of_dtype(compile_check):
    x = torch.randn(4, 16)
    calls = [call(x), call(x.bfloat16()).before(torch.nn.Module.bfloat16)]
    compile_check(Net(width=16), calls=calls, train=True, max_recompiles=1, backend="aot_eager")
