"""The Markdown summary: complete, within its size, and nothing gets out of a code span."""

from __future__ import annotations

import re

import pytest

from pytest_torch_compile.report import markdown, safe_text
from tests.report import documents


def test_summary_says_what_failed_where_and_how_to_fix_it():
    text = markdown.summary(documents.typical())
    assert text.startswith("## torch.compile: Some checks failed\n\n7 tests, 3 failed")
    assert "**graph-break** in `tests/test_encoder.py::test_branch`" in text
    assert "at `src/model.py:3`" in text
    assert "fix: `use torch.where`" in text
    assert text.count("diagnosis: `tried: dynamic_dims={'x': 0}: 0 recompiles instead of 3`") == 1
    assert "| `tests/test_speed.py::test_step` | regressed | 2.00x | +9.4% |" in text
    assert "| `tests/test_old.py::test_known` | known failure |" in text


def test_remarks_come_last():
    found = documents.made(documents.case("tests/test_a.py::test_a", "passed", documents.check(breaks=1)))
    remark = "- `tests/test_a.py::test_a`: `accepted_breaks: gb-gone matched no graph break in this check`\n"
    assert markdown.summary(found).endswith(f"\n### Notes\n\n{remark}")
    assert "Notes" not in markdown.summary(documents.made(documents.case()))


def test_cause_and_the_settings_that_differ_are_shown():
    text = markdown.summary(documents.caused_by_a_setting())
    assert (
        "cause: `torch._dynamo.config.disable is True (torch's default: False), left by tests/test_b.py::test_b`"
        in text
    )
    assert "not torch's default: `torch._dynamo.config.disable = True (default False), left by tests" in text


def test_known_failures_are_not_findings():
    assert "test_known`:" not in markdown.summary(documents.typical()).split("### Speed")[0]


@pytest.fixture(scope="session")
def large():
    bad = documents.check(documents.finding())
    return documents.made(*(documents.case(f"tests/test_a.py::test_{n}", "failed", bad) for n in range(4000)))


@pytest.mark.parametrize("limit", [3000, 20_000, markdown.COMMENT_LIMIT, markdown.STEP_LIMIT])
def test_summary_keeps_within_its_limit_and_counts_the_rest(limit, large):
    text = markdown.summary(large, limit)
    assert len(text.encode()) <= limit
    assert re.search(r"and \d+ more in the full report", text)


def test_nothing_hostile_is_outside_a_code_span_or_a_fence():
    text = markdown.summary(documents.hostile())
    text = re.sub(r"^ *(`{3,})text\n.*?^ *\1$", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", "", text)
    for word in ("script", "img", "owned", "@everyone", "javascript", "DROP"):
        assert word not in text


@pytest.mark.parametrize("text", documents.HOSTILE)
def test_a_code_span_stays_in_its_cell(text):
    span = safe_text.markdown_code(text)
    assert "\n" not in span
    assert "\r" not in span
    assert not re.search(r"(?<!\\)\|", span)
    fence = re.match("`+", span).group()
    assert fence not in re.sub(r"^`+|`+$", "", span)


def test_differences_of_what_is_counted_are_a_table_before_the_times():
    text = markdown.summary(documents.made(documents.case(speed=[documents.speed("regressed", 0.09)])))
    assert re.search(r"\| worse \| .*kernels per call 46 -(>|&gt;) 56.* \|\n.*\| better \| .*peak memory 9\.0 MB", text)
    assert text.index("Counts in speed tests") < text.index("### Speed\n")
    assert "Counts in speed tests" not in markdown.summary(documents.made(documents.case(speed=[documents.speed()])))
