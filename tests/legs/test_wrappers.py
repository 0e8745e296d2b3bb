"""Tensors that contain other tensors: DTensor, the result of a collective that still runs, and a user's class."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import distributed, nn

from pytest_torch_compile import CompileCheckFailed, check_compile
from pytest_torch_compile.legs.cotangents import cotangents

if not distributed.is_available():
    pytest.skip("torch was built without torch.distributed", allow_module_level=True)
from torch.distributed import _functional_collectives as collectives
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

check = partial(check_compile, backend="aot_eager")


@pytest.fixture
def mesh():
    distributed.init_process_group("gloo", rank=0, world_size=1, store=distributed.HashStore())
    yield init_device_mesh("cpu", (1,))
    distributed.destroy_process_group()


class Block(nn.Module):
    def __init__(self, wrong: bool) -> None:
        super().__init__()
        self.up, self.down, self.wrong = nn.Linear(4, 8), nn.Linear(8, 4), wrong

    def forward(self, x):
        y = self.down(self.up(x).relu())
        return y * 2 if self.wrong and torch.compiler.is_compiling() else y


class Counter(nn.Module):
    def __init__(self, mesh, by: int) -> None:
        super().__init__()
        self.by = by
        self.register_buffer("count", distribute_tensor(torch.zeros(4), mesh, [Replicate()]))

    def forward(self, x):
        self.count.add_(self.by if torch.compiler.is_compiling() else 1)
        return x * 2


def sharded(mesh, requires_grad: bool = False) -> torch.Tensor:
    return distribute_tensor(torch.arange(8.0), mesh, [Shard(0)]).detach().requires_grad_(requires_grad)


@pytest.mark.parametrize("train", [False, True, lambda output: output.sum().to_local()])
def test_dtensor_is_compared_and_gets_a_gradient_of_its_class(mesh, train):
    check(lambda x: x * 2, sharded(mesh, bool(train)), train=train)
    with pytest.raises(CompileCheckFailed, match=r"output\._local_tensor differs from eager"):
        check(lambda x: x * (3 if torch.compiler.is_compiling() else 2), sharded(mesh, bool(train)), train=train)


@pytest.mark.parametrize("wrong", [False, True])
def test_tensor_parallel_training_is_checked_and_leaves_the_weights_as_they_were(mesh, wrong):
    model = parallelize_module(Block(wrong), mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    before = {name: weight.detach().to_local().clone() for name, weight in model.named_parameters()}

    def run() -> None:
        check(model, torch.randn(2, 4), train=True, optimizer=partial(torch.optim.AdamW, lr=0.1))

    if wrong:
        with pytest.raises(CompileCheckFailed, match="output differs from eager"):
            run()
    else:
        run()
    for name, weight in model.named_parameters():
        assert isinstance(weight, DTensor)
        assert weight.grad is None
        assert torch.equal(weight.detach().to_local(), before[name])


def test_writes_to_a_dtensor_are_compared_and_undone(mesh):
    right, wrong = Counter(mesh, by=1), Counter(mesh, by=2)
    check(right, calls=[torch.ones(4)] * 2)
    with pytest.raises(CompileCheckFailed, match="buffer count"):
        check(wrong, torch.ones(4))
    assert right.count.to_local().tolist() == wrong.count.to_local().tolist() == [0] * 4


def test_result_of_a_collective_is_compared_once_it_has_finished(mesh):
    group = distributed.group.WORLD
    check(lambda x: collectives.all_reduce(x, "sum", group), torch.ones(4))
    with pytest.raises(CompileCheckFailed, match="output differs from eager: error"):
        check(lambda x: collectives.all_reduce(x + torch.compiler.is_compiling(), "sum", group), torch.ones(4))


class Two(torch.Tensor):
    @staticmethod
    def __new__(cls, one, two):
        return torch.Tensor._make_wrapper_subclass(cls, one.shape, dtype=torch.float32)

    def __init__(self, one, two):
        self.one, self.two = one, two

    def __tensor_flatten__(self):
        return ["one", "two"], None

    @staticmethod
    def __tensor_unflatten__(inner, context, size, stride):
        return Two(inner["one"], inner["two"])

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        return Two(args[0].one, args[0].two) if function is torch.ops.aten.detach.default else NotImplemented


def test_gradient_has_the_class_of_the_output_unless_the_output_stores_another_dtype():
    (gradient,) = cotangents([Two(torch.zeros(3), torch.zeros(3))], seed=0)
    assert type(gradient) is Two
    assert gradient.one.abs().min() > 0
    assert not torch.equal(gradient.one, gradient.two)
    (gradient,) = cotangents([Two(torch.zeros(3, dtype=torch.int8), torch.zeros(3))], seed=0)
    assert type(gradient) is torch.Tensor
