"""A check puts back the profiler that it found."""

from __future__ import annotations

import cProfile
import sys

import pytest

torch = pytest.importorskip("torch")

from pytest_torch_compile import check_compile  # noqa: E402
from pytest_torch_compile._torch.profile_function import profile_function  # noqa: E402
from pytest_torch_compile.findings import CompileUsageError  # noqa: E402


def doubled(x):
    return x * 2


def test_check_runs_under_cprofile_and_leaves_it_on():
    profile = cProfile.Profile()
    profile.enable()
    try:
        check_compile(doubled, torch.ones(2), backend="aot_eager")
        doubled(torch.ones(2))
    finally:
        profile.disable()
    assert "doubled" in {entry.code.co_name for entry in profile.getstats() if hasattr(entry.code, "co_name")}


def test_profiler_that_cannot_be_put_back_is_named(monkeypatch):
    monkeypatch.setattr(sys, "getprofile", lambda: 3)
    with pytest.raises(CompileUsageError, match="the profiler int cannot be paused"), profile_function(print):
        pass
