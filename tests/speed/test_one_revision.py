"""Tests that cannot be compared, and why. The last tests run pytest on two real checkouts; the figures are made up."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_torch_compile.child import Child, Ended
from pytest_torch_compile.cli import commands as cli
from pytest_torch_compile.plan import gate
from pytest_torch_compile.speed import fresh_process, measured_test
from pytest_torch_compile.speed.fresh_process import Ran
from pytest_torch_compile.speed.one_revision import Revision, not_compared, paths_in
from pytest_torch_compile.speed.sample import Paired, SpeedSample

SAMPLE = SpeedSample(wall=Paired(2.0, 1.0, -0.69))
TEST = "tests/test_a.py::test_f"


def revision(name: str, *samples: str, **more: Any) -> Revision:
    return Revision(name, {test: [SAMPLE] for test in samples}, **more)


def base(*samples: str, **more: Any) -> Revision:
    return revision("main", *samples, **more)


def here(*samples: str, **more: Any) -> Revision:
    return revision("this checkout", *samples, **more)


BROKEN = {"failed": {TEST: "ValueError: no"}}
SKIPPED = {"collected": {TEST}}
BUSY = {"collected": {TEST}, "busy": {TEST: "other processes use the device"}}


@pytest.mark.parametrize(
    ("before", "now", "outcome", "reason"),
    [
        (base(TEST), here(**BROKEN), "failed", "failed in this checkout: ValueError: no"),
        (base(TEST), here(TEST, **BROKEN), "failed", "failed in this checkout: ValueError: no"),
        (base(), here(**BROKEN), "failed", "failed in this checkout: ValueError: no"),
        (base(TEST), here(failed={"tests/test_a.py": "E"}), "failed", "failed in this checkout: E"),
        (base(TEST), here(failed={"tests": "E"}), "failed", "failed in this checkout: E"),
        (base(**BROKEN), here(TEST), "not-compared", "failed in main: ValueError: no"),
        (base(failed={"tests/test_a.py": "E"}), here(TEST), "not-compared", "failed in main: E"),
        (base(**BROKEN), here(**BROKEN), "not-compared", "failed on both revisions: ValueError: no"),
        (base(TEST, **BROKEN), here(**BROKEN), "not-compared", "failed on both revisions: ValueError: no"),
        (base(**BUSY), here(TEST), "not-compared", "other processes use the device"),
        (base(TEST), here(**BUSY), "not-compared", "other processes use the device"),
        (base(), here(TEST), "no-baseline", "new in this checkout"),
        (base(failed={"tests/test_ab.py": "E"}), here(TEST), "no-baseline", "new in this checkout"),
        (base(**SKIPPED), here(TEST), "no-baseline", "in main, the test was skipped or was not a speed test"),
        (base(TEST), here(), "removed", "removed in this checkout"),
        (base(TEST), here(**SKIPPED), "removed", "in this checkout, the test is skipped or is not a speed test"),
    ],
)
def test_test_that_is_not_compared_has_a_reason(before: Revision, now: Revision, outcome: str, reason: str) -> None:
    (found,) = not_compared(before, now)
    assert (found.test, found.outcome, found.reason) == (TEST, outcome, reason)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (base(TEST), here(TEST)),
        (base(TEST, **BROKEN), here(TEST)),  # fixed, and measured before it failed
        (base(TEST, **BROKEN), here(TEST, **BROKEN)),
        (base(**SKIPPED), here(**SKIPPED)),  # no speed test
        (base(**BROKEN), here()),  # a broken test that this checkout removed
    ],
)
def test_measured_test_and_ordinary_test_need_no_reason(before: Revision, now: Revision) -> None:
    assert not_compared(before, now) == []


def test_file_that_cannot_be_collected_is_listed_only_if_its_tests_are_unknown() -> None:
    broken = {"tests/test_a.py": "E", "tests/test_b.py": "F"}
    assert [one.test for one in not_compared(base(TEST), here(failed=broken))] == [TEST, "tests/test_b.py"]


def result(test: str, when: str, outcome: str = "passed", longrepr: object = None, **more: object) -> dict[str, object]:
    return {"nodeid": test, "when": when, "outcome": outcome, "longrepr": longrepr, **more}


def of(ended: Ended) -> Revision:
    added = Revision("main")
    added.add(Ran({}, {}, {}, ended))
    return added


@pytest.mark.parametrize(
    ("shown", "line"),
    [
        ({"reprcrash": {"message": "ValueError: one\ntwo"}}, "ValueError: one"),
        ("ImportError while importing test module 'a.py'.\nTraceback:\nE   ModuleNotFoundError: none", "ModuleNotFoundError: none"),
        ("[XPASS(strict)] why", "[XPASS(strict)] why"),
        ("", "no message"),
        ({"reprcrash": {"message": "\x1b[31mred"}}, "[31mred"),
    ],
)  # fmt: skip
def test_reason_is_the_first_line_of_the_error(shown: object, line: str) -> None:
    assert of(Ended(1, "", [result(TEST, "call", "failed", shown)])).failed == {TEST: line}


def test_test_that_the_run_did_not_finish_has_failed() -> None:
    collected, begun = ["a", "b", "c"], [result("a", "setup"), result("a", "teardown"), result("b", "setup")]
    why = "pytest ended with status -11 before the test ended"
    assert of(Ended(-11, "", begun, collected=collected)).failed == {"b": why, "c": why}
    late = Ended(None, "it took longer than 9 s", begun, collected=collected)
    assert of(late).failed == dict.fromkeys("bc", "it took longer than 9 s")
    assert not of(Ended(0, "", [result(test, "teardown") for test in collected], collected=collected)).failed


def test_busy_device_is_known_from_a_result_without_a_measurement() -> None:
    timed = [{"test": "a", "summary": "busy"}, {"test": "b", "summary": "", "sample": {}}]
    reports = [result(one["test"], "teardown", torch_compile={"timings": [one]}) for one in timed]
    assert of(Ended(0, "", reports, collected=["a", "b"])).busy == {"a": "busy"}


def test_paths_are_told_apart_from_options_and_their_values(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").touch()
    assert paths_in(["-q", "test_a.py::test_x[a/b]", "test_b.py", "--x=test_a.py"], tmp_path) == {
        "test_a.py::test_x[a/b]"
    }


def left(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Record the limits that are left for ``compare``."""
    seen: list[object] = []
    monkeypatch.setattr(fresh_process, "_leave", lambda test, allow_more, content: seen.append(allow_more))
    return seen


