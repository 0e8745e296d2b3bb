"""Under ``gate`` a baseline that is there and cannot be read is no pass; one that is not there is a loud warning."""

from __future__ import annotations

import json

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("pytest_benchmark")

from tests.plugin.projects import lines_with  # noqa: E402
from tests.plugin.test_benchmark import CONFTEST, ENVIRONMENT  # noqa: E402

WHOLE = """
def test_whole(compile_check):
    compile_check(lambda x: x.sin() + 1, torch.ones(4), max_graph_breaks=1, max_recompiles=2)
"""


def twice(old):
    """The document with each entry twice, as a merge can leave it."""
    document = json.loads(old)
    lists = {name: entries * 2 for name, entries in document.items() if name in ("benchmarks", "tests")}
    return json.dumps({**document, **lists})


DAMAGE = {
    "two entries for one test": twice,
    "conflict marker": lambda old: f"<<<<<<< HEAD\n{old}=======\n{old}>>>>>>> theirs\n",
    "cut": lambda old: old[: len(old) // 2],
    "empty": lambda old: "",
    "a figure that is none": lambda old: old.replace('"recompiles": 0', '"recompiles": "0"'),
    "a newer schema": lambda old: old.replace('"schema_version": 1', '"schema_version": 99'),
    "another environment": lambda old: old.replace('"environment": "', '"environment": "other-'),
}
EVERY = pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)


def damaged(project, kind, damage):
    (path,) = (project.tester.path / "baselines").glob(f"*/{kind}.json")
    old = path.read_text()
    path.write_text(damage(old))
    assert path.read_text() != old
    return path


@EVERY
def test_the_gate_is_red_where_the_structure_cannot_be_read(project, damage):
    project(WHOLE, "--compile-update-baselines").assert_outcomes(passed=1)
    path = damaged(project, "structure", damage)
    before = path.read_text()
    result = project(WHOLE, "--compile-perf=gate")
    result.assert_outcomes(failed=1)
    assert lines_with(result, "structure.json")
    assert path.read_text() == before


@EVERY
def test_track_says_it_and_stays_green(project, damage):
    project(WHOLE, "--compile-update-baselines").assert_outcomes(passed=1)
    damaged(project, "structure", damage)
    result = project(WHOLE, "--compile-perf=track")
    result.assert_outcomes(passed=1)
    assert len(lines_with(result, "structure.json")) == 1


def test_a_gate_without_stored_structure_is_green(project):
    result = project(WHOLE, "--compile-perf=gate")
    result.assert_outcomes(passed=1)


SPEED = """
def test_speed(compile_benchmark):
    compile_benchmark(lambda x: x.sin() + 1, torch.ones(4), seconds=0.05)
"""
SPEED_DAMAGE = {name: how for name, how in DAMAGE.items() if "figure" not in name}


@pytest.mark.parametrize("damage", SPEED_DAMAGE.values(), ids=SPEED_DAMAGE)
def test_the_gate_is_red_where_the_speed_cannot_be_read(project, damage):
    project.tester.makeconftest(CONFTEST)
    project(SPEED, "--compile-perf=track", "--compile-update-baselines").assert_outcomes(passed=1)
    damaged(project, "speed", damage)
    result = project(SPEED, "--compile-perf=gate")
    result.assert_outcomes(failed=1)
    assert lines_with(result, "speed.json")


def test_a_gate_without_stored_speed_is_green_and_loud(project):
    project.tester.makeconftest(CONFTEST)
    result = project(SPEED, "--compile-perf=gate")
    result.assert_outcomes(passed=1, warnings=1)
    assert lines_with(result, f"no baseline exists for {ENVIRONMENT}")


@pytest.mark.parametrize("kind", ["structure", "speed"])
def test_baselines_that_cannot_be_written_are_red(project, kind):
    """The line is there: what lacks is ``unwritten.say`` in place of the line, for the status of the run."""
    source = WHOLE if kind == "structure" else SPEED
    if kind == "speed":
        project.tester.makeconftest(CONFTEST)
    (project.tester.path / "baselines").write_text("a file in the way")
    result = project(source, "--compile-perf=track", "--compile-update-baselines")
    result.assert_outcomes(passed=1)
    assert lines_with(result, "baselines not updated: ")
    assert result.ret == 1
