"""Planned figures in the report: in their own table, and compared apart from what was measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_torch_compile.observation import Location
from pytest_torch_compile.plan.records import LibraryCall, Plan, PlannedGraph, PlannedKernel
from pytest_torch_compile.report import changes, github, html, markdown
from pytest_torch_compile.report.results import check_entry
from tests.report import documents

LINE = Location("src/model.py", 10, "forward", "h = F.gelu(h)")


def planned(kernels: int = 2, memory: int = 81_900_000, **compared: Any) -> dict[str, Any]:
    """A document with one planned test."""
    kernel = PlannedKernel("triton_poi_fused_gelu_0", ("aten.gelu",), LINE)
    graph = PlannedGraph("", False, (kernel,) * kernels, (LibraryCall("extern_kernels.mm", ("aten.mm",)),), 10**6, (1,))
    plan = Plan("Block", "default", "inductor", "2.15.0", "planned for H100", planned=(graph,), peak_memory=memory)
    plan.launches, plan.compared = (kernels + 1,), compared
    return documents.made(documents.case("a", "passed", check_entry(plan.to_dict(), Path.cwd())))


def test_markdown_has_a_table_of_planned_figures() -> None:
    text = markdown.summary(planned(outcome="pass", summary=""))
    assert "### Plans (not measured)" in text
    assert "| `a` | `NVIDIA H100 80GB HBM3` | 2 | 1 | 81.9 MB | 1.0 MB | pass |  |" in text
    assert "### Speed" not in text and "Plans" not in markdown.summary(documents.typical())


def test_the_page_shows_planned_figures_with_their_launches() -> None:
    pytest.importorskip("jinja2")
    text = html.page(planned())
    assert "Planned for NVIDIA H100 80GB HBM3, not measured<" in text
    assert "2 x <code>triton_poi_fused_gelu</code> aten.gelu at <code" in text and "Speed:" not in text


def test_a_missing_baseline_is_a_warning() -> None:
    (one,) = github.ranked(planned(outcome="no-baseline", summary="no baseline exists"))
    assert (one.level, one.title, one.message) == ("warning", "torch.compile: no-baseline", "a: no baseline exists")


def test_two_reports_are_compared_by_their_planned_counts() -> None:
    found = {change.what: change.worse for change in changes.changes(planned(), planned(3, 80_000_000))}
    assert found == {
        "planned for NVIDIA H100 80GB HBM3: kernels 2 -> 3": True,
        "planned for NVIDIA H100 80GB HBM3: planned peak memory 81.9 MB -> 80.0 MB": False,
    }
    assert changes.changes(planned(), planned()) == []
