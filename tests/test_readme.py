"""The README's example fails as the README says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"
SITE = "https://pytest-torch-compile.github.io/pytest-torch-compile/"
FILES = "https://github.com/pytest-torch-compile/pytest-torch-compile/blob/main/"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def comparable(output: str) -> list[str]:
    """The lines of the failure without what depends on the machine and the version of torch."""
    lines = [line for line in output.splitlines() if line.startswith("E  ") and line[1:].strip()]
    return [re.sub(r"torch \d[^,]*,|\d+\.\d s|torch says: .*", "...", line) for line in lines]


def test_first_example_fails_with_the_text_that_is_shown(pytester: pytest.Pytester) -> None:
    pytester.mkdir("tests").joinpath("test_encoder.py").write_text(blocks("python")[0], encoding="utf-8")
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(failed=1)
    assert comparable(result.stdout.str()) == comparable(blocks("text")[0])


@pytest.mark.parametrize("block", blocks("python"))
def test_every_example_is_valid_python(block: str) -> None:
    compile(block, "README.md", "exec")


def test_links_work_on_the_page_of_a_package_index_too() -> None:
    """A relative link is dead there. Those to the site and to the repository lead to files that exist here."""
    links = re.findall(r"\]\(([^)]+)\)", README.read_text(encoding="utf-8"))
    assert links
    assert [link for link in links if not link.startswith((SITE, FILES))] == []
    assert [link for link in links if not any(file.exists() for file in files_of(link))] == []


def test_every_extra_for_users_is_in_the_table() -> None:
    metadata = (README.parent / "pyproject.toml").read_text(encoding="utf-8")
    extras = metadata.partition("[project.optional-dependencies]")[2].partition("\n[")[0]
    names = set(re.findall(r"^(\w+) = ", extras, re.M)) - {"dev", "docs", "suites"}
    assert [name for name in sorted(names) if f"`pytest-torch-compile[{name}]`" not in README.read_text("utf-8")] == []


def files_of(link: str) -> list[Path]:
    if link.startswith(FILES):
        return [README.parent / link.removeprefix(FILES)]
    page = link.removeprefix(SITE).strip("/")
    return [README.parent / "docs" / f"{page}.md", README.parent / "docs" / page / "index.md"]
