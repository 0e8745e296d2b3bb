"""What is exact is stored with ``--compile-update-baselines``, and held to under ``--compile-perf=gate``."""

from __future__ import annotations

import json

import pytest

torch = pytest.importorskip("torch")

from pytest_torch_compile import Finding, Location  # noqa: E402
from pytest_torch_compile.baselines import structure  # noqa: E402
from tests.plugin.projects import lines_with  # noqa: E402

WHOLE = """
def test_whole(compile_check):
    compile_check(lambda x: x.sin() + 1, torch.ones(4), max_graph_breaks=1, max_recompiles=2)
"""
# Another call of the same method: torch 2.6 and 2.8 add a guard for each method that is called.
LONGER = WHOLE.replace("+ 1", "+ 1 + x.sin()")
SIZES = """
def test_whole(compile_check):
    calls = [(torch.ones(4), n) for n in {}]
    compile_check(changing, calls=calls, max_recompiles=2)
"""


BROKEN = """
def target(x):
    return {}

def test_whole(compile_check):
    compile_check(target, torch.ones(4), max_graph_breaks=1)
"""


def stored(project):
    (path,) = (project.tester.path / "baselines").glob("cpu_torch-*/structure.json")
    return path, json.loads(path.read_text())


def record(project, source):
    result = project(source, "--compile-update-baselines")
    result.assert_outcomes(passed=1)
    return result


def test_update_writes_what_is_exact(project):
    record(project, WHOLE)
    _, document = stored(project)
    (entry,) = document["tests"]
    assert document["torch_compile"]["schema_version"] == 1
    assert entry["fullname"].endswith("::test_whole")
    (check,) = entry["checks"]
    assert check["graphs"] == [2]
    assert (check["graph_breaks"], check["recompiles"], check["cudagraph_skips"]) == ([], 0, 0)


def test_run_that_times_nothing_keeps_what_is_stored_of_the_timing(project):
    record(project, WHOLE)
    path, document = stored(project)
    document["tests"][0]["counts"] = {"kernels": [46], "python": "3.11"}
    path.write_text(json.dumps(document))
    record(project, LONGER)
    (entry,) = stored(project)[1]["tests"]
    assert entry["counts"] == {"kernels": [46], "python": "3.11"}
    assert entry["checks"][0]["graphs"] == [4]


def test_nothing_is_written_when_nothing_changed(project):
    record(project, WHOLE)
    path, _ = stored(project)
    before = path.stat().st_mtime_ns
    assert lines_with(record(project, WHOLE), "structure.json: no entries changed")
    assert path.stat().st_mtime_ns == before


def test_failed_test_is_not_stored(project):
    project(WHOLE + "    assert False\n", "--compile-update-baselines").assert_outcomes(failed=1)
    assert not (project.tester.path / "baselines").exists()


def test_gate_passes_what_is_as_stored(project):
    record(project, SIZES.format("(1, 2)"))
    result = project(SIZES.format("(1, 2)"), "--compile-perf=gate")
    result.assert_outcomes(passed=1)
    assert not lines_with(result, "torch.compile structure:")


def test_gate_fails_a_recompile_that_the_budget_allows_but_the_baseline_has_not(project):
    record(project, SIZES.format("(1,)"))
    result = project(SIZES.format("(1, 2)"), "--compile-perf=gate")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "E *1. structure: 2 graphs*",
            "*recompile: 1 recompiles, but the baseline has 0",
            " *If this is intended, run: *",
        ]
    )


def test_gate_shows_the_line_of_a_break_that_the_baseline_has_not(project):
    record(project, BROKEN.format("x.sin()"))
    result = project(BROKEN.format("torch._dynamo.graph_break() or x.sin()"), "--compile-perf=gate")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "E *1. graph-break: 1 graph breaks (1 not in the baseline): explicit graph break",
            " *at *test_gate_shows*.py:* in target",
            " *return torch._dynamo.graph_break() or x.sin()",
            " *fix: remove the graph_break() call",
        ]
    )
    result.stdout.no_fnmatch_line("*_pytest*.py:*")


def test_track_only_says_it(project):
    record(project, SIZES.format("(1,)"))
    result = project(SIZES.format("(1, 2)"), "--compile-perf=track")
    result.assert_outcomes(passed=1)
    assert lines_with(result, "test_whole: ops in each graph: 1 -> 1, 1; recompiles 0 -> 1")


