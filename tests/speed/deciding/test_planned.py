"""Planned counts are compared without a tolerance, and what changed is named."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_torch_compile.speed.deciding.planned import compare


def entry(*launches: tuple[str, str, int], breaks: tuple[str, ...] = (), **counts: int) -> dict[str, Any]:
    listed = [{"name": name, "ops": ops.split(), "times": times} for name, ops, times in launches]
    return {"counts": counts, "launches": listed, "graph_breaks": [*breaks]}


FUSED, SIN, COS = ("triton_fused", "aten.cos aten.sin", 1), ("triton_sin", "aten.sin", 2), ("triton_cos", "aten.cos", 1)


@pytest.mark.parametrize(
    ("before", "after", "outcome"),
    [
        ({"kernels": 3}, {"kernels": 3}, "pass"),
        ({"kernels": 3}, {"kernels": 4}, "regressed"),
        ({"kernels": 3}, {"kernels": 2}, "improved"),
        ({"memory": 10**9}, {"memory": 10**9 + 1}, "regressed"),
        ({"bytes_moved": 10}, {"bytes_moved": 9}, "improved"),
        ({"cuda_graphs": 2}, {"cuda_graphs": 1}, "regressed"),
        ({"graphs": 1}, {"graphs": 0}, "regressed"),
        ({"kernels": 4, "memory": 10}, {"kernels": 3, "memory": 11}, "regressed"),
        ({"kernels": 3}, {"kernels": 3, "library_calls": 1}, "pass"),
    ],
)
def test_counts_are_exact(before: dict[str, int], after: dict[str, int], outcome: str) -> None:
    assert compare(entry(**before), entry(**after)).outcome == outcome


def test_values_are_shown_in_megabytes_unless_these_are_equal() -> None:
    change = compare(entry(kernels=46, memory=81_900_000), entry(kernels=56, memory=132_900_000))
    assert change.summary == "kernels 46 -> 56, planned peak memory 81.9 MB -> 132.9 MB"
    assert compare(entry(memory=10**6), entry(memory=10**6 + 1)).summary == (
        "planned peak memory 1,000,000 -> 1,000,001 bytes"
    )


def test_an_allowance_is_kept() -> None:
    assert compare(entry(kernels=3), entry(kernels=5), {"kernels": 2}).outcome == "pass"
    assert compare(entry(kernels=3), entry(kernels=6), {"kernels": 2}).outcome == "regressed"


def test_launches_and_breaks_that_are_new_or_gone_are_listed_with_their_lines() -> None:
    change = compare(entry(FUSED, kernels=1), entry(COS, SIN, breaks=("gb-1",), kernels=3))
    places = {"gb-1": "a.py:2 in f", "triton_sin (aten.sin)": "a.py:1 in f", "triton_cos (aten.cos)": "a.py:3 in f"}
    assert [*change.lines(places)] == [
        "new graph break at a.py:2 in f",
        "new: 2 x triton_sin (aten.sin) at a.py:1 in f",
        "new: triton_cos (aten.cos) at a.py:3 in f",
        "gone: triton_fused (aten.cos, aten.sin)",
    ]


def test_an_op_that_no_launch_computed_before_is_new() -> None:
    change = compare(entry(SIN, kernels=2), entry(SIN, COS, kernels=3))
    assert next(change.lines({"aten.cos": "a.py:4"})) == "new op: aten.cos at a.py:4"
