"""The snapshot puts everything back, whatever raises on the way."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from pytest_torch_compile.legs import snapshot as snapshots  # noqa: E402
from pytest_torch_compile.legs.file_copies import FileCopy  # noqa: E402
from pytest_torch_compile.legs.holders import Items, Memory  # noqa: E402
from pytest_torch_compile.legs.snapshot import Snapshot  # noqa: E402


class Failing:
    """A function in the place of a method, which raises the first times that it is called."""

    def __init__(self, method: Any, error: BaseException, times: int) -> None:
        self.method, self.error, self.times = method, error, times

    def __call__(self, *args: Any) -> Any:
        if self.times:
            self.times -= 1
            raise self.error
        return self.method(*args)


def changed_in_a_leg(rows: list[Any], table: dict[str, Any], weight: Any) -> Any:
    snapshot = Snapshot([rows, table, weight])
    with snapshot.in_force(snapshot.new_leg()):
        rows.append(1)
        table["new"] = 1
        weight.zero_()
    return snapshot


def test_what_one_holder_refuses_keeps_no_other_from_being_put_back(monkeypatch: Any) -> None:
    rows, table, weight = [0], {"old": 0}, torch.ones(3)
    failing = Failing(Items.put, ValueError("refused"), times=1)
    monkeypatch.setattr(Items, "put", lambda holder, content: failing(holder, content))
    with pytest.raises(ValueError, match="refused"):
        changed_in_a_leg(rows, table, weight)
    assert [rows == [0], table == {"old": 0}].count(True) == 1, "the refused one only is as the leg left it"
    assert torch.equal(weight, torch.ones(3))


@pytest.mark.parametrize("times", [1, 3])
def test_an_interruption_while_contents_are_put_back_is_raised_at_the_end(monkeypatch: Any, times: int) -> None:
    rows, table, weight = [0], {"old": 0}, torch.ones(3)
    failing = Failing(Memory.put, KeyboardInterrupt(), times=times)
    monkeypatch.setattr(Memory, "put", lambda holder, content: failing(holder, content))
    with pytest.raises(KeyboardInterrupt):
        changed_in_a_leg(rows, table, weight)
    assert (rows, table) == ([0], {"old": 0}) and torch.equal(weight, torch.ones(3))


class Marked(torch.nn.Parameter):
    """A parameter of a class of its own."""


def test_a_parameter_of_a_subclass_is_as_it_was_left() -> None:
    weight = Marked(torch.ones(3))
    snapshot = Snapshot([weight])
    contents = snapshot.new_leg()
    with snapshot.in_force(contents):
        weight.mark = "left by the leg"
    left = snapshot.at_end_of_call(weight, contents, copy=False)
    assert type(left) is Marked and left.requires_grad and not hasattr(weight, "mark")


def test_nothing_that_did_not_change_is_written(monkeypatch: Any) -> None:
    weight = torch.ones(3)
    snapshot = Snapshot([weight])
    monkeypatch.setattr(Memory, "put", lambda holder, content: pytest.fail("written"))
    with snapshot.in_force(snapshot.new_leg()):
        weight.sum()


@pytest.fixture
def every_model_is_large(monkeypatch: Any) -> None:
    monkeypatch.setattr(snapshots, "LARGE_IN_TRAINING", 0)
    monkeypatch.setattr(snapshots, "LEAST_IN_FILE", 64)


def kinds_of_copies(snapshot: Snapshot) -> list[type]:
    return [type(content) for key, content in snapshot.initial.items() if key[0] == "memory"]


@pytest.mark.usefixtures("every_model_is_large")
def test_copies_of_a_large_model_in_training_are_kept_in_a_file_and_put_back() -> None:
    weight, odd, small = torch.arange(9000.0), torch.arange(101, dtype=torch.uint8), torch.ones(3)
    snapshot = Snapshot([weight, odd, small], training=True)
    assert sorted(kind.__name__ for kind in kinds_of_copies(snapshot)) == ["FileCopy", "FileCopy", "Tensor"]
    contents = snapshot.new_leg()
    with snapshot.in_force(contents):
        weight[8999] = -1
        odd.add_(1)
    assert torch.equal(weight, torch.arange(9000.0)) and torch.equal(odd, torch.arange(101, dtype=torch.uint8))
    assert snapshot.at_end_of_call(weight, contents, copy=False)[8999] == -1
    assert len(contents.held) == 4, "the contents and the versions of two tensors"


@pytest.mark.usefixtures("every_model_is_large")
@pytest.mark.parametrize("options", [{"training": False}, {"training": True, "on_host": False}])
def test_other_copies_stay_in_memory(options: Any) -> None:
    assert FileCopy not in kinds_of_copies(Snapshot([torch.ones(9000)], **options))


@pytest.mark.usefixtures("every_model_is_large")
def test_copies_stay_in_memory_where_no_file_can_be_written(monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    weight = torch.ones(9000)
    snapshot = Snapshot([weight], training=True)
    assert kinds_of_copies(snapshot) == [torch.Tensor]
    with snapshot.in_force(snapshot.new_leg()):
        weight.zero_()
    assert torch.equal(weight, torch.ones(9000))
