"""Every hostile text through every place where text is shown: nothing active comes out."""

from __future__ import annotations

import html as stdlib_html
import io
import json
import re
import sys

import pytest

from pytest_torch_compile.cli import commands as cli
from pytest_torch_compile.findings import CompileReport, Finding, Location
from pytest_torch_compile.report import document, failure_text, github, markdown, safe_text, table_of_checks
from tests.action.steps_runner import obeyed
from tests.report import documents

COMMANDS = (
    "::error::owned",
    "  ::error::owned",
    "\u2028::error::owned",
    "##[error]owned",
    "x ##[set-output name=a]owned",
)
HOSTILE = {
    "escape": "\x1b[2J\x1b]8;;http://evil\x07owned\x1b[0m",
    "escape of one byte": "\x9b31mowned\x9d0;owned\x9c",
    "commands on lines": "\n".join(["a", *COMMANDS]) + "\r::stop-commands::owned\r\n::add-mask::owned",
    **{f"command {number}": text for number, text in enumerate(COMMANDS)},
    "script": "</script><script>owned</script>",
    "attribute": "\"'><img src=x onerror=owned>",
    "link": "[owned](javascript:owned) <https://evil> @everyone #1",
    "cells": "| owned | owned |\n|---|---|",
    "backticks": "` owned `` owned ``` owned ```` owned",
    "fence": "```\nowned\n```\n~~~\nowned",
    "directions": "\u202eowned\u202c \u2066owned\u2069 \u200fowned \u061cowned",
    "unseen": "ow\u200bned\ufeff \u2060owned \U000e0041",
    "surrogates": "owned \ud800 \udc80 \udfff",
    "null": "owned\x00owned\x08\x7f",
    "ends of lines": "a\vb\fc\x1cd\x85e\u2028f\u2029g",
}
EVERY = pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
ACTIVE = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff\U000e0000-\U000e007f]"
)


def assert_harmless(shown: str) -> None:
    """Nothing that a terminal or a runner acts on, in any line."""
    assert not ACTIVE.search(shown), ascii(ACTIVE.search(shown))
    assert not obeyed(shown) and "##[" not in shown
    shown.encode("utf-8")


@EVERY
def test_a_terminal(text):
    line = safe_text.terminal(text)
    assert_harmless(line)
    assert "\n" not in line
    assert "owned" in line or "owned" not in text.replace("\u200b", "")
    assert safe_text.terminal(line) == line


@EVERY
def test_lines_of_a_terminal(text):
    block = safe_text.terminal_block(text)
    assert_harmless(block)
    assert block.count("\n") == text.count("\n")


@EVERY
def test_markdown(text):
    words, span = safe_text.markdown(text), safe_text.markdown_code(text)
    for shown in (words, span):
        assert_harmless(shown)
        assert "\n" not in shown
        assert not re.search(r"(?<!\\)\|", shown)
    assert not re.search(r"(?<!\\)[`*<>\[\]#@&|]", words)
    fence = re.match("`+", span).group()
    assert fence not in re.sub(r"^`+|`+$", "", span)
    first, *inside, last = safe_text.markdown_block(text.split("\n"), "   ")
    assert_harmless("\n".join(inside))
    assert first == f"{last}text"
    assert not any(last.strip() in line for line in inside)


@EVERY
def test_github(text):
    for command in (
        f"::error title={safe_text.command_property(text)}::{safe_text.command_message(text)}",
        github.Annotation("error", text, 1, text, text).command(),
    ):
        assert not ACTIVE.search(command)
        assert obeyed(command) == [command.strip()]
        assert re.fullmatch(r"::error (file=[^:,]*,line=1,)?title=[^:,]*::.*", command)


@EVERY
def test_a_page(text):
    shown = safe_text.html(text)
    assert not ACTIVE.search(shown)
    shown.encode("utf-8")


@EVERY
def test_json(text):
    shown = safe_text.json_text({"a": text, text: 1})
    assert_harmless(shown)
    assert json.loads(shown) == {"a": text, text: 1}


