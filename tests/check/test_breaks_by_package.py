"""Whose break is it: limits by the package that has the line which breaks, in each entry point and in the report."""

from __future__ import annotations

import importlib
import sys

import pytest

torch = pytest.importorskip("torch")

from pytest_torch_compile import (  # noqa: E402
    CompileCheckFailed,
    CompileSuite,
    check_compile,
    compile_guard,
)

X = torch.ones(3)
LIBRARY = """
import torch


def noisy(x):
    print("library")
    return x + 1


def split(x):
    torch._dynamo.graph_break()
    return x * 2
"""
MINE = """
import noisylib
import torch


def quiet(x):
    return noisylib.noisy(x.sin()).cos()


def twice(x):
    return noisylib.split(noisylib.noisy(x.sin())).cos()


def loud(x):
    x = noisylib.noisy(x.sin())
    print("mine")
    return x.cos()
"""


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """A package in a source folder, which calls an installed one."""
    for folder, name, source in (
        ("site-packages", "noisylib", LIBRARY),
        ("src", "mypackage", ""),
        ("src", "mypackage.layers", MINE),
    ):
        place = tmp_path / folder / name.replace(".", "/")
        place.mkdir(parents=True)
        (place / "__init__.py").write_text(source)
        monkeypatch.syspath_prepend(tmp_path / folder)
    yield importlib.import_module("mypackage.layers")
    for name in [name for name in sys.modules if name.split(".")[0] in ("mypackage", "noisylib")]:
        del sys.modules[name]


def test_break_of_a_library_is_allowed_and_none_in_the_package(mine):
    limit = {"mypackage": 0, "*": 3}
    report = check_compile(mine.quiet, X, backend="eager", max_graph_breaks=limit)
    assert [(found.module, found.package, found.installed) for found in report.graph_breaks] == [
        ("noisylib", "noisylib", True)
    ]
    assert report.checked_mode == "default"
    assert report.budget["max_graph_breaks"] == limit
    assert "1 graph break (1 in noisylib)" in report.text


def test_break_of_the_package_is_found_and_told_apart(mine):
    with pytest.raises(CompileCheckFailed) as failure:
        check_compile(mine.loud, X, backend="eager", max_graph_breaks={"mypackage": 0, "*": 3})
    (finding,) = failure.value.findings
    assert finding.message == "graph break 1 of 1 in mypackage, 0 allowed: call to print or a logger"
    assert (finding.measured, finding.limit) == (1, 0)
    assert "2 graph breaks (1 in noisylib, 1 in mypackage)" in str(failure.value)


def test_too_many_breaks_of_others_are_found_too(mine):
    with pytest.raises(CompileCheckFailed) as failure:
        check_compile(mine.twice, X, backend="eager", max_graph_breaks={"mypackage": 0, "*": 1})
    messages = [finding.message for finding in failure.value.findings]
    assert [message.split(":")[0] for message in messages] == [
        "graph break 1 of 2 in other code, 1 allowed",
        "graph break 2 of 2 in other code, 1 allowed",
    ]


def test_guard_and_suite_count_by_package(mine):
    limit = {"mypackage": 0, "*": 3}
    with compile_guard(max_graph_breaks=limit):
        torch.compile(mine.quiet, backend="eager")(X)
    with pytest.raises(CompileCheckFailed, match="1 of 1 in mypackage"), compile_guard(max_graph_breaks=limit):
        torch.compile(mine.loud, backend="eager")(X)

    class Suite(CompileSuite):
        options = {"backend": "eager", "max_graph_breaks": limit}
        shapes = ((3,),)

        def make_model(self):
            return mine.loud

        def make_inputs(self, shape):
            return torch.ones(shape)

    with pytest.raises(CompileCheckFailed, match="1 of 1 in mypackage"):
        Suite().test_compile_inference()


def test_budget_of_zero_for_all_is_checked_under_fullgraph(mine):
    report = check_compile(lambda x: x.sin(), X, backend="eager", max_graph_breaks={"mypackage": 0, "*": 0})
    assert report.checked_mode == "fullgraph"
    with pytest.raises(CompileCheckFailed, match="graph break 1 of 1 in other code, 0 allowed"):
        check_compile(mine.quiet, X, backend="eager", max_graph_breaks={"mypackage": 0, "*": 0})


def test_break_of_an_installed_package_says_whose_line_it_is(mine):
    with pytest.raises(CompileCheckFailed) as failure:
        check_compile(mine.twice, X, backend="eager")
    hint = failure.value.findings[-1].hint
    assert hint.startswith("this line belongs to noisylib; move the call that leads to this line out of the compiled")
    assert "max_graph_breaks={'noisylib': 2, '*': 0}" in hint  # as many as there are
    check_compile(mine.twice, X, backend="eager", max_graph_breaks={"noisylib": 2, "*": 0})
    assert hint.endswith("To fix noisylib itself: remove the graph_break() call")


def test_break_in_the_users_own_line_says_nothing_of_packages(mine):
    with pytest.raises(CompileCheckFailed) as failure:
        check_compile(mine.loud, X, backend="eager", max_graph_breaks={"mypackage": 0, "*": 3})
    assert failure.value.findings[0].hint.startswith("remove the call")
