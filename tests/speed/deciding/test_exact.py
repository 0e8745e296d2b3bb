"""What is counted: which differences are shown, which are a loss, and which take a second compilation."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_torch_compile.speed.deciding import exact
from pytest_torch_compile.speed.sample import Exact

TUNED = {"kernels", "memory", "python_calls"}


def shown(before: dict[str, Any], *after: dict[str, int], **options: Any) -> list[tuple[str, bool]]:
    """The text of each difference, and whether it is a loss."""
    stored = {name: value if isinstance(value, list) else [value] for name, value in before.items()}
    differences = exact.differences(stored, [Exact(**its) for its in after], **options)
    return [(str(difference), difference.worse) for difference in differences]


@pytest.mark.parametrize("quantity", exact.QUANTITIES, ids=lambda quantity: quantity.name)
def test_one_stored_run_is_enough_for_each_quantity(quantity: exact.Quantity) -> None:
    more = 100_000 if quantity.share else 11  # one more, or far over the tolerance
    before, after = {quantity.name: 10}, {quantity.name: more}
    found = exact.differences({quantity.name: [10]}, [Exact(**after)])
    if quantity.name == "cuda_graphs":
        assert found == []
    else:
        assert [(one.quantity, one.before, one.after, one.worse) for one in found] == [(quantity, 10, more, True)]
        assert exact.is_certain(found[0], 1) == (quantity.name not in TUNED)
        assert exact.is_certain(found[0], 2)
    assert shown(before, before) == []


def test_fewer_cuda_graphs_are_no_loss_if_there_are_fewer_graphs() -> None:
    """A graph break was removed."""
    before = {"graphs": 2, "graph_breaks": 1, "cuda_graphs": 2}
    assert shown(before, {"graphs": 1, "graph_breaks": 0, "cuda_graphs": 1}) == [
        ("graphs 2 -> 1", False), ("graph breaks 1 -> 0", False), ("CUDA graphs launched per call 2 -> 1", False)
    ]  # fmt: skip
    training = {"graphs": 2, "cuda_graphs": 4}
    assert ("CUDA graphs launched per call 4 -> 2", False) in shown(training, {"graphs": 1, "cuda_graphs": 2})
    assert ("CUDA graphs launched per call 4 -> 1", True) in shown(training, {"graphs": 1, "cuda_graphs": 1})
    assert ("CUDA graphs launched per call 4 -> 0", True) in shown(training, {"graphs": 1, "cuda_graphs": 0})
    assert ("CUDA graphs launched per call 4 -> 2", True) in shown(training, {"graphs": 2, "cuda_graphs": 2})


def test_a_target_that_is_compiled_now_is_not_worse_than_one_that_was_not() -> None:
    """A break in a loop was removed, because of which torch had compiled nothing."""
    before = {"graphs": 0, "graph_breaks": 1, "python_calls": 54, "guards": 0}
    after = {"graphs": 1, "graph_breaks": 0, "python_calls": 100, "guards": 300}
    assert shown(before, after) == [("graphs 0 -> 1", False)]
    assert ("graphs 1 -> 0", True) in shown(after, before)
    assert ("Python calls per call 54 -> 100", True) in [
        (text.partition(" (")[0], worse) for text, worse in shown(before, {**after, "graphs": 0})
    ]


def test_message_names_the_number_before_and_after() -> None:
    before, after = {"kernels": 46, "memory": 81_900_000}, {"kernels": 56, "memory": 132_900_000}
    assert shown(before, after) == [
        ("kernels per call 46 -> 56", True), ("peak memory 81.9 MB -> 132.9 MB", True)
    ]  # fmt: skip


def test_message_contains_the_cost_of_guards_and_python_calls() -> None:
    assert shown({"guards": 1_000}, {"guards": 1_400}) == [("guards 1,000 -> 1,400 (about 20 us per call)", True)]
    assert shown({"python_calls": 800}, {"python_calls": 860}) == [
        ("Python calls per call 800 -> 860 (about 6 us per call)", True)
    ]
    assert shown({"guards": 1_400}, {"guards": 1_000}) == [("guards 1,400 -> 1,000", False)]


@pytest.mark.parametrize(
    ("name", "before", "after", "worse"),
    [
        ("graphs", 1, 0, True),
        ("cuda_graphs", 1, 0, True),
        ("cuda_graphs", 2, 1, True),
        ("graphs", 2, 1, False),
        ("kernels", 9, 8, False),
        ("graph_breaks", 1, 0, False),
        ("memory", 1000, 500, False),
    ],
)
def test_fewer_is_a_loss_only_where_compiled_code_or_cuda_graphs_are_gone(
    name: str, before: int, after: int, worse: bool
) -> None:
    assert [is_loss for _, is_loss in shown({name: before}, {name: after})] == [worse]


@pytest.mark.parametrize(
    ("name", "before", "same", "other"),
    [
        ("memory", 1_000_000, 1_010_000, 1_010_001),
        ("memory", 1_000_000, 990_000, 989_999),
        ("python_calls", 100, 130, 131),
        ("python_calls", 100, 70, 69),
        ("python_calls", 10_000, 10_500, 10_501),
        ("kernels", 1000, 1000, 1001),
        ("guards", 1000, 1064, 1065),
        ("guards", 2000, 2100, 2101),
    ],
)
def test_edge_of_the_tolerance(name: str, before: int, same: int, other: int) -> None:
    assert shown({name: before}, {name: same}) == []
    assert len(shown({name: before}, {name: other})) == 1


def test_difference_must_be_in_every_compilation() -> None:
    assert shown({"kernels": 9}, {"kernels": 10}, {"kernels": 9}) == []
    assert shown({"kernels": 9}, {"kernels": 12}, {"kernels": 11}) == [("kernels per call 9 -> 11", True)]
    assert shown({"kernels": 9}, {"kernels": 10}, {"kernels": 8}) == [], "more and fewer is neither"


def test_value_that_any_stored_run_had_is_no_difference() -> None:
    assert shown({"kernels": [9, 12]}, {"kernels": 11}) == []
    assert shown({"kernels": [9, 12]}, {"kernels": 13}) == [("kernels per call 12 -> 13", True)]
    assert shown({"kernels": [9, 12]}, {"kernels": 8}) == [("kernels per call 9 -> 8", False)]


def test_what_was_not_observed_is_not_compared() -> None:
    assert shown({}, {"kernels": 900}) == []
    assert shown({"kernels": []}, {"kernels": 900}) == []
    assert shown({"kernels": 9}, {}) == []
    assert shown({"kernels": 9}, {"kernels": 10}, {}) == []


@pytest.mark.parametrize(
    ("name", "allowed", "most"),
    [("kernels", 10, 110), ("kernels", 0.05, 105), ("memory", 0.05, 105), ("memory", 0, 101), ("python_calls", 2, 130)],
)
def test_more_is_allowed_by_a_number_or_a_share_and_never_less_than_the_tolerance(
    name: str, allowed: float, most: int
) -> None:
    assert shown({name: 100}, {name: most}, allow_more={name: allowed}) == []
    assert shown({name: 100}, {name: most + 1}, allow_more={name: allowed})
    assert shown({name: 100, "graphs": 1}, {name: most, "graphs": 2}, allow_more={name: allowed})


def test_none_leaves_a_quantity_out_and_no_other() -> None:
    assert shown({"guards": 1, "graphs": 1}, {"guards": 900, "graphs": 0}, allow_more={"guards": None}) == [
        ("graphs 1 -> 0", True)
    ]


def test_unchanged_test_gathers_values_and_a_changed_one_starts_over() -> None:
    stored, new = {"kernels": [9], "gone": [1]}, [Exact(kernels=10), Exact(kernels=9, guards=3), Exact()]
    assert exact.merged(stored, new, changed=False) == {"kernels": [9, 10], "guards": [3]}
    assert exact.merged({"kernels": [7]}, new, changed=True) == {"kernels": [9, 10], "guards": [3]}


def test_cuda_graphs_that_are_lost_are_a_loss_unless_they_are_not_compared() -> None:
    lost = {"cuda_graphs": 1}, {"cuda_graphs": 0}
    assert shown(*lost) == [("CUDA graphs launched per call 1 -> 0", True)]
    assert shown(*lost, allow_more={"cuda_graphs": None}) == []
