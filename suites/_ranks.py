"""Ranks, parts of a batch, and a backend that records its graphs, shared by the suites that use several processes."""

from __future__ import annotations

import copy
import functools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from packaging.version import Version
from torch import distributed, nn

from pytest_torch_compile import RankGroup, compile_guard
from pytest_torch_compile.ranks.parts import part_of

GROUPS = [
    pytest.param(("gloo", 2), id="gloo", marks=pytest.mark.distributed),
    # A single rank does not reduce anything, but covers the rest of the code path on CUDA.
    pytest.param(("nccl", 1), id="one-gpu", marks=[pytest.mark.distributed, pytest.mark.gpu]),
    # Two or four, depending on the number of devices.
    pytest.param(("nccl", 2), id="gpus", marks=[pytest.mark.distributed, pytest.mark.gpu, pytest.mark.multi_gpu]),
]
torch_version = Version(Version(torch.__version__).base_version)
# Breaks in DDP's own forward, before the model's graph: a context manager and, since 2.8, its logger.
BREAKS_INSIDE_DDP = 1 if torch_version < Version("2.8") else 2
BREAKS_AT_SHARDS = 1  # the hooks of `fully_shard` are excluded from graphs, as is the function that calls them
WIDTH = 512  # a layer of this width fills one DDP bucket of the smallest size, 1 MiB


@pytest.fixture(scope="session", params=GROUPS)
def ranks(request: pytest.FixtureRequest) -> Iterator[RankGroup]:
    """The ranks of all these tests: two on a CPU, one on a GPU, and two or four on several GPUs. They are reused,
    because importing torch takes seconds.
    """
    backend, number = request.param
    if backend == "nccl" and torch.cuda.device_count() < number:
        pytest.skip(f"needs {number} CUDA device{'s' if number > 1 else ''}")
    if number > 1 and backend == "nccl" and torch.cuda.device_count() >= 4:
        number = 4
    group = _group(backend, number)
    yield group
    group.close()


@functools.cache
def _group(backend: str, number: int) -> RankGroup:
    return RankGroup(number, backend=backend, timeout=300)


def expect_sharding_to_fail_on_cpu(request: pytest.FixtureRequest, ranks: RankGroup) -> None:
    """Mark a test of ``fully_shard`` as a known failure on versions where compiled sharding fails on a CPU."""
    if ranks.backend == "gloo" and torch_version < Version("2.11"):
        reason = (
            "fully_shard over gloo: torch 2.6 calls record_event on a CPU stream, which does not have it, and torch "
            "2.8 returns different numbers"
        )
        request.node.add_marker(pytest.mark.xfail(strict=True, raises=AssertionError, reason=reason))


def mesh_of_all() -> Any:
    """The ranks as a one-dimensional mesh."""
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh(device().type, (distributed.get_world_size(),))


def device() -> torch.device:
    """The device of this rank."""
    on_cuda = distributed.get_backend() == "nccl"
    return torch.device("cuda", torch.cuda.current_device()) if on_cuda else torch.device("cpu")


class Block(nn.Module):
    """A residual layer."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.relu(self.linear(x))


class Net(nn.Module):
    """Repeated layers of one class, as in real models, and a head."""

    def __init__(self, width: int = WIDTH, layers: int = 3) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Block(width) for _ in range(layers))
        self.head = nn.Linear(width, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


class FeedForward(nn.Module):
    """Two layers to split over ranks: the first by columns, and the second by rows."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(torch.nn.functional.gelu(self.up(x)))


def feed_forward_and_batch() -> tuple[nn.Module, torch.Tensor]:
    """A model to split and the whole batch, both equal on every rank."""
    torch.manual_seed(0)
    return FeedForward().to(device()), torch.randn(8, 32).to(device())


def split(module: nn.Module, mesh: Any) -> nn.Module:
    """A ``FeedForward`` under tensor parallel."""
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    return parallelize_module(module, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})


def shard(module: nn.Module, mesh: Any) -> nn.Module:
    """A ``Net`` under ``fully_shard``, with each layer as a separate unit."""
    from torch.distributed.fsdp import fully_shard

    for layer in module.layers:
        fully_shard(layer, mesh=mesh)
    return fully_shard(module, mesh=mesh)


def net_and_batch(width: int = WIDTH, rows: int = 8) -> tuple[nn.Module, torch.Tensor]:
    """A model and the whole batch, both equal on every rank."""
    torch.manual_seed(0)
    return Net(width).to(device()), torch.randn(rows, width).to(device())


