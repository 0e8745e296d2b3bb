"""``check_plan(values=True)`` finds miscompilations of Inductor for CUDA from PyTorch's issue tracker, without a GPU."""

from __future__ import annotations

import pytest
import torch
from packaging.version import Version

from pytest_torch_compile import Plan
from tests.once import once
from tests.plan.together import Case, plans_of

BEFORE_2_15 = Version(torch.__version__) < Version("2.15.0.dev0")
BEFORE_2_13 = Version(torch.__version__) < Version("2.13.0.dev0")


def padded_sum(mask: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.pad(mask.sum(dim=-1, dtype=torch.int32), (1, 0))


def scattered(x: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    result = torch.slice_scatter(x, source, start=1, end=3)
    x.zero_()
    return result


def scattered_then_added(x: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    return torch.slice_scatter(x, source, start=1, end=3) + x


def product(x: torch.Tensor) -> torch.Tensor:
    return torch.arange(4, device=x.device) * torch.tensor([10**9], device=x.device)


def small_product(x: torch.Tensor) -> torch.Tensor:
    return torch.arange(4, device=x.device) * torch.tensor([10**3], device=x.device)


def pooled(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.adaptive_avg_pool2d(x, 7).flatten(1).sum(-1)


def floored(x: torch.Tensor) -> torch.Tensor:
    return x // torch.full_like(x, 0.1)


def equal(x: torch.Tensor) -> torch.Tensor:
    return x == 0.1


ONES = torch.ones(1, 16384, dtype=torch.bool)
# The number of the issue, the case, and whether this torch has the bug.
ISSUES = {
    "189895": (Case(padded_sum, (ONES,)), BEFORE_2_15),
    "198094": (Case(scattered, (torch.ones(4, 6), torch.full((2, 6), 2.0))), True),
    "175966": (Case(product, (torch.tensor([10**9]),)), True),
    "179931": (Case(pooled, (torch.randn(4, 65, 8, 8),)), BEFORE_2_13),
    "197895": (Case(floored, (torch.ones(4),)), True),
    "173987": (Case(equal, (torch.full((8,), 0.1, dtype=torch.bfloat16),)), BEFORE_2_13),
}
LOOK_ALIKES = {
    "a sum without padding": Case(lambda mask: mask.sum(dim=-1, dtype=torch.int32), (ONES,)),
    "a scatter whose source is kept": Case(scattered_then_added, (torch.ones(4, 6), torch.full((2, 6), 2.0))),
    "a product within the range of int32": Case(small_product, (torch.tensor([10**3]),)),
    "pooling without a sum": Case(lambda x: torch.nn.functional.adaptive_avg_pool2d(x, 7), (torch.randn(4, 65, 8, 8),)),
    "floor division by a power of two": Case(lambda x: x // torch.full_like(x, 0.5), (torch.ones(4),)),
    "equal in float32": Case(equal, (torch.full((8,), 0.1),)),
}


@once
def plans() -> dict[str, Plan]:
    return plans_of({**{name: case for name, (case, _) in ISSUES.items()}, **LOOK_ALIKES}, values=True)


@pytest.mark.parametrize("issue", ISSUES)
def test_miscompilation_is_found_where_torch_has_it(plans: dict[str, Plan], issue: str) -> None:
    kinds = {finding.kind for finding in plans[issue].findings}
    if ISSUES[issue][1]:
        assert kinds & {"numerics", "aliasing"}
    else:
        assert not kinds


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_correct_look_alike_passes(plans: dict[str, Plan], name: str) -> None:
    assert plans[name].findings == []
