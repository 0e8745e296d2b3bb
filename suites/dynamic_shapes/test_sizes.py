"""The cost of a new size: with automatic dynamic shapes on and off, for sizes 0 and 1, and with a marked dimension.

Covers practice 5 in docs/coverage.md: batch size 16 and then 8. The second size causes one recompile in both settings.
With automatic dynamic shapes, it is the last recompile. Without them, every new size causes another recompile.
suites/cold_start/test_second_size.py records the times.
"""

import pytest
import torch

pytest.importorskip("torchvision", reason="the dynamic shapes suite needs torchvision")

from pytest_torch_compile import check_compile
from pytest_torch_compile import sizes as sizes_of

from ..vision.models import images, make_resnet

NAMED = {"dynamic_dims": {0: 0}, "backend": "eager"}


def graphs_of_each_call(sizes, **options):
    calls = [(torch.randn(size, 3),) for size in sizes]
    report = check_compile(lambda x: x.sin() * 2, calls=calls, backend="eager", max_recompiles=len(sizes), **options)
    return [sum(graph.call == number for graph in report.graphs) for number in range(1, len(sizes) + 1)]


def batches(*sizes):
    return [call.under(torch.no_grad) for call in sizes_of(small_images, batch=sizes)]


def small_images(batch):
    return images(batch, side=32)


@pytest.mark.torch_compile
@pytest.mark.quick
def test_batch_16_then_8_costs_one_recompile_and_the_next_size_none(compile_check):
    report = compile_check(make_resnet().eval(), calls=batches(16, 8, 12), backend="eager", max_recompiles=1)
    assert report.calls[1].outcome == "recompiled"


@pytest.mark.torch_compile
def test_without_automatic_dynamic_every_size_costs_one():
    with torch._dynamo.config.patch(automatic_dynamic_shapes=False):
        report = check_compile(convolution(), calls=convolved(16, 8, 12), backend="eager", max_recompiles=2)
    assert len(report.recompiles) == 2


def convolution():
    return torch.nn.Conv2d(3, 4, 3).requires_grad_(False)


def convolved(*sizes):
    return [(torch.randn(size, 3, 16, 16),) for size in sizes]


@pytest.mark.parametrize("sizes", [(24, 16, 20), (8, 12, 6)], ids=["from 16 on", "below 16"])
def test_named_batch_costs_none(compile_check, sizes):
    compile_check(convolution(), calls=convolved(*sizes), **NAMED)


ASKS_FOR_16 = pytest.mark.compile_known_failure(
    "on a CPU, ATen checks whether a convolution has at least 16 images before it selects oneDNN or NNPACK, and the "
    "result becomes a guard: even a marked batch dimension causes a recompile when its size changes from 16 to 8",
    kind="recompile",
)


def test_named_batch_costs_none_across_16(compile_check, compile_device, request):
    if compile_device.type == "cpu":
        request.applymarker(ASKS_FOR_16)
    compile_check(convolution(), calls=convolved(16, 8, 12), **NAMED)


def test_named_batch_costs_none_across_16_without_that_choice(compile_check):
    with torch.backends.mkldnn.flags(enabled=False), torch.backends.nnpack.flags(enabled=False):
        compile_check(convolution(), calls=convolved(16, 8, 12), **NAMED)


@pytest.mark.torch_compile
@pytest.mark.parametrize(
    ("options", "expected"),
    [({}, [1, 1, 0, 1, 1, 0]), ({"dynamic": True}, [1, 0, 0, 1, 1, 0]), ({"dynamic": False}, [1, 1, 1, 1, 1, 1])],
    ids=["automatic", "dynamic=True", "dynamic=False"],
)
def test_sizes_zero_and_one_cost_a_graph_of_their_own(options, expected):
    assert graphs_of_each_call([4, 8, 16, 1, 0, 5], **options) == expected


@pytest.mark.torch_compile
def test_two_dimensions_of_one_size_are_taken_for_one():
    """Duck shaping gives equal sizes the same symbol. The first input is square, so the dynamic graph is valid only for
    square inputs.
    """
    calls = [(torch.randn(*size),) for size in ((8, 8), (16, 16), (16, 24), (40, 56))]
    report = check_compile(
        lambda x: x.sin() @ x.mT, calls=calls, backend="eager", dynamic=True, max_recompiles=len(calls)
    )
    assert [recompile.guards[0].cause for recompile in report.recompiles] == ["duck-shape"]