class NotingBackend:
    """A backend that runs AOTAutograd's graphs unchanged, and records the number of forward graphs and all
    collectives."""

    def __init__(self) -> None:
        self.graphs = 0
        self.forward: list[str] = []
        self.backward: list[str] = []

    def __deepcopy__(self, memo: dict[int, Any]) -> NotingBackend:
        return self  # Fabric copies the arguments of torch.compile, but recorded data must arrive in this object

    def __call__(self, graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        from torch._dynamo.backends.common import aot_autograd

        self.graphs += 1
        return aot_autograd(fw_compiler=self._into(self.forward), bw_compiler=self._into(self.backward))(graph, inputs)

    def _into(self, collectives: list[str]) -> Callable[..., Any]:
        def compiler(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
            from functorch.compile import make_boxed_func

            targets = [str(node.target) for node in graph.graph.nodes if "c10d_functional" in str(node.target)]
            collectives.extend(name.split(".")[1] for name in targets if "wait_tensor" not in name)
            return make_boxed_func(graph.forward)

        return compiler


@dataclass
class Parallel:
    """A model set up by a library, with functions that call it, run an optimizer step, and gather its parameters.

    ``whole_batch`` is true if each rank receives the whole batch (tensor parallelism) instead of a part of it.
    """

    call: Callable[..., Any]
    optimizer: Any
    backward: Callable[[torch.Tensor], Any]
    parameters: Callable[[], dict[str, torch.Tensor]]
    whole_batch: bool = False


def mean_square(output: torch.Tensor) -> torch.Tensor:
    """A loss that is the mean over the batch, which data-parallel training requires."""
    return output.square().mean()


def train_beside_one_process(
    make: Callable[[], tuple[nn.Module, Any]],
    setup: Callable[[nn.Module], Parallel],
    loss: Callable[[Any], torch.Tensor] = mean_square,
    **budget: Any,
) -> dict[str, Any]:
    """Compare two compiled training steps under a distributed library with the same steps in eager, which one process
    runs on the whole batch.

    ``make`` returns the model and its keyword arguments, or its only tensor argument. Returns ``error`` (the largest
    difference in a parameter's change, relative to that change), ``loss_error`` (the relative difference in the second
    step's loss), and the observed compilations.
    """
    model, batch = make()
    batch = batch if isinstance(batch, dict) else {"x": batch}
    start = {name: p.detach().clone() for name, p in model.named_parameters()}
    expected, expected_loss = after_two_steps_in_one_process(copy.deepcopy(model), batch, loss)
    parallel = setup(model)
    part = batch if parallel.whole_batch else {name: part_of(tensor) for name, tensor in batch.items()}
    with compile_guard(**budget) as seen:
        for _ in range(2):
            parallel.optimizer.zero_grad()
            now = loss(parallel.call(**part))
            parallel.backward(now)
            parallel.optimizer.step()
    distributed.all_reduce(total := now.detach().clone())
    found = {name: p.detach() for name, p in parallel.parameters().items()}
    return {
        "error": worst_change(start, expected, found),
        "loss_error": abs(float(total) / distributed.get_world_size() / expected_loss - 1),
        "graphs": len(seen.graphs),
        "breaks": len(seen.graph_breaks),
        "recompiles": len(seen.recompiles),
    }


def after_two_steps_in_one_process(
    model: nn.Module, batch: dict[str, torch.Tensor], loss: Callable[[Any], torch.Tensor]
) -> tuple[dict[str, torch.Tensor], float]:
    """The parameters after two steps of SGD in eager, and the loss of the second step."""
    optimizer = sgd(model)
    with torch.compiler.set_stance("force_eager"):
        for _ in range(2):
            optimizer.zero_grad()
            now = loss(model(**batch))
            now.backward()
            optimizer.step()
    return {name: parameter.detach() for name, parameter in model.named_parameters()}, float(now.detach())


def worst_change(
    start: dict[str, torch.Tensor], expected: dict[str, torch.Tensor], found: dict[str, torch.Tensor]
) -> float:
    """The largest difference between the parameters of two trained models. The difference in each parameter is relative
    to the parameter's largest change in training.
    """
    assert found.keys() == expected.keys(), sorted(found.keys() ^ expected.keys())
    moved = {name: float((parameter - start[name]).abs().max()) for name, parameter in expected.items()}
    off = {name: float((found[name].to(expected[name]) - expected[name]).abs().max()) for name in expected}
    # A parameter that training does not change, such as the bias of attention keys, changes only by rounding errors.
    floor = 1e-3 * max(moved.values())
    return max(off[name] / max(moved[name], floor) for name in expected)


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    """The optimizer of these tests. It does not normalise gradients, so a wrongly scaled gradient is detected."""
    return torch.optim.SGD(model.parameters(), lr=0.1)


def gathered(model: nn.Module) -> dict[str, torch.Tensor]:
    """A model's gathered parameters on each rank, by their names in the unwrapped model."""
    wrappers = r"(^|\.)(_forward_module|_orig_mod|module|_fsdp_wrapped_module|_original_module)(?=\.)"
    return {
        re.sub(wrappers, "", name).lstrip("."): p.full_tensor() if hasattr(p, "full_tensor") else p
        for name, p in model.named_parameters()
    }
