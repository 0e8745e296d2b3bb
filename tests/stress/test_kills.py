"""A slice of the kills that `nox -s stress` makes: what they leave is counted, and must be nothing."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.stress.kills import (
    FILE_OF_TORCH,
    ORPHAN_SECONDS,
    SCENARIOS,
    Counts,
    Folder,
    Scenario,
    count_kills,
    kill,
    main,
    run_to_the_end,
)

pytestmark = [
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="processes are found in /proc"),
    pytest.mark.usefixtures("new_interpreters"),
]
SEED = 21
BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}


@pytest.mark.parametrize(
    ("name", "kills"), [("baselines", 3), ("report", 3), ("store", 2), pytest.param("plain", 2, marks=pytest.mark.slow)]
)
def test_kills_at_random_moments_leave_nothing(name, kills):
    counts = count_kills(BY_NAME[name], kills, SEED)
    print(f"seed {SEED}: {counts}")
    assert counts.kills == kills
    assert (counts.damaged_files, counts.orphans, counts.temporary_after_next_run) == (0, 0, 0), counts.names
    assert counts.failed_next_runs == 0


class TestTheHarness:
    """It sees what it counts."""

    def test_orphans(self, tmp_path, monkeypatch):
        monkeypatch.setattr("tests.stress.kills.ORPHAN_SECONDS", 0.5)
        starts_another = (
            "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']);"
            "print('started', flush=True); time.sleep(60)"
        )
        folder = Folder(Scenario("orphan", [sys.executable, "-c", starts_another], [], forever=True), tmp_path)
        counts = Counts()
        kill(folder, signal.SIGKILL, 0.1, counts)
        assert counts.orphans == 1 and "time.sleep(60)" in counts.names[0]
        assert not folder.processes()
        assert ORPHAN_SECONDS == 10

    def test_run_that_has_ended_was_not_killed(self, tmp_path):
        ends, counts = [sys.executable, "-c", ""], Counts()
        kill(Folder(Scenario("ends", ends, ends), tmp_path), signal.SIGKILL, 5.0, counts)
        assert (counts.kills, counts.sigkill, counts.ended_before) == (0, 0, 1)

    def test_damaged_and_temporary_files(self, tmp_path):
        folder = Folder(BY_NAME["report"], tmp_path)
        assert run_to_the_end(folder)[0] == 0
        assert (list(folder.damaged()), folder.temporaries()) == ([], [])
        report = tmp_path / "report" / "report.json"
        os.truncate(report, report.stat().st_size // 2)
        (tmp_path / "report" / ".report.json-part").touch()
        for name in ("torch-compile-cache-left", "tmp_of_torch", "tmp_of_a_check"):
            (tmp_path / "tmp" / name).mkdir()
        (tmp_path / "tmp" / "tmp_of_torch" / FILE_OF_TORCH).touch()
        assert len(list(folder.damaged())) == 1
        left = ["report/.report.json-part", "tmp/tmp_of_a_check", "tmp/torch-compile-cache-left"]
        assert sorted(folder.temporaries()) == left

    def test_scenario_that_does_not_run_here_is_bad_and_keeps_nobody_from_running(self, tmp_path, monkeypatch):
        fails = [sys.executable, "-c", "raise SystemExit(3)"]
        monkeypatch.setattr("tests.stress.kills.SCENARIOS", (Scenario("broken", fails, fails), BY_NAME["report"]))
        out = tmp_path / "kills.json"
        monkeypatch.setattr("sys.argv", ["kills", "--kills", "2", "--jobs", "1", "--out", str(out)])
        assert main() == 1
        broken, ran = map(json.loads(out.read_text(encoding="utf-8"))["scenarios"].get, ("broken", "report"))
        assert broken["names"] == ["broken: a run that nobody kills ends with 3"]
        assert (broken["kills"], ran["kills"], ran["failed_next_runs"]) == (0, 1, 0)
