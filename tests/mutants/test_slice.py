"""The slice of the mutation test that runs with the other tests: fixed seeds, two small models."""

from __future__ import annotations

import pytest
import torch

from tests.mutants.bench import Bench
from tests.mutants.run import Job, Row, report, summary


@pytest.fixture(scope="module", params=[("dcgan", "float32", True), ("dcgan", "bfloat16", False)], ids=str)
def bench(request) -> Bench:
    torch.manual_seed(0)
    return Bench(Job(*request.param, mutants=0, seeds=0))


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
        Row("m", "float32", False, 1, verdict="passed", passed_by=["checker"]),
        Row("m", "float32", False, 2, verdict="false alarm", findings=["numerics: no"]),
    ]
    found = summary(rows)
    assert found["kill rate"] == "1 of 1 (100.00 %)"
    assert found["kills"]["same"] == "0 of 1 (0.00 %)"
    assert found["false alarms"] == {"checker": 1, "assert_close": 2, "same": 2}
    assert any("numerics: no" in line for line in report(rows))
