"""The table of what the suites cover names tests that exist, one row for each practice."""

from __future__ import annotations

from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml", reason="the data about coverage is YAML")

from tests.docs.generated import generate  # noqa: E402

ROOT = Path(__file__).parents[2]
PRACTICES = yaml.safe_load(generate.PRACTICES.read_text(encoding="utf-8"))
TESTS = sorted({path for entry in PRACTICES for path in entry["tests"]})


def test_every_practice_has_a_row():
    assert [entry["number"] for entry in PRACTICES] == list(range(1, len(PRACTICES) + 1))


def test_every_row_names_a_test():
    assert [entry["number"] for entry in PRACTICES if not entry["tests"]] == []


def test_every_row_has_all_its_cells():
    columns = ("practice", "name", "cpu", "h200", "figure", "on_cpu", "on_h200", "versions")
    assert [(entry["number"], column) for entry in PRACTICES for column in columns if not entry.get(column)] == []


def test_the_pages_are_those_that_the_data_makes():
    for path, text in generate.practices().items():
        assert path.read_text(encoding="utf-8") == text, "run python docs/generate.py"
    pages = {path.name for path in generate.PRACTICES.parent.glob("*.md")}
    assert pages == {generate.page_name(entry) for entry in PRACTICES}


def test_cells_of_the_table_are_short():
    assert [(e["number"], c) for e in PRACTICES for c in ("practice", "cpu", "h200", "figure") if len(e[c]) > 80] == []


@pytest.mark.parametrize("test", TESTS)
def test_named_test_exists(test):
    file, _, name = test.partition("::")
    path = ROOT / file
    assert path.exists()
    if name:
        assert f"def {name}(" in path.read_text(encoding="utf-8") or f"class {name}" in path.read_text(encoding="utf-8")
