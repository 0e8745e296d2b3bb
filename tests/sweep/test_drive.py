"""The sweep goes on after a crash or a time-out, keeps what it has, and says when it cannot run at all."""

from __future__ import annotations

import json
import sys

import pytest

from benchmarks.sweep import store
from benchmarks.sweep.drive import Drive, SweepError

WORKER = """
import json, os, sys, time
sys.path[:0] = {path!r}
from pathlib import Path
from benchmarks.sweep.store import done
path, events = map(Path, sys.argv[1:])
environment = {{"torch": {torch!r}}}
stream = events.open("a")
def say(event):
    stream.write(json.dumps(event) + "\\n"); stream.flush()
cases = {cases!r}
say({{"environment": environment, "cases": cases}})
for name in cases:
    if name in done(path, environment):
        continue
    say({{"begin": name}})
    if name == "crashes": os._exit(3)
    if name == "hangs": time.sleep(60)
    if name.startswith("slow"): time.sleep(1)
    say({{"end": name, "figures": {{"seconds": 0.1}}}})
"""


@pytest.fixture
def drive(tmp_path):
    def make(cases, torch="2.13.0", limit=20, **options):
        script = tmp_path / "worker.py"
        script.write_text(WORKER.format(cases=cases, torch=torch, path=sys.path))
        lines: list[str] = []
        made = Drive(tmp_path / "torch.json", [sys.executable, str(script)], limit, say=lines.append, **options)
        return made, lines

    return make


def test_every_case_has_a_result(drive):
    made, _ = drive(["one", "two"])
    assert made.run()["cases"] == {"one": {"seconds": 0.1}, "two": {"seconds": 0.1}}
    assert store.read(made.path) == made.run()


def test_crash_is_the_result_of_one_case(drive):
    made, _ = drive(["one", "crashes", "two"])
    assert made.run()["cases"] == {
        "one": {"seconds": 0.1},
        "crashes": {"error": "ended with 3"},
        "two": {"seconds": 0.1},
    }


def test_time_out_is_the_result_of_one_case(drive):
    made, _ = drive(["hangs", "one"], limit=2)
    assert made.run()["cases"] == {"hangs": {"error": "took longer than 2 s"}, "one": {"seconds": 0.1}}


def test_second_sweep_runs_only_what_is_missing(drive):
    drive(["one"])[0].run()
    made, lines = drive(["one", "two"])
    made.run()
    assert lines == ["torch 2.13.0: 1 of 2 cases to run", "two: 0.1 s"]


def test_spent_budget_leaves_the_rest_to_the_next_sweep(drive):
    cases = ["slow 1", "slow 2", "slow 3", "slow 4"]
    first, _ = drive(cases, budget=0.5)
    assert 0 < len(first.run()["cases"]) < 4
    second, _ = drive(cases)
    assert set(second.run()["cases"]) == set(cases)


def test_results_of_another_environment_are_not_mixed_in(drive):
    drive(["one"], torch="2.13.0")[0].run()
    made, _ = drive(["two"], torch="2.15.0")
    assert list(made.run()["cases"]) == ["two"]


def test_worker_that_cannot_start_ends_the_sweep_with_its_output(tmp_path):
    command = [sys.executable, "-c", "raise SystemExit('no torch here')"]
    with pytest.raises(SweepError, match="no torch here"):
        Drive(tmp_path / "torch.json", command, 20).run()


def test_file_of_another_kind_is_refused(tmp_path):
    (tmp_path / "torch.json").write_text(json.dumps({"schema_version": 99}))
    with pytest.raises(store.StoreError, match="does not contain sweep results"):
        store.read(tmp_path / "torch.json")
