"""Baselines on disk: found, refused with one line, written without losing anything."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_torch_compile.baselines import files as baselines
from pytest_torch_compile.baselines import maintenance
from pytest_torch_compile.baselines.files import BaselineError, environment_name, load, update

H200 = "NVIDIA-H200_torch-2.11_cuda-13.0"


def entry(test: str, ratio: float = -0.5, **extra: Any) -> dict[str, Any]:
    seconds = dict.fromkeys(("min", "max", "mean", "median", "q1", "q3"), 1e-3)
    stats = {
        **seconds,
        "stddev": 0.0,
        "iqr": 0.0,
        "ops": 1e3,
        "rounds": 9,
        "outliers": "0;0",
        "iterations": 1,
        "total": 9e-3,
        "ld15iqr": 1e-3,
        "hd15iqr": 1e-3,
        "iqr_outliers": 0,
        "stddev_outliers": 0,
    }
    runs = [{"wall": [2e-3, 1e-3, ratio]}]
    return {
        "fullname": test,
        "name": test.split("::")[-1],
        "group": None,
        "param": None,
        "params": None,
        "options": {},
        "stats": stats,
        "extra_info": {"torch_compile": {"schema_version": 1, "runs": runs, **extra}},
        "checks": [],
        "kernels": [],
    }


def put(directory: Path, *entries: dict[str, Any], environment: str = H200, kind: baselines.Kind = "speed") -> Path:
    return update(directory, environment, lambda _: {e["fullname"]: e for e in entries}, kind).path


@pytest.mark.parametrize(
    ("device", "torch", "cuda", "name"),
    [
        ("NVIDIA H200", "2.11.0+cu130", "13.0", H200),
        ("cpu", "2.13.0", None, "cpu_torch-2.13"),
        ("Tesla T4 / (PCIe)", "2.6.0", "12.4", "Tesla-T4-PCIe_torch-2.6_cuda-12.4"),
    ],
)
def test_environment_name_is_a_folder_name(device: str, torch: str, cuda: str | None, name: str) -> None:
    assert environment_name(device, torch, cuda) == name


@pytest.mark.parametrize("kind", ["speed", "structure"])
def test_what_was_written_is_found(tmp_path: Path, kind: baselines.Kind) -> None:
    put(tmp_path, entry("b.py::test_b"), entry("a.py::test_a"), kind=kind)
    found = load(tmp_path, H200, kind)
    assert not found.problem
    assert list(found.entries) == ["a.py::test_a", "b.py::test_b"]
    assert found.entries["a.py::test_a"] == entry("a.py::test_a")


def test_file_is_sorted_indented_and_ends_with_a_newline(tmp_path: Path) -> None:
    text = put(tmp_path, entry("b.py::test_b"), entry("a.py::test_a")).read_text()
    spread = json.dumps(json.loads(text), indent=2, sort_keys=True) + "\n"
    assert "".join(text.split()) == "".join(spread.split())
    assert text.endswith("}\n")
    assert '"wall": [0.002, 0.001, -0.5]' in text, "a figure is one line"
    assert json.loads(text)["torch_compile"] == {"schema_version": 1, "environment": H200}


def test_missing_file_names_the_nearest_environment(tmp_path: Path) -> None:
    for other in ("NVIDIA-H200_torch-2.10_cuda-12.9", "NVIDIA-A100_torch-2.11_cuda-13.0", "cpu_torch-2.11"):
        put(tmp_path, entry("a.py::test_a"), environment=other)
    found = load(tmp_path, H200)
    assert not found.entries
    assert found.missing == (
        f"no baseline exists for {H200} in {tmp_path}; the nearest environment with baselines is "
        f"NVIDIA-H200_torch-2.10_cuda-12.9"
    )


def test_missing_folder_is_no_error(tmp_path: Path) -> None:
    assert load(tmp_path / "none", H200).missing == f"no baseline exists for {H200} in {tmp_path / 'none'}"


def holding(*three: Any) -> str:
    """A document with one run, whose wall time is this."""
    header = {"schema_version": 1, "environment": H200}
    damaged = {"fullname": "a.py::test_a", "extra_info": {"torch_compile": {"runs": [{"wall": three}]}}}
    return json.dumps({"torch_compile": header, "benchmarks": [damaged]})


def twice(text: str) -> str:
    """The document with its first entry twice, as a merge can leave it."""
    document = json.loads(text)
    return json.dumps({**document, "benchmarks": [*document["benchmarks"][:1], *document["benchmarks"]]})


BROKEN = {
    "cut off": ('{"benchmarks": [', "cannot be read"),
    "empty": ("", "cannot be read"),
    "not text": (b"\xff\xfe\x00", "cannot be read"),
    "a list": ("[]", "its top level is a list, not a mapping"),
    "another document": ('{"benchmarks": []}', "must contain the header 'torch_compile'"),
    "an entry without a name": (
        json.dumps({"torch_compile": {"schema_version": 1, "environment": H200}, "benchmarks": [{}]}),
        "has no fullname",
    ),
    "two figures of three": (holding(1.0, 2.0), "is damaged in the entry for 'a.py::test_a'"),
    "no time": (holding(0.0, 2.0, 0.5), "is damaged in the entry for 'a.py::test_a'"),
    "no figure": (holding(1.0, 2.0, "fast"), "is damaged in the entry for 'a.py::test_a'"),
    "a figure beyond all": (
        holding(1.0, 2.0, 0.5).replace("2.0", "1e999"),
        "is damaged in the entry for 'a.py::test_a'",
    ),
    "no runs": (holding(1.0, 2.0, 0.5).replace("runs", "walks"), "is damaged in the entry for 'a.py::test_a'"),
    "two entries for one test": (
        twice(holding(1.0, 2.0, 0.5)),
        "is damaged in the entry for 'a.py::test_a': the file contains two entries with this name; restore the file",
    ),
    "NaN": (
        json.dumps({"torch_compile": {"schema_version": 1, "environment": H200}, "benchmarks": [float("nan")]}),
        "contains NaN, which is not a valid measurement",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_file_is_one_clear_line(tmp_path: Path, name: str) -> None:
    content, expected = BROKEN[name]
    path = tmp_path / H200 / "speed.json"
    path.parent.mkdir()
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    found = load(tmp_path, H200)
    assert not found.entries
    assert expected in found.problem
    assert str(path) in found.problem
    assert "\n" not in found.problem


@pytest.mark.parametrize("name", BROKEN)
def test_update_keeps_a_broken_file_aside(tmp_path: Path, name: str) -> None:
    content = BROKEN[name][0]
    data = content if isinstance(content, bytes) else content.encode()
    path = tmp_path / H200 / "speed.json"
    path.parent.mkdir()
    path.write_bytes(data)
    first = update(tmp_path, H200, lambda _: {"a.py::test_a": entry("a.py::test_a")})
    assert first.kept is not None and first.kept.read_bytes() == data
    assert list(load(tmp_path, H200).entries) == ["a.py::test_a"]
    path.write_bytes(data)
    second = update(tmp_path, H200, lambda _: {"a.py::test_a": entry("a.py::test_a")})
    assert second.kept != first.kept and first.kept.read_bytes() == data


def test_another_schema_is_refused_and_untouched(tmp_path: Path) -> None:
    path = put(tmp_path, entry("a.py::test_a"))
    document = json.loads(path.read_text())
    document["torch_compile"]["schema_version"] = 2
    path.write_text(json.dumps(document))
    before = path.read_bytes()
    assert "has schema version 2, but this plugin requires version 1" in load(tmp_path, H200).problem
    with pytest.raises(BaselineError, match="has schema version 2"):
        put(tmp_path, entry("b.py::test_b"))
    assert path.read_bytes() == before


def test_baseline_of_another_device_is_refused_and_untouched(tmp_path: Path) -> None:
    path = put(tmp_path, entry("a.py::test_a"), environment="NVIDIA-A100_torch-2.11_cuda-13.0")
    moved = tmp_path / H200 / "speed.json"
    moved.parent.mkdir()
    moved.write_bytes(path.read_bytes())
    assert load(tmp_path, H200).problem.endswith(f"was recorded on 'NVIDIA-A100_torch-2.11_cuda-13.0', not on {H200}")
    with pytest.raises(BaselineError, match="was recorded on 'NVIDIA-A100"):
        put(tmp_path, entry("b.py::test_b"))
    assert moved.read_bytes() == path.read_bytes()


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_measurement_that_is_no_number_is_not_written(tmp_path: Path, value: float) -> None:
    path = put(tmp_path, entry("a.py::test_a"))
    before = path.read_bytes()
    with pytest.raises(BaselineError, match="nothing was written"):
        put(tmp_path, entry("b.py::test_b", ratio=value))
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == ["speed.json"]


def test_only_what_changed_is_written(tmp_path: Path) -> None:
    path = put(tmp_path, entry("a.py::test_a"), entry("b.py::test_b"))
    stamp = os.stat(path).st_mtime_ns
    same = update(tmp_path, H200, lambda old: dict(old))
    assert same.rows == () and os.stat(path).st_mtime_ns == stamp
    changed = update(
        tmp_path, H200, lambda _: {"b.py::test_b": entry("b.py::test_b", -0.7), "c.py::t": entry("c.py::t")}
    )
    assert [(row.test, row.change) for row in changed.rows] == [("b.py::test_b", "changed"), ("c.py::t", "added")]
    assert changed.rows[0].before == entry("b.py::test_b") and changed.rows[0].after == entry("b.py::test_b", -0.7)
    assert sorted(load(tmp_path, H200).entries) == ["a.py::test_a", "b.py::test_b", "c.py::t"]


def test_none_removes_an_entry(tmp_path: Path) -> None:
    put(tmp_path, entry("a.py::test_a"), entry("b.py::test_b"))
    found = update(tmp_path, H200, lambda _: {"a.py::test_a": None})
    assert [(row.test, row.change) for row in found.rows] == [("a.py::test_a", "removed")]
    assert list(load(tmp_path, H200).entries) == ["b.py::test_b"]


def test_interrupted_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(tmp_path, entry("a.py::test_a"))
    before = path.read_bytes()

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            put(tmp_path, entry("b.py::test_b"))
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == ["speed.json"]
    put(tmp_path, entry("b.py::test_b"))
    assert len(load(tmp_path, H200).entries) == 2


def _write_some(directory: Path, writer: int, count: int) -> None:
    for number in range(count):
        put(directory, entry(f"w{writer}.py::test_{number}"))


def test_the_same_test_may_have_entries_in_two_environments(tmp_path: Path) -> None:
    for environment in (H200, "cpu_torch-2.11"):
        put(tmp_path, entry("a.py::test_a"), environment=environment)
        assert not load(tmp_path, environment).problem


def test_two_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write_some, args=(tmp_path, writer, 15)) for writer in range(2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert [writer.exitcode for writer in writers] == [0, 0]
    expected = sorted(f"w{writer}.py::test_{number}" for writer in range(2) for number in range(15))
    assert sorted(load(tmp_path, H200).entries) == expected


def test_unused_entries_are_those_of_files_that_ran_in_full() -> None:
    entries = ["a.py::test_1", "a.py::test_2", "b.py::test_1", "c.py::test_9"]
    collected = ["a.py::test_1", "c.py::test_1"]
    assert maintenance.unused(entries, collected) == ["a.py::test_2", "c.py::test_9"]
    assert maintenance.unused(entries, collected, selected=["c.py"]) == ["a.py::test_2"]


def test_results_of_existing_tests_are_listed_and_never_pruned(tmp_path: Path) -> None:
    """Their entries are named after functions and classes, and no test has such a name."""
    (tmp_path / "a.py").touch()
    target = {"fullname": "package.function", "verdict": "works", "breaks": [], "kinds": []}
    path = put(tmp_path / "baselines", target, kind="existing")
    put(tmp_path / "baselines", {"fullname": "a.py::test_gone", "checks": []}, kind="structure")
    assert maintenance.listing(path.parent.parent) == [f"{H200}  structure: 1 entry", f"{H200}  existing: 1 entry"]
    collection = maintenance.Collection(tmp_path, tmp_path / "baselines", ("a.py::test_b",))
    pruned = maintenance.prune(path.parent.parent, collection, write=True)
    assert pruned == [f"{H200}  structure: a.py::test_gone"]
    assert load(path.parent.parent, H200, "existing").entries == {"package.function": target}
    path.write_text("{")
    assert maintenance.problems(path.parent.parent)[0].startswith(f"{H200}  existing: ")


def test_renamed_test_is_named() -> None:
    gone = {"a.py::test_encoder[bf16]": entry("x", mode="default"), "a.py::test_other": entry("x", mode="max")}
    new = {
        "a.py::test_small_encoder[bf16]": entry("x", mode="default"),
        "a.py::test_decoder": entry("x", mode="default"),
    }

    def same_mode(first: dict[str, Any], second: dict[str, Any]) -> bool:
        modes = [e["extra_info"]["torch_compile"]["mode"] for e in (first, second)]
        return bool(modes[0] == modes[1])

    assert maintenance.probable_renames(gone, new, same_mode) == {
        "a.py::test_encoder[bf16]": "a.py::test_small_encoder[bf16]"
    }


def test_pytest_benchmark_reads_it(tmp_path: Path) -> None:
    pytest.importorskip("pytest_benchmark")
    path = put(tmp_path, entry("a.py::test_a"))
    command = [sys.executable, "-m", "pytest_benchmark", "compare", str(path)]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=120)
    assert result.returncode == 0, result.stderr
    assert "test_a" in result.stdout + result.stderr


@pytest.mark.usefixtures("new_interpreters")
def test_imports_neither_torch_nor_pytest() -> None:
    code = (
        "import sys, pytest_torch_compile.baselines.files; print([m for m in ('torch', 'pytest') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


def test_part_that_a_killed_run_left_is_removed_also_where_nothing_changes(tmp_path):
    update(tmp_path, H200, lambda stored: {"a": entry("a")})
    part = tmp_path / H200 / ".speed.json-abc.being-written"
    part.touch()
    assert not update(tmp_path, H200, lambda stored: {"a": entry("a")}).rows
    assert not part.exists()
