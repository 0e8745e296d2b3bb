"""Links that lead nowhere are found, in a clone, in a built site and in the description of a package."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tools import links

HOME = "# Home\n\n## A title, with `code`\n\n[it](#a-title-with-code) ![](picture.png) [next](docs/next.md#twice-1)\n"
NEXT = "# Next\n\n## Twice\n\n## Twice\n\n[home](../README.md)\n"


@pytest.fixture
def clone(tmp_path: Path):
    def make(readme: str) -> list[str]:
        (tmp_path / "docs").mkdir()
        (tmp_path / "README.md").write_text(readme)
        (tmp_path / "docs" / "next.md").write_text(NEXT)
        (tmp_path / "picture.png").touch()
        subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
        subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)
        return [f"{broken.link}: {broken.reason}" for broken in links.in_clone(tmp_path)]

    return make


def test_every_link_of_this_repository_resolves():
    assert list(links.in_clone()) == []


def test_links_that_resolve_are_not_reported(clone):
    assert clone(HOME + f"[site]({links.VERSIONED}next/) [file]({links.REPOSITORY}/blob/main/docs/next.md)\n") == []


@pytest.mark.parametrize(
    ("link", "reason"),
    [
        ("gone.md", "there is no such file"),
        ("docs/next.md#thrice", "next.md has no heading #thrice"),
        ("#thrice", "README.md has no heading #thrice"),
        ("docs/next.md#twice-2", "next.md has no heading #twice-2"),
        ("../", "the link leads outside the repository"),
        (f"{links.SITE}gone/", "there is no such file"),
        (f"{links.REPOSITORY}/blob/main/gone.md", "there is no such file"),
    ],
)
def test_a_link_that_leads_nowhere_is_reported(link, reason, clone):
    assert clone(f"{HOME}[link]({link})\n") == [f"{link}: {reason}"]


def test_images_and_references_and_html_are_links_too(clone):
    page = "![](a.png) [x][y]\n\n[y]: b.md\n\n<p><a href='c.md'>c</a></p>\n\nword <img src='d.png'>\n\n`[no](e.md)`\n"
    assert sorted(found.partition(":")[0] for found in clone(page)) == ["a.png", "b.md", "c.md", "d.png"]


@pytest.mark.parametrize(
    ("link", "reason"),
    [
        ("next/#here", ""),
        ("/pytest-torch-compile/next/", ""),
        (f"{links.SITE}next/", ""),
        ("gone/", "there is no such page"),
        ("next/#gone", "the page has no #gone"),
        ("/elsewhere/", "the link leads outside the site"),
        (f"{links.SITE}gone/", "there is no such page"),
        (f"{links.REPOSITORY}/blob/main/gone.md", "there is no such file"),
        ("https://example.org/anything", ""),
    ],
)
def test_links_of_a_built_site_are_followed_to_the_page(link, reason, tmp_path):
    (tmp_path / "next").mkdir()
    (tmp_path / "next" / "index.html").write_text("<h1 id='here'>Next</h1><a href='../'>home</a>")
    (tmp_path / "index.html").write_text(f"<a href='{link}'>link</a>")
    assert [broken.reason for broken in links.in_site(tmp_path)] == [reason] * bool(reason)


def test_a_relative_link_is_refused_in_the_description_of_a_package():
    assert [broken.link for broken in links.in_description(f"[a](docs/tutorial.md) [b]({links.SITE})")] == [
        "docs/tutorial.md"
    ]
