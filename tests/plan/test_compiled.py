"""``check_plan(compiled=True)`` compiles kernels for cards that are not there."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from pytest_torch_compile import Card, Plan, PlannedGraph, PlannedKernel
from pytest_torch_compile.plan.cards import CARDS
from pytest_torch_compile.plan.plan_findings import kernel_findings
from tests.once import once
from tests.plan.innocents import CASES
from tests.plan.together import Case, plans_of


@dataclass(frozen=True)
class Change:
    """Replaces text in the source of each kernel."""

    old: str
    new: str

    def __call__(self, name: str, source: str) -> str:
        return source.replace(self.old, self.new)


def compiled(name: str, old: str = "", new: str = "") -> Case:
    return replace(CASES[name], compiled=True, change=Change(old, new) if old else None)


INNOCENTS = ("elementwise", "softmax", "indexing", "MLP in bfloat16, training")
DEFECTS = {
    "not a power of two": (
        compiled("softmax", "tl.arange(0, R0_BLOCK)", "tl.arange(0, R0_BLOCK - 1)"),
        "compile-error",
    ),
    "unknown name": (compiled("elementwise", "tl_math.sin", "tl_math.sine"), "compile-error"),
}
SMALL = Card("Small card", (9, 0), 8, 64, 1024, 2**30, 2**20, 1e11)


@once
def plans() -> dict[str, Plan]:
    cases = {name: compiled(name) for name in INNOCENTS}
    return plans_of({**cases, **{name: case for name, (case, _) in DEFECTS.items()}})


@pytest.mark.parametrize("name", INNOCENTS)
def test_each_kernel_has_registers_and_no_finding(plans: dict[str, Plan], name: str) -> None:
    plan = plans[name]
    assert plan.ok, str(plan)
    assert plan.kernels and all(kernel.registers and kernel.spills == 0 for kernel in plan.kernels)


@pytest.mark.parametrize("name", DEFECTS)
def test_the_defect_is_found(plans: dict[str, Plan], name: str) -> None:
    plan = plans[name]
    finding = plan.findings[-1]
    assert finding.kind == DEFECTS[name][1] and finding.location is not None, str(plan)
    assert finding.subject in finding.message and "aten." in finding.message


def test_a_card_with_too_little_shared_memory() -> None:
    plan = plans_of({"softmax": compiled("long reductions")}, gpu=SMALL)["softmax"]
    assert any("bytes of shared memory, but the GPU has 64" in finding.message for finding in plan.findings), str(plan)


def test_a_kernel_that_spills_is_a_finding() -> None:
    kernel = PlannedKernel("triton_red_fused_sum_0", ("aten.sum",), registers=255, spills=64, shared_memory=0)
    graph = PlannedGraph("", False, (kernel,), (), 0, (1,))
    (finding,) = kernel_findings(Plan("target", "default", "inductor", "2.15", "cuda", planned=(graph,)))
    assert finding.kind == "structure" and "spills 64 bytes of registers per thread" in finding.message


@pytest.mark.slow
def test_kernels_are_compiled_for_other_capabilities() -> None:
    plan = plans_of({"softmax": compiled("softmax")}, gpu=CARDS["A100"])["softmax"]
    assert plan.ok and all(kernel.registers for kernel in plan.kernels), str(plan)