def test_measured_test_leaves_its_limits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen = left(monkeypatch)
    monkeypatch.setattr(measured_test, "_measured_here", lambda *given: (SAMPLE, {}))
    about = {"python": "3.12", "device": "cpu", "torch": "2.15"}
    monkeypatch.setattr(measured_test, "name_of", lambda environment: "cpu")
    monkeypatch.setattr(measured_test.stored_runs, "stored_test", lambda *given, **more: measured_test.StoredTest())
    monkeypatch.setattr(measured_test, "_to_store", lambda *given: {})
    test = measured_test.SpeedTest(
        TEST, 1, tmp_path, Child([], tmp_path), about, lambda: None, lambda bench: {}, print, allow_more={"kernels": 2}
    )  # type: ignore[arg-type,return-value]
    measured_test.measured_test(test)
    assert seen == [{"kernels": 2}]


def test_planned_test_leaves_its_limits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen = left(monkeypatch)
    monkeypatch.setattr(gate, "plan_of_test", lambda *given: SimpleNamespace(findings=[]))
    monkeypatch.setattr(gate, "_entry", lambda test, plan: ({"counts": {}}, {}))
    monkeypatch.setattr(gate, "announce", lambda plan: None)
    gate.planned_test(TEST, None, [], {}, folder=tmp_path, allow_more={"kernels": 2})
    assert seen == [{"kernels": 2}]


