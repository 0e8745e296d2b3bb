"""`nox -s stress -- alone` finds the file that is green only after another one."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.stress.alone import NO_TESTS, ROOT


def test_a_file_that_needs_another_one_is_red(tmp_path):
    tests = tmp_path / "tests"
    (tests / "action" / "suites").mkdir(parents=True)
    (tests / "test_a.py").write_text("import sys\n\ndef test(): sys.left = True\n", encoding="utf-8")
    (tests / "test_b.py").write_text("import sys\n\ndef test(): assert sys.left\n", encoding="utf-8")
    (tests / "test_none.py").write_text("", encoding="utf-8")
    (tests / "action" / "suites" / "test_red.py").write_text("def test(): assert False\n", encoding="utf-8")
    out = tmp_path / "alone.json"
    command = [sys.executable, "-m", "tests.stress.alone", "--tests", str(tests), "--out", str(out), "-p", "no:xdist"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert ended.stdout.endswith("3 files alone, 1 red: test_b.py\n")
    green, red, empty = json.loads(out.read_text(encoding="utf-8"))
    assert [green["status"], red["status"], empty["status"]] == [0, 1, NO_TESTS]
    assert "1 passed" in green["counts"] and "has no attribute 'left'" in red["output"]


def test_a_folder_without_tests_is_an_error(tmp_path):
    command = [sys.executable, "-m", "tests.stress.alone", "--tests", str(tmp_path)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 2 and f"no test files in {tmp_path}" in ended.stderr
