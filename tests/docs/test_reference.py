"""The reference has every public name, fixture, marker and option, and no parameter goes undescribed."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

pytest.importorskip("yaml", reason="docs/generate.py reads YAML")

import pytest_torch_compile
from pytest_torch_compile.plugin import fixtures as fixtures_module
from tests.docs.generated import generate

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
PAGES = {page.name: generate.rendered_by_mkdocstrings(page.read_text("utf-8")) for page in REFERENCE.glob("*.md")}
# One parameter and what is said of it, as the Google style of docstrings has it.
PARAMETER = re.compile(r"^ {4,12}\*{0,2}(\w+): \S", re.M)


def documented() -> set[str]:
    """What mkdocstrings renders: ``::: path``."""
    return {name for page in PAGES.values() for name in re.findall(r"^::: ([\w.]+)$", page, re.M)}


@pytest.mark.parametrize("name", pytest_torch_compile.__all__)
def test_every_public_name_has_its_entry(name):
    assert f"pytest_torch_compile.{name}" in documented()
    assert f"`{name}`" in PAGES["index.md"]


def test_every_fixture_is_on_the_page():
    fixtures = [name for name in vars(fixtures_module) if name.startswith("compile_")]
    assert len(fixtures) == 5
    assert [name for name in fixtures if f"`{name}`" not in PAGES["pytest.md"]] == []


def test_every_marker_is_on_the_page(pytestconfig):
    names = [line.partition("(")[0] for line in pytestconfig.getini("markers") if "compile" in line.partition(":")[0]]
    assert sorted(names) == ["compile_known_failure", "torch_compile"]
    assert [name for name in names if f"`{name}(" not in PAGES["pytest.md"]] == []


def test_every_option_and_its_ini_twin_are_on_the_page(pytestconfig):
    options = [option for option in options_of(pytestconfig) if option.startswith("--compile-")]
    assert len(options) >= 11
    missing = [option for option in options if f"`{option}`" not in PAGES["pytest.md"]]
    missing += [o for o in options if f"`{o[2:].replace('-', '_')}`" not in PAGES["pytest.md"]]
    assert missing == []


def options_of(config: pytest.Config) -> list[str]:
    return [name for option in config._parser._anonymous.options for name in option.names()] + [
        name for group in config._parser._groups for option in group.options for name in option.names()
    ]


def test_every_option_of_a_speed_test_is_on_the_page():
    torch = pytest.importorskip("torch")
    from pytest_torch_compile.plugin.benchmark import CompileBenchmark
    from pytest_torch_compile.speed.measuring.bench import BENCH_OPTIONS

    assert torch
    own = [inspect.signature(CompileBenchmark.__call__), inspect.signature(pytest_torch_compile.measure_compile)]
    keywords = {p.name for signature in own for p in signature.parameters.values() if p.kind is p.KEYWORD_ONLY}
    assert [name for name in sorted(BENCH_OPTIONS | keywords) if f"`{name}`" not in PAGES["speed.md"]] == []


def test_each_parameter_of_check_compile_has_a_line_of_its_own():
    pytest.importorskip("torch")
    function = pytest_torch_compile.check_compile
    described = PARAMETER.findall(inspect.getdoc(function).partition("Args:")[2].partition("Returns:")[0])
    assert [name for name in inspect.signature(function).parameters if name not in described] == []
