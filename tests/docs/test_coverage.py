"""The table of what the suites cover names tests that exist, one row for each of the 23 practices."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "coverage.md"
ROWS = [
    [cell.strip() for cell in line.strip().strip("|").split(" | ")]
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if re.match(r"\| \d+ \|", line)
]
TESTS = sorted({path for row in ROWS for path in re.findall(r"`((?:suites|tests)/[^`]+)`", " ".join(row))})


def test_every_practice_has_a_row():
    assert [int(row[0]) for row in ROWS] == list(range(1, 24))


def test_every_row_names_a_test():
    assert [row[0] for row in ROWS if not re.search(r"`(?:suites|tests)/", row[2])] == []


def test_every_row_has_all_its_cells():
    assert {len(row) for row in ROWS} == {7}
    assert [(row[0], i) for row in ROWS for i, cell in enumerate(row) if not cell] == []


@pytest.mark.parametrize("test", TESTS)
def test_named_test_exists(test):
    file, _, name = test.partition("::")
    path = ROOT / file
    assert path.exists()
    if name:
        assert f"def {name}(" in path.read_text(encoding="utf-8") or f"class {name}" in path.read_text(encoding="utf-8")
