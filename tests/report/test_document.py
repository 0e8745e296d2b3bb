"""The result document: what it says, and how it is kept."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from pytest_torch_compile.findings import FINDING_KINDS, SEVERITIES, Finding
from pytest_torch_compile.report import changes, document, markdown, results, view
from pytest_torch_compile.report.failure_text import headline
from tests.report import documents

SCHEMA = Path(document.__file__).with_name("report.schema.json")
MAKERS = [documents.typical, documents.hostile, documents.made]


@pytest.mark.parametrize("make", MAKERS, ids=["typical", "hostile", "empty"])
def test_document_keeps_to_its_schema(make):
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8"))).validate(make())


def test_schema_knows_every_kind_of_finding():
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    assert set(schema["$defs"]["finding"]["properties"]["kind"]["enum"]) == set(FINDING_KINDS)
    assert set(schema["$defs"]["finding"]["properties"]) == {field.name for field in dataclasses.fields(Finding)}


def test_every_kind_has_one_severity_wrong_results_first():
    assert sorted(kind for kinds in SEVERITIES for kind in kinds) == sorted(FINDING_KINDS)
    worst_first = ("gradient", "custom-op", "timeout", "compile-error", "recompile", "slowdown")
    assert [view.rank(kind) for kind in worst_first] == [*range(6)]


def test_a_finding_reads_the_same_in_a_report_as_in_the_message_of_the_check():
    wrong = Finding(
        "numerics", "output differs from eager", calls=(1, 3), ranks=(0, 1), measure="error", measured=0.5, limit=1e-4
    )
    unlimited = Finding(
        "gradient", "grad of w differs from eager", calls=(2,), measure="error", measured=3.0, limit=0.0
    )
    entry = documents.check(wrong, unlimited)
    written = json.loads(document.dumps(documents.made(documents.case("a", "failed", entry))))
    found = [headline(finding) for finding in written["tests"][0]["checks"][0]["findings"]]
    assert found == [headline(wrong), headline(unlimited)]
    assert found == [
        "ranks 0, 1: calls 1, 3: output differs from eager: error 0.5, limit 1.000e-04 (5e+03x)",
        "call 2: grad of w differs from eager: error 3, limit 0",
    ]


def test_a_report_of_before_findings_had_figures_is_read(tmp_path):
    old = documents.typical()
    fields = ("calls", "ranks", "subject", "measure", "measured", "limit")
    for finding in (f for test in old["tests"] for check in test["checks"] for f in check["findings"]):
        finding["message"] = "call 1: " + finding["message"]
        for name in fields:
            del finding[name]
    document.write(old, tmp_path / "report.json")
    assert "call 1: graph break 1 of 1, 0 allowed" in markdown.summary(document.read(tmp_path))
    assert "call 1: graph break 1 of 1, 0 allowed" in changes.overview(document.read(tmp_path))


def test_graphs_are_told_with_their_guards_if_torch_told_them():
    check = documents.check()
    assert view.graphs(check) == "1 with 2 ops and 31 guards"
    del check["graphs"][0]["guards"]
    assert view.graphs(check) == "1 with 2 ops"
    assert view.graphs({"graphs": []}) == "0 with 0 ops"


@pytest.mark.parametrize("make", MAKERS, ids=["typical", "hostile", "empty"])
def test_document_reads_back_as_it_was_written(make, tmp_path):
    document.write(make(), tmp_path / "report.json")
    assert document.read(tmp_path) == make()


def test_summary_counts_every_outcome_and_the_mean_speedup():
    summary = documents.typical()["summary"]
    assert (summary["passed"], summary["failed"], summary["xfailed"], summary["skipped"]) == (2, 3, 1, 1)
    assert (summary["result"], summary["graph_breaks"], summary["recompiles"]) == ("failed", 2, 3)
    assert summary["regressions"] == 1
    assert summary["speedup"] == pytest.approx((0.002 / 0.00106 * 2) ** 0.5)


@pytest.mark.parametrize(
    ("tests", "status", "result"),
    [
        ([documents.case()], 0, "passed"),
        ([], 5, "empty"),
        ([documents.case()], 2, "error"),
        ([documents.case()], 1, "failed"),
        ([documents.case(outcome="error")], 0, "failed"),
    ],
)
def test_result_takes_the_exit_status_into_account(tests, status, result):
    assert documents.made(*tests, exit_status=status)["summary"]["result"] == result


def test_numbers_that_are_not_finite_become_null():
    assert (
        documents.made(documents.case("a", "failed", documents.check(ratio=float("nan"))))["tests"][0]["checks"][0][
            "numerics"
        ]["worst_ratio"]
        is None
    )


def test_write_leaves_the_old_file_when_it_fails(tmp_path):
    document.write({"a": 1}, tmp_path / "report.json")
    with pytest.raises(ValueError, match="JSON"):
        document.write({"a": float("nan")}, tmp_path / "report.json")
    assert [path.name for path in tmp_path.iterdir()] == ["report.json"]
    assert json.loads((tmp_path / "report.json").read_text()) == {"a": 1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not valid JSON"),
        ("[]", "is not a pytest-torch-compile report"),
        ('{"schema_version": 1}', "is not a pytest-torch-compile report"),
        ('{"schema_version": 99, "tests": [], "summary": {}}', "has schema version 99"),
    ],
)
def test_a_file_that_is_no_report_is_refused_in_one_line(text, message, tmp_path):
    (tmp_path / "report.json").write_text(text)
    with pytest.raises(document.DocumentError, match=message) as error:
        document.read(tmp_path)
    assert "\n" not in str(error.value)


def test_a_missing_report_is_refused(tmp_path):
    with pytest.raises(document.DocumentError, match="cannot be read"):
        document.read(tmp_path / "nothing.json")


def test_merge_joins_shards_and_keeps_the_worst_outcome():
    one = documents.made(documents.case("a"), documents.case("b", "failed"), exit_status=1)
    other = documents.made(documents.case("b"), documents.case("c"), created="2026-02-01T00:00:00+00:00")
    merged = document.merge([one, other])
    assert {test["id"]: test["outcome"] for test in merged["tests"]} == {"a": "passed", "b": "failed", "c": "passed"}
    assert (merged["exit_status"], merged["created"]) == (1, "2026-02-01T00:00:00+00:00")


def test_merge_keeps_one_test_of_two_environments_apart():
    other = {**documents.ENVIRONMENT, "torch": "2.15.0"}
    key = results.environment_key(other)
    newer = document.new([documents.case("a", environment=key)], {key: other}, created="2026", version="0.1.0")
    merged = document.merge([documents.made(documents.case("a")), newer])
    assert [test["environment"] for test in merged["tests"]] == [documents.KEY, key]


def test_merge_of_shards_with_history_has_one_point_for_each_commit():
    shards = []
    for name in "ab":
        first = documents.made(documents.case(name), commit="1" * 40, created=f"2026-01-01T00:00:0{name == 'b':d}")
        shards.append(documents.made(documents.case(name), history=first["history"], commit="2" * 40))
    merged = document.merge(shards)
    assert [point["commit"][:1] for point in merged["history"]] == ["1", "2"]
    assert [len(point["tests"]) for point in merged["history"]] == [2, 2]


def test_merge_of_a_crashed_shard_is_an_error():
    merged = document.merge([documents.made(documents.case("a")), documents.made(exit_status=3)])
    assert merged["summary"]["result"] == "error"


def test_merge_of_nothing_is_refused():
    with pytest.raises(document.DocumentError):
        document.merge([])


def test_history_is_cut_to_its_length():
    history = [document.point(documents.made(created=str(number))) for number in range(100)]
    assert len(documents.made(history=history)["history"]) == document.HISTORY_LENGTH


def test_many_runs_of_few_tests_take_no_place_from_the_runs_of_all():
    whole = [document.point(documents.made(*map(documents.case, "abc"), created=f"{n:03}")) for n in range(100)]
    history = whole
    for number in range(100):
        made = documents.made(documents.case("a"), created=f"{100 + number}", selection=f"-k {number}", history=history)
        history = made["history"]
    assert [point for point in history if not point["selection"]] == whole[-document.HISTORY_LENGTH :]
    assert history[-1]["selection"] == "-k 99"
    assert len({point["selection"] for point in history}) <= document.SELECTIONS


def test_points_of_an_older_version_are_runs_of_all():
    old = {name: value for name, value in documents.made()["history"][0].items() if name != "selection"}
    made = documents.made(documents.case("a"), history=[old])
    assert made["history"][0] == old
    assert len(documents.made(selection="-k a", history=[old])["history"]) == 2


def test_merge_keeps_runs_of_different_choices_apart():
    def shard(name, selection):
        first = documents.made(documents.case(name), commit="1" * 40, selection=selection)
        return documents.made(documents.case(name), history=first["history"], commit="2" * 40, selection=selection)

    merged = document.merge([shard("a", ""), shard("b", "-k b")])
    assert [point["selection"] for point in merged["history"]] == ["", "-k b", " + -k b"]
    assert document.merge([shard("a", "-m quick"), shard("b", "-m quick")])["selection"] == "-m quick"


def test_places_are_relative_to_the_root_with_the_lines_around(tmp_path):
    source = tmp_path / "pkg" / "model.py"
    source.parent.mkdir()
    source.write_text("a\nb\nc\nd\ne\nf\n")
    report = {"observation": {}, "location": {"file": str(source), "line": 3, "library": None}}
    placed = results._placed(report, tmp_path)["location"]
    assert placed["file"] == "pkg/model.py"
    assert placed["excerpt"] == [[1, "a"], [2, "b"], [3, "c"], [4, "d"], [5, "e"]]
    assert results.relative("/elsewhere/x.py", tmp_path) == "/elsewhere/x.py"


def test_report_with_a_tiny_speedup_can_be_merged_and_read_again(tmp_path):
    made = documents.typical()
    for speed in (speed for test in made["tests"] for speed in test["speed"]):
        speed["speedup"] = 1e-9
    document.write(document.merge([made, made]), tmp_path / "report.json")
    assert document.read(tmp_path)["tests"]
