"""The changelog has the form that users read, and an entry for what is released."""

from __future__ import annotations

import pytest

from tools import changelog

EMPTY = "# Changelog\n\n## [Unreleased]\n"
NEW = EMPTY + "\n### Added\n\n- A check.\n  It has two lines.\n"
RELEASED = EMPTY + "\n## [1.0.0] - 2026-01-31\n\n### Fixed\n\n- A bug.\n"


def test_the_changelog_of_this_repository_is_in_form():
    assert list(changelog.problems(changelog.FILE.read_text(encoding="utf-8"))) == []


def test_preparing_a_release_moves_what_is_unreleased_below_its_title():
    made = changelog.with_release(NEW, "1.0.0", "2026-01-31")
    unreleased, released = changelog.entries(made)
    assert (unreleased.version, unreleased.items) == ("Unreleased", [])
    assert (released.version, released.date, released.items) == ("1.0.0", "2026-01-31", ["A check."])
    assert list(changelog.problems(made, "1.0.0")) == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (NEW, "there is no entry for 1.0.0"),
        (EMPTY + "\n## [1.0.0] - 2026-01-31\n", "the entry for 1.0.0 is empty"),
        (RELEASED.replace("[Unreleased]\n", "[Unreleased]\n\n### Added\n\n- More.\n"), "[Unreleased] must be empty"),
        (RELEASED.replace(" - 2026-01-31", ""), "[1.0.0]: the title must read"),
        (RELEASED.replace("Fixed", "Work"), "'Work' is not one of Added"),
        (RELEASED.replace("- A bug", "We tried a bug"), "only headings and list items"),
        (RELEASED.replace("## [Unreleased]\n", ""), "the first entry must be [Unreleased]"),
    ],
)
def test_a_changelog_that_is_not_ready_is_refused(text, problem):
    assert problem in "\n".join(changelog.problems(text, "1.0.0"))


def test_a_version_counts_as_released_once_its_entry_has_a_date():
    assert not changelog.is_released(NEW)
    assert changelog.is_released(RELEASED)
