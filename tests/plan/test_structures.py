"""A plan catches defects of structure, and passes innocent code that looks like them."""

from __future__ import annotations

import pytest

from pytest_torch_compile import Plan
from tests.once import once
from tests.plan.structures import PAIRS
from tests.plan.together import plans_of


@once
def plans() -> dict[str, Plan]:
    defects = {f"{name}: defect": defect for name, (defect, _, _) in PAIRS.items()}
    innocents = {f"{name}: innocent": innocent for name, (_, innocent, _) in PAIRS.items()}
    return plans_of({**defects, **innocents})


@pytest.mark.parametrize("name", [name for name, (_, _, kind) in PAIRS.items() if kind])
def test_the_defect_is_found(plans: dict[str, Plan], name: str) -> None:
    plan = plans[f"{name}: defect"]
    assert PAIRS[name][2] in [finding.kind for finding in plan.findings], str(plan)


@pytest.mark.parametrize("name", PAIRS)
def test_the_innocent_passes(plans: dict[str, Plan], name: str) -> None:
    plan = plans[f"{name}: innocent"]
    assert plan.ok, str(plan)


@pytest.mark.parametrize("name", ["value read on the host", "size read on the host"])
def test_the_line_that_reads_a_value_is_named(plans: dict[str, Plan], name: str) -> None:
    finding = next(one for one in plans[f"{name}: defect"].findings if one.kind == "host-sync")
    assert finding.location is not None and finding.location.file.endswith("tests/plan/structures.py")


def test_a_kernel_that_computes_in_float64_is_named(plans: dict[str, Plan]) -> None:
    assert [kernel.float64 for kernel in plans["cast to float64: defect"].kernels] == [True]
    assert [kernel.float64 for kernel in plans["cast to float64: innocent"].kernels] == [False]
