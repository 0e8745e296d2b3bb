"""Small projects that use the plugin, and pytest run in them."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

from pytest_torch_compile import settings

SOURCES = str(Path(settings.__file__).parents[1])
INSTALLED = any(entry.name == "torch_compile" for entry in metadata.entry_points(group="pytest11"))
# Few tests are about the diagnosis, which takes long.
WITHOUT_DIAGNOSIS = {"PYTEST_ADDOPTS": "--compile-diagnose=off"}
OPTIONS = ["-p", "no:cacheprovider", *([] if INSTALLED else ["-p", "pytest_torch_compile.plugin"])]

HEAD = """
import pytest, torch

def breaking(x):
    x = x.sin()
    torch._dynamo.graph_break()
    return x.cos()

def changing(x, n):
    return x * n
"""


def other_process(folder, *options, environment=()):
    """Run the tests of a folder in a process of their own, which is no worker of pytest-xdist."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST_")}
    return subprocess.run(
        [sys.executable, "-m", "pytest", *OPTIONS, *options],
        cwd=folder,
        env={**inherited, **WITHOUT_DIAGNOSIS, "PYTHONPATH": SOURCES, "OMP_NUM_THREADS": "1", **dict(environment)},
        capture_output=True,
        text=True,
        check=False,
    )


def lines_with(result, text):
    return [line for line in result.outlines if text in line]


# Fixtures in which a check fails, during the setup or the teardown of a test.
FIXTURES_THAT_CHECK = """
from pytest_torch_compile import check_compile, compile_guard

@pytest.fixture
def guarded():
    with compile_guard(max_graph_breaks=0):
        yield torch.compile(breaking, backend="eager")

@pytest.fixture
def before():
    check_compile(breaking, torch.ones(4))

@pytest.fixture
def after():
    yield
    check_compile(breaking, torch.ones(4))
"""
