"""The slice of the mutation test that runs with the other tests: fixed seeds, two small models."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import torch._inductor.config

from tests.mutants.bench import Bench
from tests.mutants.packed import pack
from tests.mutants.run import Job, Row, finished, pieces
from tests.mutants.table import report, summary


@pytest.fixture(scope="module", params=[("dcgan", "float32", True), ("dcgan", "bfloat16", False)], ids=str)
def bench(request) -> Iterator[Bench]:
    torch.manual_seed(0)
    with torch._inductor.config.patch(fallback_random=True):  # the bench leaves it so, for a process of its own
        yield Bench(Job(*request.param, mutants=0, seeds=0))


def test_honest_runs_have_no_finding(bench):
    rows = [bench.honest(seed) for seed in range(1, 9)]
    assert [row.findings for row in rows if row.verdict != "passed"] == []


def test_mutants_are_killed_or_equivalent(bench):
    rows = [bench.mutant(seed) for seed in range(1, 13)]
    killed = [row for row in rows if row.verdict == "killed"]
    assert len(killed) >= 8
    if bench.job.dtype == "float32":
        assert [str(row.mutation) for row in rows if row.verdict == "survived"] == []


def test_the_summary_counts_what_it_is_given():
    rows = [
        Row("m", "float32", False, 1, "x", "another op", "killed", passed_by=["same"]),
        Row("m", "float32", False, 2, "x", "another op", "equivalent", passed_by=["checker", "same"]),
        Row("m", "float32", False, 3, "x", "another op", "below rounding", passed_by=["checker"]),
        Row("m", "float32", False, 1, verdict="passed", passed_by=["checker"]),
        Row("m", "float32", False, 2, verdict="false alarm", findings=["numerics: no"]),
    ]
    found = summary(rows)
    assert found["killed, of the non-equivalent"] == "1 of 2 (50.00%)"
    assert found["killed, of those not below rounding"] == "1 of 1 (100.00%)"
    assert found["kills"]["same"] == "1 of 2 (50.00%); 0 of 1 (0.00%)"
    assert found["false alarms"] == {"checker": 1, "assert_close": 2, "same": 2}
    assert any("numerics: no" in line for line in report(rows))


def test_packed_rows_give_the_same_summary(tmp_path):
    rows = [
        Row("m", "float32", False, 1, "x at y", "another op", "killed", passed_by=["same"], ratio=2.0),
        Row("m", "float32", True, 2, "x at z", "another op", "survived", passed_by=["checker"], signal=float("inf")),
        Row("m", "float32", False, 1, verdict="passed", passed_by=["checker"]),
        Row("m", "float32", False, 2, verdict="false alarm", findings=["numerics: no"]),
    ]
    pack(rows, tmp_path / "rows.jsonl", {"what": "a test"})
    again = finished(tmp_path / "rows.jsonl")[""]
    assert summary(again) == summary(rows)
    assert sorted(report(again)) == sorted(report(rows))


def test_pieces_of_a_job_cover_it_once():
    cut = list(pieces(Job("dcgan", "float32", False, mutants=5, seeds=3, first=10), 2))
    assert [(piece.first, piece.mutants, piece.seeds) for piece in cut] == [(10, 2, 2), (12, 2, 1), (14, 1, 0)]
