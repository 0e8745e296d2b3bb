"""The README's example fails as the README says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"


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


def test_every_extra_for_users_is_in_the_table() -> None:
    metadata = (README.parent / "pyproject.toml").read_text(encoding="utf-8")
    extras = metadata.partition("[project.optional-dependencies]")[2].partition("\n[")[0]
    names = set(re.findall(r"^(\w+) = ", extras, re.M)) - {"dev", "docs", "suites"}
    assert [name for name in sorted(names) if f"| `{name}` |" not in README.read_text("utf-8")] == []
