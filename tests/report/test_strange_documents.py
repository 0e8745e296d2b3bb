"""Documents with anything in them: each is refused in one line, or harmless to all that read it.

``FUZZ_EXAMPLES`` is how many documents are tried in all: 300 if it is not set.
"""

from __future__ import annotations

import copy
import functools
import hashlib
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("hypothesis")
pytest.importorskip("jinja2")
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_torch_compile.baselines import files as baselines
from pytest_torch_compile.baselines import schema, structure
from pytest_torch_compile.cache import store
from pytest_torch_compile.check import acceptance
from pytest_torch_compile.report import changes, document, github, html, markdown, safe_text
from tests.baselines.test_entries import SPEED, STRUCTURE, read_speed, read_structure
from tests.report import documents

KINDS = 5
settings.register_profile(
    "documents",
    max_examples=int(os.environ.get("FUZZ_EXAMPLES", "300")) // KINDS,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    database=None,
    derandomize="FUZZ_EXAMPLES" not in os.environ,
)
strange = settings.get_profile("documents")

TEXTS = st.one_of(
    st.text(max_size=8),
    st.sampled_from(
        ["../../../etc/passwd", "/etc/passwd", "\ud800", "\x00", "a\n::error::b", "{{7*7}}", "%s%n", "9" * 5000]
    ),
)
NUMBERS = st.one_of(
    st.integers(-3, 3), st.sampled_from([2**63, -(2**64), 10**400, 1e308, -1e308, 5e-324, 0.0, -0.0]), st.floats()
)
SCALARS = st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=8,
)
ONE_LINE = 2000
FORBIDDEN = {
    "subprocess.Popen",
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.fork",
    "socket.connect",
    "pickle.find_class",
}
watching: list[Path] = []
seen: list[str] = []


def watch(event: str, arguments: tuple[Any, ...]) -> None:
    """Note what a document must never lead to: a process, a connection, a file that is written outside its folder."""
    if not watching:
        return
    if event in FORBIDDEN:
        seen.append(f"{event} {arguments}")
    # What hypothesis remembers, and the bytecode of what it imports late.
    if event == "open" and (".hypothesis" in str(arguments[0]) or "__pycache__" in str(arguments[0])):
        return
    writes = event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+")
    if (
        writes
        and isinstance(arguments[0], (str, bytes))
        and not Path(os.fsdecode(arguments[0])).is_relative_to(watching[0])
    ):
        seen.append(f"{event} {arguments}")


@functools.cache
def install() -> None:
    """Install the hook, which cannot be removed, only in processes that run these tests. In others, its frame could be
    the innermost one of a check that is interrupted.
    """
    sys.addaudithook(watch)


@pytest.fixture
def folder():
    install()
    with tempfile.TemporaryDirectory() as place:
        watching.append(Path(place))
        yield Path(place)
        watching.clear()
    assert not seen


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value within a document."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [*([path] if path else []), *(place for name, its in inside for place in places(its, (*path, name)))]


@st.composite
def damaged(draw: st.DrawFn, sound: Any) -> bytes:
    """The text of a sound document with some values replaced, left out or added; or with other bytes; or of anything."""
    how = draw(st.sampled_from(["values"] * 6 + ["bytes", "anything", "deep"]))
    if how == "anything":
        return json.dumps(draw(VALUES)).encode()
    if how == "deep":
        levels = draw(st.sampled_from([30, 50, 1000, 200_000]))
        return draw(st.sampled_from([b"[", b'{"a":'])) * levels
    value = copy.deepcopy(sound)
    for _ in range(draw(st.integers(1, 3)) if how == "values" else 0):
        known = places(value)
        if not known:
            break
        *way, last = draw(st.sampled_from(known))
        inside = value
        for name in way:
            inside = inside[name]
        action = draw(st.sampled_from(["replace", "replace", "leave out", "add", "other kind"]))
        if action == "leave out":
            del inside[last]
        elif action == "add" and isinstance(inside, dict):
            inside[draw(TEXTS)] = draw(VALUES)
        elif action == "other kind":
            inside[last] = draw(st.sampled_from([None, [], {}, "", 0, True, [[]], {"a": 1}, "1"]))
        else:
            # Of the same kind where there is one, to get past the first check.
            same = {str: TEXTS, int: NUMBERS, float: NUMBERS}.get(type(inside[last]), VALUES)
            inside[last] = draw(same)
    text = bytearray(json.dumps(value).encode())
    if how == "bytes":
        for _ in range(draw(st.integers(1, 4))):
            text[draw(st.integers(0, len(text) - 1))] = draw(st.integers(0, 255))
        text = text[: draw(st.integers(0, len(text)))]
    return bytes(text)


def one_line(error: Exception) -> None:
    text = safe_text.terminal(f"error: {error}")
    assert "\n" not in str(error), str(error)
    assert len(text) < ONE_LINE


SMALL = json.loads(
    document.dumps(
        documents.made(
            documents.case("a.py::test_a", "failed", documents.check(documents.finding(), breaks=1, recompiles=1)),
            documents.case("a.py::test_b", speed=[documents.speed()]),
            history=documents.made(documents.case("a.py::test_a"))["history"],
        )
    )
)