def test_fewer_recompiles_pass_with_a_line(project):
    record(project, SIZES.format("(1, 2)"))
    result = project(SIZES.format("(1,)"), "--compile-perf=gate")
    result.assert_outcomes(passed=1)
    assert lines_with(result, "recompiles 1 -> 0")


def test_other_ops_pass_with_a_line(project):
    record(project, WHOLE)
    result = project(LONGER, "--compile-perf=gate")
    result.assert_outcomes(passed=1)
    assert lines_with(result, "test_whole: ops in each graph: 2 -> 4")


def test_file_that_cannot_be_read_is_red_under_gate_and_is_kept(project):
    record(project, WHOLE)
    path, _ = stored(project)
    path.write_text('{"torch_compile": ')
    project(WHOLE, "--compile-perf=track").assert_outcomes(passed=1)
    result = project(WHOLE, "--compile-perf=gate")
    result.assert_outcomes(failed=1)
    assert lines_with(result, "the baseline cannot be used: ") and lines_with(result, "cannot be read")
    assert lines_with(record(project, WHOLE), "the old file could not be read and was moved to")
    assert path.with_name("structure.json.corrupt-1").read_text() == '{"torch_compile": '
    assert stored(project)[1]["tests"]


def test_off_reads_and_writes_nothing(project):
    record(project, SIZES.format("(1,)"))
    project(SIZES.format("(1, 2)")).assert_outcomes(passed=1)


def check(breaks=(), recompiles=0, **other):
    return {
        "target": "f", "backend": "eager", "checked_mode": "default", "graphs": [3], "graph_breaks": list(breaks),
        "recompiles": recompiles, "cudagraph_skips": 0, **other,
    }  # fmt: skip


PLACE = Location("model.py", 3, "forward", "print(x)")


def broken(fingerprint, count):
    return Finding("graph-break", f"{count}: {fingerprint}", PLACE)


def test_break_at_another_place_is_worse_even_when_their_number_is_the_same():
    before, after = (structure.entry("t", [check(breaks)]) for breaks in (("a", "b"), ("a", "c")))
    (found,) = structure.worse(before, after, broken)
    assert (found.kind, found.location) == ("graph-break", PLACE)
    assert structure.worse(before, before, broken) == []


def test_break_met_twice_is_worse_than_once():
    before, after = (structure.entry("t", [check(breaks)]) for breaks in (("a",), ("a", "a")))
    assert [found.kind for found in structure.worse(before, after, broken)] == ["graph-break"]


def test_check_of_another_target_is_not_held_to_this_one():
    before, after = structure.entry("t", [check()]), structure.entry("t", [check(recompiles=2, target="g")])
    assert structure.worse(before, after, broken) == []


def test_guards_of_checks_are_compared_where_both_have_them():
    before, after = structure.entry("t", [check(guards=5)]), structure.entry("t", [check(guards=70)])
    assert structure.differences(before, after) == ["guards 5 -> 70"]
    (found,) = structure.worse(before, after, broken)
    assert (found.kind, found.message) == ("structure", "70 guards, but the baseline has 5")
    assert structure.worse(structure.entry("t", [check()]), after, broken) == []


@pytest.mark.parametrize(("before", "tolerated"), [(5, 69), (1_000, 1_064), (2_000, 2_100)])
def test_few_more_guards_are_tolerated(before, tolerated):
    stored = structure.entry("t", [check(guards=before)])
    assert structure.worse(stored, structure.entry("t", [check(guards=tolerated)]), broken) == []
    assert len(structure.worse(stored, structure.entry("t", [check(guards=tolerated + 1)]), broken)) == 1


def test_more_graphs_are_worse_unless_a_new_break_made_them():
    before = structure.entry("t", [check()])
    split = structure.entry("t", [check(graphs=[2, 1])])
    assert [found.message for found in structure.worse(before, split, broken)] == ["2 graphs, but the baseline has 1"]
    broke = structure.entry("t", [check(["a"], graphs=[2, 1])])
    assert [found.kind for found in structure.worse(before, broke, broken)] == ["graph-break"]


def test_python_calls_of_another_python_are_not_compared():
    entry = structure.entry("t", [], {"kernels": [7], "python_calls": [300], "python": "3.11"})
    assert structure.counts_of(entry, "3.11") == {"kernels": [7], "python_calls": [300]}
    assert structure.counts_of(entry, "3.12") == {"kernels": [7]}
    assert structure.counts_of(None, "3.11") == {}
    assert entry["counts"]["python"] == "3.11"
