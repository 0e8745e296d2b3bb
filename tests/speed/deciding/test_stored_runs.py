"""How runs get into a baseline entry, and what the end of a session says."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_torch_compile.baselines import files as baselines
from pytest_torch_compile.speed import summary as session
from pytest_torch_compile.speed.deciding import stored_runs as record
from pytest_torch_compile.speed.deciding.constants import MAX_RUNS
from pytest_torch_compile.speed.sample import Exact, Paired, Run, SpeedSample, Times

ENVIRONMENT = "NVIDIA-H200_torch-2.11_cuda-13.0"
SAMPLE = SpeedSample(
    wall=Paired(2e-3, 1e-3, -0.69), device=Paired(1e-3, 5e-4, -0.69), kernels=(30, 10), exact=Exact(kernels=10)
)


def test_each_run_of_an_entry_has_what_its_own_process_had() -> None:
    samples = [
        replace(SAMPLE, code=code, environment={"uuid": f"GPU-{code}"}, start=(9.0, 3.0), compile_processes=4)
        for code in "ab"
    ]
    entry = record.new_entry("a.py::t", {}, [samples[0], replace(samples[1], kept_cache=True)])
    first, second = record.runs_of(entry)
    assert (first.code, first.device_id, first.kept_cache) == ("a", "GPU-a", False)
    assert (second.code, second.device_id, second.kept_cache) == ("b", "GPU-b", True)
    assert (first.start, first.warm_start, first.compile_processes) == (9.0, 3.0, 4)
    assert [first] == record.runs_of(json.loads(json.dumps(record.new_entry("a.py::t", {}, samples[:1]))))


def result(test: str, outcome: str = "pass", sample: SpeedSample = SAMPLE, **extra: Any) -> dict[str, Any]:
    entry = record.new_entry(test, {"name": test, "stats": {"mean": 1e-3, "data": [1e-3]}}, [sample])
    return {
        "test": test,
        "environment": ENVIRONMENT,
        "outcome": outcome,
        "summary": "",
        "changes": [],
        "changed": outcome in ("regressed", "improved"),
        "stored_runs": 0,
        "sample": sample.to_dict(),
        "entry": entry,
        **extra,
    }


def finish(directory: Path, *results: dict[str, Any], **options: Any) -> list[str]:
    lines: list[str] = []
    options = {"update": False, "not_passed": {}, "say_not_written": lines.append, **options}
    session.finish(lambda line, **colours: lines.append(line), results, directory, **options)
    return lines


def test_sample_survives_json() -> None:
    assert SpeedSample.from_dict(SAMPLE.to_dict()) == SAMPLE
    assert SAMPLE.speedup == 2.0


def test_entry_keeps_runs_and_drops_rounds() -> None:
    entry = result("a.py::t")["entry"]
    assert record.runs_of(entry) == [Run(Times(2e-3, 1e-3, -0.69), None, Times(1e-3, 5e-4, -0.69))]
    assert "data" not in entry["stats"]


def test_unchanged_test_gathers_runs_until_it_has_enough() -> None:
    new = result("a.py::t")["entry"]
    stored = record.merged(None, new, changed=False)
    for count in range(2, MAX_RUNS + 1):
        stored = record.merged(stored, new, changed=False)
        assert len(record.runs_of(stored)) == count
    assert record.merged(stored, new, changed=False) == stored


def test_changed_test_and_one_of_another_kind_of_cache_start_over() -> None:
    new, kept = result("a.py::t")["entry"], result("a.py::t", sample=replace(SAMPLE, kept_cache=True))["entry"]
    stored = record.merged(new, new, changed=False)
    assert record.merged(stored, new, changed=True) == new
    assert record.merged(stored, kept, changed=False) == kept


def test_entry_without_columns_is_of_fresh_compilations_of_unknown_devices() -> None:
    entry = result("a.py::t")["entry"]
    for column in ("codes", "devices", "kept_caches"):
        del entry["extra_info"]["torch_compile"][column]
    (run,) = record.runs_of(entry)
    assert (run.code, run.device_id, run.kept_cache) == ("", "", False)


def on(device: str) -> dict[str, Any]:
    return result("a.py::t", sample=replace(SAMPLE, environment={"uuid": device}))["entry"]


def test_device_that_no_run_is_from_is_not_judged_by_them() -> None:
    stored = on("GPU-1")
    assert record.unknown_device(record.runs_of(stored), "GPU-1") == ""
    assert record.unknown_device(record.runs_of(stored), "GPU-2") == (
        "the baseline was recorded on 1 other device; record it again on this device, or on at least 3 devices"
    )
    for device in ("GPU-2", "GPU-3"):
        stored = record.merged(stored, on(device), changed=False)
    assert [run.device_id for run in record.runs_of(stored)] == ["GPU-1", "GPU-2", "GPU-3"]
    assert record.unknown_device(record.runs_of(stored), "GPU-4") == ""
    assert record.unknown_device([], "GPU-1") == ""


def test_runs_of_a_kept_cache_judge_only_such() -> None:
    kept = [replace(run, kept_cache=True) for run in record.runs_of(on("GPU-1"))]
    assert "recorded with a persistent compile cache" in record.other_cache(kept, kept_cache=False)
    assert record.other_cache(kept, kept_cache=True) == ""
    assert record.other_cache(record.runs_of(on("GPU-1")), kept_cache=True) == "", "those are compiled afresh again"


def test_full_entry_takes_runs_of_an_unknown_device_for_its_oldest() -> None:
    stored = on("GPU-1")
    for _ in range(MAX_RUNS):
        stored = record.merged(stored, on("GPU-1"), changed=False)
    stored = record.merged(stored, on("GPU-2"), changed=False)
    assert [run.device_id for run in record.runs_of(stored)] == ["GPU-1"] * (MAX_RUNS - 1) + ["GPU-2"]


def test_update_writes_and_shows_before_and_after(tmp_path: Path) -> None:
    first = finish(tmp_path, result("a.py::t", "no-baseline"), update=True)
    assert any("a.py::t" in line and "added" in line and "none" in line and "wall 1.994x" in line for line in first)
    faster = SpeedSample(wall=Paired(2e-3, 5e-4, -1.386))
    second = finish(tmp_path, result("a.py::t", "improved", faster), update=True)
    assert any("changed" in line and "wall 1.994x" in line and "wall 3.999x" in line for line in second)


def test_throttled_and_cpu_figures_are_not_stored(tmp_path: Path) -> None:
    cpu = replace(SAMPLE, problems=("times on CPU are shown, but neither stored nor compared with a baseline",))
    lines = finish(tmp_path, result("a.py::t", "inconclusive", cpu, summary="graphs 1 -> 2"), update=True)
    assert f"times not stored: a.py::t: {cpu.problems[0]}" in lines
    assert not baselines.load(tmp_path, ENVIRONMENT).entries


def test_a_test_that_was_not_measured_says_why_nothing_is_stored(tmp_path: Path) -> None:
    busy = result("a.py::t", "inconclusive", summary="the device stayed busy")
    lines = finish(
        tmp_path, {name: value for name, value in busy.items() if name not in ("entry", "sample")}, update=True
    )
    assert "no measurement stored: a.py::t: the device stayed busy" in lines


def test_rename_and_unused_entry_are_named(tmp_path: Path) -> None:
    finish(tmp_path, result("a.py::test_encoder"), result("b.py::test_old"), update=True)
    lines = finish(
        tmp_path,
        result("a.py::test_big_encoder", "no-baseline"),
        collected=["a.py::test_big_encoder", "b.py::test_new"],
    )
    gone = [line for line in lines if "unused baseline" in line]
    assert gone[0].endswith("a.py::test_encoder; probably renamed to a.py::test_big_encoder")
    assert gone[1].endswith("b.py::test_old")


def test_verdict_table_has_a_row_for_each_test(tmp_path: Path) -> None:
    change = {"metric": "device", "effect": 0.05, "floor": 0.01, "p_value": 1e-6, "outcome": "regressed", "note": ""}
    lines = finish(tmp_path, result("a.py::t", "regressed", changes=[change], summary="device time +5.1%"))
    assert lines[1].split() == [
        "a.py::t",
        "regressed",
        "2.00x",
        "+5.1%",
        "30",
        ">",
        "10",
        "0",
        "device",
        "time",
        "+5.1%",
    ]


def test_improved_asks_to_tighten(tmp_path: Path) -> None:
    assert any("--compile-update-baselines" in line for line in finish(tmp_path, result("a.py::t", "improved")))