@strange
@given(damaged(SMALL))
def test_report(folder, content):
    (folder / "report.json").write_bytes(content)
    try:
        read = document.read(folder)
    except document.DocumentError as error:
        one_line(error)
        return
    other = documents.typical()
    for text in (changes.overview(read), markdown.summary(read), html.page(read), document.dumps(read)):
        text.encode("utf-8", "backslashreplace")
    for annotation in github.ranked(read):
        assert "\n" not in annotation.command()
    for differences in (changes.changes(read, other), changes.changes(other, read)):
        changes.as_text(differences), changes.as_markdown(differences)
    merged = document.merge([read, other])
    document.write(merged, folder / "merged" / "report.json")
    assert document.read(folder / "merged") == json.loads(document.dumps(merged))


def baseline(kind: baselines.Kind, entry: dict[str, Any]) -> dict[str, Any]:
    header = {"schema_version": baselines.SCHEMA_VERSION, "environment": "cpu"}
    return {baselines.KEY: header, baselines.LIST_OF_ENTRIES[kind]: [{**entry, "fullname": "a.py::test_a"}]}


def check_baseline(folder: Path, kind: baselines.Kind, content: bytes, read: Any) -> None:
    place = folder / "baselines" / "cpu" / f"{kind}.json"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content)
    loaded = baselines.load(folder / "baselines", "cpu", kind)
    if loaded.problem:
        one_line(baselines.BaselineError(loaded.problem))
    for entry in loaded.entries.values():
        read(entry)
    added = {"fullname": "b", **(SPEED if kind == "speed" else STRUCTURE)}
    try:
        done = baselines.update(
            folder / "baselines", "cpu", lambda old: {"b.py::test_b": {**added, "fullname": "b.py::test_b"}}, kind
        )
    except baselines.BaselineError as error:
        one_line(error)
        return
    if done.kept:
        done.kept.unlink()
    assert not baselines.load(folder / "baselines", "cpu", kind).problem


@strange
@given(damaged(baseline("speed", SPEED)))
def test_speed_baseline(folder, content):
    check_baseline(folder, "speed", content, read_speed)


@strange
@given(damaged(baseline("structure", STRUCTURE)))
def test_structure_baseline(folder, content):
    check_baseline(
        folder, "structure", content, lambda entry: (read_structure(entry), structure.differences(entry, entry))
    )


ACCEPTED = {
    "schema_version": 1,
    "tests": {
        "a": {
            "breaks": {"gb-1": {"location": "a.py:3", "reason": "print", "torch": ["2.13"]}},
            "recompiles": {"2.13": 1},
        }
    },
}


@strange
@given(damaged(ACCEPTED))
def test_accepted_breaks(folder, content):
    (folder / acceptance.FILE_NAME).write_bytes(content)
    entries, problem = acceptance.load(folder / acceptance.FILE_NAME)
    if problem:
        one_line(baselines.BaselineError(problem))
    needed = {"breaks": {"gb-2": {"location": "a.py:4", "reason": "x"}}, "recompiles": 2}
    for entry in entries.values():
        acceptance.allowed_recompiles(entry, "2.15")
        acceptance.stale(entry, needed, "2.13")
        acceptance.merged(entry, needed, "2.13")


HERE = {"device": "cpu", "torch": "2.13.0", "cuda": None}
BODY = b"content"
MANIFEST = {
    "schema": 1,
    "environment": HERE,
    "parts": [{"run": "a", "size": len(BODY)}],
    "sha256": hashlib.sha256(BODY).hexdigest(),
}


@strange
@given(damaged(MANIFEST))
def test_manifest_of_artifacts(folder, content):
    (folder / "staging").mkdir(exist_ok=True)
    blob = store.MAGIC + content + b"\n" + BODY
    try:
        parts = store.unpack(blob, HERE)
    except store.ArtifactsRefused as error:
        one_line(error)
        return
    assert b"".join(part.content for part in parts) == BODY
    assert "/" not in store.file_name(HERE)


@given(st.dictionaries(TEXTS, st.one_of(st.none(), TEXTS), max_size=4))
@settings(strange, max_examples=100)
def test_the_name_of_stored_artifacts_stays_in_its_folder(environment):
    name = store.file_name(environment)
    assert Path("folder", name).parent == Path("folder")


@strange
@given(st.data())
def test_the_schema_is_read_as_jsonschema_reads_it(data):
    jsonschema = pytest.importorskip("jsonschema")
    content = data.draw(damaged(SMALL))
    try:
        value = schema.parse(content)
    except schema.Refused as error:
        one_line(error)
        return
    theirs = jsonschema.Draft202012Validator(document.report_schema()).is_valid(value)
    wrong = schema.problem(value, document.report_schema())
    # Ours has limits for numbers that theirs has not.
    assert theirs == (not wrong) or "must be of type integer" in wrong or "must be of type number" in wrong


def keywords(value: Any) -> set[str]:
    if isinstance(value, list):
        return set().union(*map(keywords, value))
    if not isinstance(value, dict):
        return set()
    inner = [value.get(name, {}) for name in ("properties", "$defs")]
    rest = {
        name: its for name, its in value.items() if name not in ("properties", "$defs", "enum", "const", "required")
    }
    return {*value} | keywords(list(rest.values())) | set().union(*(keywords(list(one.values())) for one in inner))


def test_every_keyword_of_the_schema_is_known():
    from pytest_torch_compile.baselines.entries import SCHEMAS

    for one in (document.report_schema(), *SCHEMAS.values(), store._MANIFEST, acceptance._TESTS):
        assert keywords(one) <= schema.KEYWORDS | {"$schema", "$defs", "title", "description"}


def test_a_document_that_is_too_large_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(schema, "MOST_BYTES", 2**20)
    (tmp_path / "report.json").write_bytes(b" " * (2**20 + 1))
    with pytest.raises(document.DocumentError, match="is larger than 1 MiB"):
        document.read(tmp_path)
