"""Defects of structure, each beside innocent code that looks like it and has the same budget."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from pytest_torch_compile import Budget, call
from tests.plan.together import Case

SIZE = (256, 512)


def tensor(*size: int, dtype: torch.dtype = torch.bfloat16, grad: bool = False) -> torch.Tensor:
    return torch.empty(size or SIZE, dtype=dtype, device="meta", requires_grad=grad)


# One fused kernel, or two with a break between them.
def fused(x: torch.Tensor) -> torch.Tensor:
    x = F.gelu(x) * 2
    _helper()
    return F.layer_norm(x, x.shape[-1:])


def _helper() -> str:
    return f"{__name__} says nothing"


def broken(x: torch.Tensor) -> torch.Tensor:
    x = F.gelu(x) * 2
    torch._dynamo.graph_break()
    return F.layer_norm(x, x.shape[-1:])


@torch.library.custom_op("plan_structures::scaled", mutates_args=())
def opaque(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@opaque.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


def with_opaque_op(x: torch.Tensor) -> torch.Tensor:
    return opaque(x.sigmoid()).tanh()


def without_opaque_op(x: torch.Tensor) -> torch.Tensor:
    return (x.sigmoid() * 2).tanh()


def in_double(x: torch.Tensor) -> torch.Tensor:
    return (x.double() * 0.1).tanh().to(x.dtype)


def in_float(x: torch.Tensor) -> torch.Tensor:
    return (x.float() * 0.1).tanh().to(x.dtype)


def with_copy(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return x @ w.t().contiguous()


def with_view(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return x @ w.t()


def saving(x: torch.Tensor) -> torch.Tensor:
    """Keeps float32 copies of all activations for backward."""
    for _ in range(4):
        x = (x.float() @ torch.eye(x.shape[-1], device=x.device)).to(x.dtype).sin()
    return x


def not_saving(x: torch.Tensor) -> torch.Tensor:
    for _ in range(4):
        x = (x @ torch.eye(x.shape[-1], device=x.device, dtype=x.dtype)).sin()
    return x


def reads_a_value(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.sum().item() > 0 else x


def chooses_on_the_card(x: torch.Tensor) -> torch.Tensor:
    return torch.where(x.sum() > 0, x * 2, x)


def picks_rows(x: torch.Tensor) -> torch.Tensor:
    return x[x[:, 0] > 0].sum(0)


def weighs_rows(x: torch.Tensor) -> torch.Tensor:
    return (x * (x[:, :1] > 0)).sum(0)


def changes_its_input(x: torch.Tensor) -> torch.Tensor:
    return x.add_(1).tanh()


def changes_a_copy(x: torch.Tensor) -> torch.Tensor:
    return x.add(1).tanh()


class Scale(nn.Module):
    """Keeps its scale as a plain attribute, which does not move to the card with the module."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.ones(SIZE[1])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scale


class ScaleBuffer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.ones(SIZE[1]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scale


def head_by_head(x: torch.Tensor) -> torch.Tensor:
    return torch.cat([(head @ head.t()).softmax(-1) for head in x.unbind(0)])


def all_heads(x: torch.Tensor) -> torch.Tensor:
    return (x @ x.transpose(1, 2)).softmax(-1)


def attention_with_expanded_mask(q: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The mask's last stride is 0, which no fused kernel accepts."""
    return F.scaled_dot_product_attention(q, q, q, mask.expand(-1, -1, -1, q.shape[2]))


def attention_with_mask(q: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, q, q, mask)


class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(16, 16, 3), nn.Conv2d(16, 16, 3)
        self.to(torch.bfloat16).to(memory_format=torch.channels_last)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x).relu()).relu()


def lengths(*sizes: int) -> list[Any]:
    return [call(tensor(8, size)) for size in sizes]


def images(layout: torch.memory_format) -> torch.Tensor:
    return torch.empty(2, 16, 32, 32, dtype=torch.bfloat16, device="meta").to(memory_format=layout)


HEADS = (2, 4, 64, 64)
X, W = tensor(), tensor(512, 512)
ONE_KERNEL = Budget(max_kernels=1, max_graph_breaks=1)
TWO_LAUNCHES = Budget(max_kernels=2)
MEMORY = Budget(max_memory=10 * X.numel() * 2 + W.numel() * 2)
BREAK = Budget(max_graph_breaks=1)

# By name: the defect, the innocent, and the kind of the finding (or "" where the plan shows it without a limit).
PAIRS: dict[str, tuple[Case, Case, str]] = {
    "fusion lost by a graph break": (Case(broken, (X,), ONE_KERNEL), Case(fused, (X,), ONE_KERNEL), "structure"),
    "graph break": (Case(broken, (X,)), Case(fused, (X,)), "graph-break"),
    "fusion lost by an opaque op": (
        Case(with_opaque_op, (X,), ONE_KERNEL),
        Case(without_opaque_op, (X,), ONE_KERNEL),
        "structure",
    ),
    "cast to float64": (Case(in_double, (X,)), Case(in_float, (X,)), ""),
    "copy of a weight": (
        Case(with_copy, (X, W), Budget(max_kernels=1)),
        Case(with_view, (X, W), Budget(max_kernels=1)),
        "structure",
    ),
    "activations saved in float32": (
        Case(saving, (tensor(grad=True),), MEMORY, train=True),
        Case(not_saving, (tensor(grad=True),), MEMORY, train=True),
        "memory",
    ),
    "weights in float32": (
        Case(nn.Linear(512, 512, device="meta"), (tensor(dtype=torch.float32),), Budget(max_memory=2**20 + 2**19)),
        Case(nn.Linear(512, 512, device="meta", dtype=torch.bfloat16), (X,), Budget(max_memory=2**20 + 2**19)),
        "memory",
    ),
    "value read on the host": (Case(reads_a_value, (X,), BREAK), Case(chooses_on_the_card, (X,), BREAK), "host-sync"),
    "size read on the host": (Case(picks_rows, (X,), BREAK), Case(weighs_rows, (X,), BREAK), "host-sync"),
    "CUDA graphs lost": (
        Case(changes_its_input, (X,), mode="reduce-overhead"),
        Case(changes_a_copy, (X,), mode="reduce-overhead"),
        "cudagraph-skip",
    ),
    "tensor left on the host": (Case(Scale(), (X,)), Case(ScaleBuffer(), (X,)), "compile-error"),
    "loop over heads": (
        Case(head_by_head, (tensor(8, 64, 64),), TWO_LAUNCHES),
        Case(all_heads, (tensor(8, 64, 64),), TWO_LAUNCHES),
        "structure",
    ),
    "attention without a fused kernel": (
        Case(attention_with_expanded_mask, (tensor(*HEADS), tensor(2, 1, 64, 1)), TWO_LAUNCHES),
        Case(attention_with_mask, (tensor(*HEADS), tensor(2, 1, 64, 64)), TWO_LAUNCHES),
        "structure",
    ),
    "images in another layout than the weights": (
        Case(Convolutions(), (images(torch.contiguous_format),), Budget(max_kernels=4)),
        Case(Convolutions(), (images(torch.channels_last),), Budget(max_kernels=4)),
        "structure",
    ),
    "recompile for a length": (
        Case(fused, lengths(16, 24), dynamic=False),
        Case(fused, lengths(24, 24), dynamic=False),
        "recompile",
    ),
}