# The tests leave made-up measurements, because a real measurement takes seconds.
LEAVES = """
from pathlib import Path
import pytest
from pytest_torch_compile.speed.fresh_process import leave_sample
from pytest_torch_compile.speed.sample import Exact, Paired, SpeedSample

@pytest.fixture
def leave(benchmark, request):
    def leave(kernels=9, allow_more=None):
        benchmark.pedantic(lambda: None)
        sample = SpeedSample(wall=Paired(2.0, 1.0, -0.69), exact=Exact(kernels=kernels))
        leave_sample(request.node.nodeid, sample, allow_more)
    return leave
"""
BASE = """
def test_same(leave): leave()
def test_more(leave): leave(9)
def test_allowed(leave): leave(9)
def test_broken(leave): leave()
def test_fixed(leave): raise ValueError("broken before")
def test_gone(leave): leave()
"""
HERE = """
def test_same(leave): leave()
def test_more(leave): leave(10, allow_more={"memory": 5})
def test_allowed(leave): leave(10, allow_more={"kernels": 1})
def test_broken(leave): raise ValueError("broken by this change")
def test_fixed(leave): leave()
def test_new(leave): leave()
"""
WEIGHTS = """
from pathlib import Path
WEIGHTS = Path(__file__).with_name("weights.txt").read_text()
def test_w(leave): leave()
"""


def git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=A", "-c", "user.email=a@b.c"]
    done = subprocess.run(["git", "-C", str(folder), *who, *arguments], check=True, capture_output=True, text=True)
    return done.stdout


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout whose only commit has passing and failing tests. The file weights.txt is ignored by git."""
    pytest.importorskip("pytest_benchmark")
    (tmp_path / "conftest.py").write_text(LEAVES)
    (tmp_path / "test_it.py").write_text(BASE)
    (tmp_path / "test_w.py").write_text(WEIGHTS)
    (tmp_path / "weights.txt").write_text("1")
    (tmp_path / ".gitignore").write_text("weights.txt\n__pycache__\n.*\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-f", ".gitignore", "conftest.py", "test_it.py", "test_w.py")
    git(tmp_path, "commit", "-qm", "base")
    (tmp_path / "test_it.py").write_text(HERE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    return tmp_path


def compare(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    status = cli.main(["compare", "--against", "HEAD", "--rounds=1", *arguments])
    printed = capsys.readouterr()
    lines = [line for line in printed.out.splitlines() if not line.startswith("round ")]
    return status, "\n".join([*printed.err.splitlines(), *lines])


def test_tests_that_one_revision_breaks_are_listed(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out = compare(capsys, ".")
    assert status == 1
    counted, _, others = out.partition("times relative to eager")
    assert counted.split() == ["counts:", "test_it.py::test_more", "worse", "kernels", "per", "call", "9", "->", "10"]
    others = others[others.index("tests that were not compared:") :]
    rows = [
        "failed        test_it.py::test_broken  failed in this checkout: ValueError: broken by this change",
        "not-compared  test_it.py::test_fixed  failed in HEAD: ValueError: broken before",
        "removed       test_it.py::test_gone  removed in this checkout",
        "no-baseline   test_it.py::test_new  new in this checkout",
        "not-compared  test_w.py::test_w  failed in HEAD: FileNotFoundError: ",
    ]
    for row, line in zip(rows, others.splitlines()[1:], strict=True):
        assert " ".join(line.split()).startswith(" ".join(row.split()))


def test_nothing_is_called_the_same_if_the_base_revision_cannot_run(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out = compare(capsys, "test_w.py")
    assert (status, len(out.splitlines())) == (2, 1)
    assert out.startswith(
        "error: no test was compared: test_w.py::test_w failed in HEAD: FileNotFoundError: [Errno 2] No such file"
    )


@pytest.mark.parametrize("selected", [["new"], ["test_it.py::test_new"], ["new", "test_it.py::test_same"]])
def test_paths_that_the_base_revision_lacks_are_new(
    project: Path, capsys: pytest.CaptureFixture[str], selected: list[str]
) -> None:
    (project / "new").mkdir()
    (project / "new" / "test_n.py").write_text("def test_n(leave): leave()\n")
    status, out = compare(capsys, *selected)
    assert status == 0 and "new in this checkout" in out
    assert ("counts: the same on both revisions" in out) == ("test_it.py::test_same" in selected)


def test_conftest_file_that_fails_only_in_the_base_revision_is_an_error(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "conftest.py").write_text("import of_the_other_revision\n")
    git(project, "add", "conftest.py")
    git(project, "commit", "-qm", "broken")
    (project / "conftest.py").write_text(LEAVES)
    status, out = compare(capsys, "test_it.py")
    assert status == 2
    assert "error: the tests of HEAD could not run: " in out and "of_the_other_revision" in out
