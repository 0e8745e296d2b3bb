"""The page of the sweep: its tables, and what it says changed between versions."""

from __future__ import annotations

import pytest

pytest.importorskip("jinja2")

from benchmarks.sweep import page


def figures(**changes):
    plain = {
        "wrong": [],
        "breaks": [],
        "recompiles": ["size"],
        "fallbacks": 0,
        "graphs": 2,
        "seconds": 10.0,
        "not_observable": [],
    }
    return plain | changes


def document(torch, **cases):
    environment = {"torch": torch, "torchvision": "0.1", "transformers": "5.0"}
    return {"schema_version": 1, "environment": environment, "cases": cases}


BREAK = {"what": "data-dependent branch", "where": "torchvision/ops/boxes.py in nms"}


def test_versions_stand_in_their_order():
    case = {"vision/resnet training": figures()}
    text = page.render([document(version, **case) for version in ("2.11.0", "2.6.0", "2.13.0")])
    assert "| model | 2.6 | 2.11 | 2.13 |" in text


def test_cell_tells_breaks_recompiles_and_seconds():
    assert page.cell(figures(breaks=[BREAK])) == "1 / 1 / 10"


def test_cell_puts_what_is_wrong_first():
    wrong = [{"kind": "metadata", "message": "strides"}, {"kind": "metadata", "message": "dtype"}]
    assert page.cell(figures(wrong=wrong, fallbacks=2)) == "**metadata** **eager x2** 0 / 1 / 10"


def test_cell_of_a_crash_and_of_a_gap():
    assert page.cell({"error": "ended with -11", "seconds": 3.0}) == "**ended with -11**"
    assert page.cell(None) == "not run"


def test_equal_figures_are_no_change():
    assert page.differences(figures(), figures(seconds=12.0)) == []


def test_each_kind_of_change_is_told():
    old = figures(breaks=[BREAK], wrong=[{"kind": "numerics", "message": "far off"}])
    new = figures(recompiles=["size", "size"], seconds=30.0)
    assert page.differences(old, new) == [
        "no longer reported: numerics",
        "graph breaks 1 -> 0 (gone: data-dependent branch at torchvision/ops/boxes.py in nms)",
        "recompiles 1 -> 2 (new: size)",
    ]


def test_time_is_compared_where_both_hold():
    assert page.differences(figures(), figures(seconds=30.0)) == ["10 s -> 30 s"]
    wrong = [{"kind": "compile-error", "message": "raised"}]
    assert page.differences(figures(wrong=wrong), figures(seconds=30.0)) == ["no longer reported: compile-error"]


def test_a_case_that_starts_to_run_is_a_change():
    assert page.differences({"error": "ended with -11"}, figures()) == ["ended with -11 -> runs"]


def test_page_tells_the_change_between_neighbours_only():
    name = "vision/resnet inference"
    steps = [figures(), figures(graphs=3), figures(graphs=3)]
    text = page.render([document(f"2.{i}.0", **{name: step}) for i, step in enumerate(steps, 6)])
    first, second = text.split("### 2.7 to 2.8")
    assert f"- `{name}`: graphs 2 -> 3" in first
    assert "graphs 2 -> 3" not in second


def test_times_are_summed_over_what_compiled_everywhere():
    both = {"a/one inference": figures(), "a/two inference": figures(seconds=90.0)}
    one = {"a/one inference": figures(), "a/two inference": {"error": "ended with -11"}}
    documents = [document("2.6.0", **both), document("2.8.0", **one)]
    assert [page.totals(d, page.common(documents))["seconds"] for d in documents] == [10.0, 10.0]


def test_wrong_result_is_told_once_with_its_versions():
    wrong = figures(wrong=[{"kind": "metadata", "message": "strides | of the cache"}])
    found = page.complaints([document(f"2.{i}.0", **{"a/b inference": wrong}) for i in (6, 8)])
    assert [(f["versions"], f["message"]) for f in found] == [(("2.6", "2.8"), "strides \\| of the cache")]


def test_tables_have_as_many_cells_as_columns():
    text = page.render([document(f"2.{i}.0", **{"a/b inference": figures()}) for i in (6, 8)])
    widths = {line.count("|") for line in text.splitlines() if line.startswith("|")}
    assert widths == {4}
