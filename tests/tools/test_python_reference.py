"""The Python reference of the repository: what mkdocstrings shows on the site, as Markdown."""

from __future__ import annotations

import pytest

pytest.importorskip("griffe", reason="the reference is read from the source with griffe")

from tools import python_reference


def test_arguments_are_a_table_with_their_defaults():
    text = python_reference.described("pytest_torch_compile.check_compile")
    assert text.startswith("## check_compile\n")
    assert "| argument | default | meaning |" in text
    assert "\n| `steps` | `1` | " in text
    assert "- `CompileCheckFailed`: " in text


def test_a_class_has_its_methods_and_a_module_its_members():
    assert "\n### run\n" in python_reference.described("pytest_torch_compile.RankGroup")
    text = python_reference.described("pytest_torch_compile.observation", ("Graph", "GraphBreak"))
    assert [line for line in text.splitlines() if line.startswith("## ")] == ["## Graph", "## GraphBreak"]


def test_a_name_that_does_not_exist_is_an_error():
    with pytest.raises(KeyError):
        python_reference.described("pytest_torch_compile.check_nothing")
