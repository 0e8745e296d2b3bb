"""How runs get into a baseline entry, and what the end of a session says."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from pytest_torch_compile.baselines import files as baselines
from pytest_torch_compile.speed import summary as session
from pytest_torch_compile.speed.deciding import stored_runs as record
from pytest_torch_compile.speed.sample import Paired, SpeedSample

ENVIRONMENT = "NVIDIA-H200_torch-2.11_cuda-13.0"
SAMPLE = SpeedSample(wall=Paired(2e-3, 1e-3, -0.69), device=Paired(1e-3, 5e-4, -0.69), kernels=(30, 10))


def test_each_run_of_an_entry_has_the_code_of_its_own_process() -> None:
    from dataclasses import replace

    entry = record.new_entry("a.py::t", {}, [replace(SAMPLE, code=code) for code in ("one", "two")])
    assert record.codes_of(entry) == ["one", "two"]


def result(test: str, outcome: str = "pass", sample: SpeedSample = SAMPLE, **extra: Any) -> dict[str, Any]:
    entry = record.new_entry(test, {"name": test, "stats": {"mean": 1e-3, "data": [1e-3]}}, [sample])
    return {
        "test": test,
        "environment": ENVIRONMENT,
        "outcome": outcome,
        "summary": "",
        "changes": [],
        "runs": [],
        "stored_runs": 0,
        "sample": sample.to_dict(),
        "entry": entry,
        **extra,
    }


def finish(directory: Path, *results: dict[str, Any], **options: Any) -> list[str]:
    lines: list[str] = []
    session.finish(lambda line, **colours: lines.append(line), results, directory, **{"update": False, **options})
    return lines


def test_sample_survives_json() -> None:
    assert SpeedSample.from_dict(SAMPLE.to_dict()) == SAMPLE
    assert SAMPLE.speedup == 2.0


def test_entry_keeps_runs_and_drops_rounds() -> None:
    entry = result("a.py::t")["entry"]
    kernels = (30.0, 10.0, round(math.log(10 / 30), 6))
    assert record.runs_of(entry) == [{"wall": (2e-3, 1e-3, -0.69), "device": (1e-3, 5e-4, -0.69), "kernels": kernels}]
    assert "data" not in entry["stats"]


def test_unchanged_test_gathers_runs_until_it_has_enough() -> None:
    new = result("a.py::t")["entry"]
    stored = record.merged(None, new, "no-baseline")
    for count in range(2, record.MAX_RUNS + 1):
        stored = record.merged(stored, new, "pass")
        assert len(record.runs_of(stored)) == count
    assert record.merged(stored, new, "pass") == stored


def test_runs_remember_which_code_they_are_of() -> None:
    from dataclasses import replace

    first, other = (result("a.py::t", sample=replace(SAMPLE, code=code))["entry"] for code in ("one", "two"))
    stored = record.merged(record.merged(None, first, "no-baseline"), other, "pass")
    assert record.codes_of(stored) == ["one", "two"]
    assert [len(runs) for runs in record.runs_by_source(stored)] == [1, 1]


def test_full_entry_makes_room_for_other_code() -> None:
    from dataclasses import replace

    first, other = (result("a.py::t", sample=replace(SAMPLE, code=code))["entry"] for code in ("one", "two"))
    stored = first
    for _ in range(record.MAX_RUNS):
        stored = record.merged(stored, first, "pass")
    for _ in range(2 * record.MIN_RUNS_OF_A_CODE):
        stored = record.merged(stored, other, "pass")
    assert record.codes_of(stored) == ["one"] * 15 + ["two"] * record.MIN_RUNS_OF_A_CODE


def test_full_entry_makes_room_for_what_was_not_measured_before() -> None:
    from dataclasses import replace

    timed, counted = (result("a.py::t", sample=replace(SAMPLE, python_calls=n))["entry"] for n in (None, (300, 200)))
    stored = timed
    for _ in range(record.MAX_RUNS):
        stored = record.merged(stored, timed, "pass")
    assert record.merged(stored, timed, "pass") == stored
    for _ in range(2 * record.MIN_RUNS_OF_A_CODE):
        stored = record.merged(stored, counted, "pass")
    assert sum("python-calls" in run for run in record.runs_of(stored)) == record.MIN_RUNS_OF_A_CODE


def test_entry_from_before_codes_were_kept_is_of_one_code() -> None:
    entry = result("a.py::t")["entry"]
    del entry["extra_info"]["torch_compile"]["codes"]
    assert record.codes_of(entry) == [""]


def on(device: str) -> dict[str, Any]:
    from dataclasses import replace

    return result("a.py::t", sample=replace(SAMPLE, environment={"uuid": device}))["entry"]


def test_device_that_no_run_is_from_is_not_judged_by_them() -> None:
    stored = on("GPU-1")
    assert record.unknown_device(stored, "GPU-1") == ""
    assert record.unknown_device(stored, "GPU-2") == (
        "the baseline was recorded on 1 other device; record it on this one, or on 3 devices"
    )
    for device in ("GPU-2", "GPU-3"):
        stored = record.merged(stored, on(device), "inconclusive")
    assert record.devices_of(stored) == ["GPU-1", "GPU-2", "GPU-3"]
    assert record.unknown_device(stored, "GPU-4") == ""
    assert record.unknown_device(None, "GPU-1") == ""


def test_full_entry_takes_runs_of_a_unknown_device_for_its_oldest() -> None:
    stored = on("GPU-1")
    for _ in range(record.MAX_RUNS):
        stored = record.merged(stored, on("GPU-1"), "pass")
    stored = record.merged(stored, on("GPU-2"), "inconclusive")
    assert record.devices_of(stored) == ["GPU-1"] * (record.MAX_RUNS - 1) + ["GPU-2"]
    assert len(record.runs_of(stored)) == record.MAX_RUNS


def test_changed_test_starts_over() -> None:
    new = result("a.py::t")["entry"]
    stored = record.merged(new, new, "pass")
    for outcome in ("regressed", "improved"):
        assert record.merged(stored, new, outcome) == new


def test_update_writes_and_shows_before_and_after(tmp_path: Path) -> None:
    first = finish(tmp_path, result("a.py::t", "no-baseline"), update=True)
    assert any("a.py::t" in line and "added" in line and "none" in line and "wall 1.994x" in line for line in first)
    faster = SpeedSample(wall=Paired(2e-3, 5e-4, -1.386))
    second = finish(tmp_path, result("a.py::t", "improved", faster), update=True)
    assert any("changed" in line and "wall 1.994x" in line and "wall 3.999x" in line for line in second)


def test_throttled_and_cpu_figures_are_not_stored(tmp_path: Path) -> None:
    from dataclasses import replace

    cpu = replace(SAMPLE, problems=("CPU figures are shown, not judged and not stored",))
    lines = finish(tmp_path, result("a.py::t", "inconclusive", cpu, summary="CPU figures"), update=True)
    assert "not stored: a.py::t: CPU figures" in lines
    assert not baselines.load(tmp_path, ENVIRONMENT).entries


def test_rename_and_unused_entry_are_named(tmp_path: Path) -> None:
    finish(tmp_path, result("a.py::test_encoder"), result("b.py::test_old"), update=True)
    lines = finish(
        tmp_path,
        result("a.py::test_big_encoder", "no-baseline"),
        collected=["a.py::test_big_encoder", "b.py::test_new"],
    )
    gone = [line for line in lines if "no test uses" in line]
    assert gone[0].endswith("a.py::test_encoder; probably renamed to a.py::test_big_encoder")
    assert gone[1].endswith("b.py::test_old")


def test_verdict_table_has_a_row_for_each_test(tmp_path: Path) -> None:
    change = {"metric": "device", "effect": 0.05, "floor": 0.01, "p_value": 1e-6, "outcome": "regressed", "note": ""}
    lines = finish(tmp_path, result("a.py::t", "regressed", changes=[change], summary="device time +5.1 %"))
    assert lines[1].split() == [
        "a.py::t",
        "regressed",
        "2.00x",
        "+5.1",
        "%",
        "30",
        ">",
        "10",
        "0",
        "device",
        "time",
        "+5.1",
        "%",
    ]


def test_improved_asks_to_tighten(tmp_path: Path) -> None:
    assert any("--compile-update-baselines" in line for line in finish(tmp_path, result("a.py::t", "improved")))