def hostile_document(text: str) -> document.Document:
    """A document in which this text is everywhere that a text can be."""

    def replaced(value, key=""):
        if isinstance(value, dict):
            return {name: replaced(its, name) for name, its in value.items()}
        if isinstance(value, list):
            return [replaced(its, key) for its in value]
        fixed = ("kind", "outcome", "result", "schema_version", "environment", "why", "metric")
        return text if isinstance(value, str) and key not in fixed else value

    made = replaced(json.loads(document.dumps(documents.typical())))
    made["environments"] = {f"{name}{text}": its for name, its in made["environments"].items()}
    for test in made["tests"]:
        test["environment"] += text
    return made


def printed(capsys, *arguments: str) -> str:
    cli.main(list(arguments))
    captured = capsys.readouterr()
    return captured.out + captured.err


@EVERY
def test_what_the_command_prints(text, tmp_path, capsys):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "report.json").write_text(json.dumps(hostile_document(text)))
    document.write(documents.typical(), tmp_path / "b" / "report.json")
    new, old = str(tmp_path / "a"), str(tmp_path / "b")
    for form in ("terminal", "markdown", "json"):
        assert_harmless(printed(capsys, "report", new, f"--format={form}"))
    for command in obeyed(printed(capsys, "report", new, "--format=github")):
        assert command.startswith(("::error ", "::warning "))
    for form in ("terminal", "markdown"):
        assert_harmless(printed(capsys, "compare", old, new, f"--format={form}"))
    assert_harmless(printed(capsys, "merge", new, old, f"--output={tmp_path / 'merged'}"))
    if document.FILE_NAME in [path.name for path in (tmp_path / "merged").iterdir()]:
        assert_harmless((tmp_path / "merged" / "summary.md").read_text())


@EVERY
def test_what_the_command_prints_of_baselines_and_errors(text, tmp_path, capsys):
    folder = tmp_path / "cpu_torch-2.13"
    folder.mkdir()
    for content in (
        {"torch_compile": {"schema_version": text, "environment": text}, "benchmarks": []},
        {"torch_compile": {"schema_version": 1, "environment": text}, "benchmarks": []},
        {"torch_compile": {"schema_version": 1, "environment": folder.name}, "benchmarks": [{"fullname": text}]},
    ):
        (folder / "speed.json").write_text(json.dumps(content))
        shown = printed(capsys, "baselines", "list", f"--baselines={tmp_path}")
        assert_harmless(shown)
        assert shown.count("\n") == 1
    for content in ({"schema_version": text, "tests": [], "summary": {}}, {**documents.typical(), text: 1}):
        (tmp_path / "report.json").write_text(json.dumps(content))
        shown = printed(capsys, "report", str(tmp_path))
        assert_harmless(shown)
        assert shown.startswith("error: ") and shown.count("\n") == 1


@EVERY
def test_a_page_of_a_hostile_document(text, tmp_path):
    pytest.importorskip("jinja2")
    from pytest_torch_compile.report import html

    page = html.page(hostile_document(text))
    assert not ACTIVE.search(page.replace("\t", " "))
    assert page.count("<script>") == 1 and "<img" not in page
    assert text not in page or stdlib_html.escape(text) == text


@EVERY
def test_the_message_and_the_row_of_a_check(text):
    place = Location(text, 3, text, text)
    finding = Finding("numerics", text, place, evidence=text, hint=text, cause=text)
    report = CompileReport(text, "fullgraph", text, text, text, findings=[finding], diagnosis=[text], remarks=[text])
    report.rerun = text
    assert_harmless(failure_text.failure_text(report))
    assert_harmless(failure_text.finding_text(1, finding))
    assert_harmless(table_of_checks.table([table_of_checks.row(text, report.to_dict())], 120))


@EVERY
def test_a_summary_for_a_comment(text):
    assert_harmless(markdown.summary(hostile_document(text), markdown.COMMENT_LIMIT))


def test_a_terminal_that_knows_few_letters_gets_escapes(tmp_path, monkeypatch):
    document.write(documents.made(documents.case("test_\u00fc\u4e2d")), tmp_path / "report.json")
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    assert cli.main(["report", str(tmp_path)]) == 0
    stream.flush()
    assert b"test_\\xfc\\u4e2d" in stream.buffer.getvalue()
