"""The pages about two releases: text, Markdown, HTML; names of a stranger's tests are only names there."""

from __future__ import annotations

import shlex
from dataclasses import replace

import pytest

from pytest_torch_compile.triage import page
from pytest_torch_compile.triage.failed_tests import Cause, Failure, Route
from pytest_torch_compile.triage.groups import Group, Status
from pytest_torch_compile.triage.page import Triage

HOSTILE = "test_a.py::test[<script>alert(1)</script> | `x` \x1b[31m \n::error::owned @everyone]"


def group(status, *tests, cause=None, text="torch says: no", **more):
    cause = cause or Cause("graph-break", "call to print or a logger", "vit.py in forward")
    example = Failure(tests[0], cause, Route.DYNAMO, "one break", text, "remove it", ("stage: dynamo",), **more)
    return Group(status, cause, Route.DYNAMO, tests, example)


TRIAGE = Triage(
    "2.13.0",
    "2.15.0",
    [group(Status.NEW, *(f"test_{number}.py::test" for number in range(12))), group(Status.GONE, "test_b.py::test")],
    40,
    41,
)


def test_sentence_counts_failures_and_groups():
    assert TRIAGE.sentence == (
        "torch 2.13.0 -> 2.15.0: 12 new failures in 1 group, 1 gone, 0 known, 0 flaky (40 and 41 tests)"
    )


def test_what_may_hide_or_explain_a_difference_is_said():
    triage = replace(TRIAGE, differences=["numpy 1.26.4 -> 2.1.0"], lost={"test_c.py::test": "skipped"})
    for text in (page.text(triage), page.markdown(triage).replace("\\", ""), page.html(triage)):
        assert "1 test ran with torch 2.13.0 but not with torch 2.15.0 (1 skipped): test_c.py::test" in text.replace(
            "\n", " "
        )
        assert "numpy 1.26.4 -" in text


def test_command_to_copy_runs_nothing_else():
    text = page.text(replace(TRIAGE, groups=[group(Status.NEW, "test_a.py::test[a'; touch FILE; ']")]))
    (line,) = [line for line in text.splitlines() if "run again" in line]
    assert shlex.split(line.partition("again: ")[2])[-1] == "test_a.py::test[a'; touch FILE; ']"


def test_text_has_a_block_for_each_group():
    text = page.text(TRIAGE)
    assert "1. new, 12 tests, dynamo: graph-break: call to print or a logger at vit.py in forward" in text
    assert "   and 2 more" in text and "run again: python -m pytest 'test_0.py::test'" in text


def test_markdown_has_the_text_of_an_issue_for_each_group():
    text = page.markdown(TRIAGE)
    assert "| 1 | new | 12 |" in text and text.count("\n## ") == 2
    assert "Fails with torch 2.15.0, but not with torch 2.13.0." in text
    assert "Fails with torch 2.13.0, but not with torch 2.15.0." in text
    assert "torch says: no" in text and "- likely fix: `remove it`" in text


@pytest.mark.parametrize("form", [page.text, page.markdown, page.html])
def test_names_and_messages_of_strangers_are_text(form):
    pytest.importorskip("jinja2")
    triage = Triage("2.13.0", "2.15.0", [group(Status.NEW, HOSTILE, text=HOSTILE)], 1, 1)
    made = form(triage)
    assert "\x1b" not in made
    assert ("<script>" if form is page.html else "\n::error::") not in made


@pytest.mark.parametrize("form", [page.text, page.markdown, page.html])
def test_the_file_that_shows_a_group_is_in_its_issue(form, tmp_path):
    pytest.importorskip("jinja2")
    file = tmp_path / "vit-graph-break.py"
    file.write_text("import torch\n" + "```\n" * 300)
    text = form(Triage("2.13.0", "2.15.0", [group(Status.NEW, "test_a.py::test", reproduction=str(file))], 1, 1))
    if form is page.text:
        assert f"reproduction: {file}" in text
    else:
        assert "import torch" in text and "# ... 51 more lines in vit-graph-break.py" in text


def test_pages_are_written_side_by_side(tmp_path):
    pytest.importorskip("jinja2")
    assert page.write(TRIAGE, tmp_path / "out").name == "triage.html"
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"triage.md", "triage.html"}
