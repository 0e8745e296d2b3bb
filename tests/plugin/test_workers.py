"""Workers of pytest-xdist share a GPU: each registers for it, and a speed test reserves memory. nvidia-smi is made up."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from pytest_torch_compile.baselines import files as baselines
from pytest_torch_compile.baselines import structure
from pytest_torch_compile.speed import fresh_process
from pytest_torch_compile.speed.measuring.turns import needed_by_test
from tests.plugin.projects import other_process

pytest.importorskip("xdist")
pytest.importorskip("pytest_benchmark")
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a process cannot be paused on Windows")

NVIDIA_SMI = """#!/bin/sh
case "$*" in
*index,uuid*) echo "0, GPU-1";;
*memory.total*) echo "GPU-1, 40000";;
esac
"""
# Each test writes what its process has told the other processes, and what the compilers will be told.
TESTS = """
import json, os, tempfile
from pathlib import Path

def note(name):
    files = Path(tempfile.gettempdir()).glob(f"*-on-GPU-1-*-{os.getpid()}")
    state = [file.read_text() for file in files]
    seen = {"state": state, "threads": os.environ.get("TORCHINDUCTOR_COMPILE_THREADS")}
    Path(name).write_text(json.dumps(seen))

def test_known(compile_benchmark):
    note("known")

def test_without_memory(compile_benchmark):
    note("without_memory")

def test_unknown(compile_benchmark):
    note("unknown")

def test_other():
    note("other")
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("TORCHINDUCTOR_COMPILE_THREADS", raising=False)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "nvidia-smi").write_text(NVIDIA_SMI)
    (tmp_path / "bin" / "nvidia-smi").chmod(0o755)
    (tmp_path / "tmp").mkdir()
    (tmp_path / "test_it.py").write_text(TESTS)
    counts = {
        "test_it.py::test_known": {"memory": [3 * 10**8, 10**9]},
        "test_it.py::test_without_memory": {"kernels": [3]},
        "test_large.py::test_large": {"memory": [10**12]},
    }
    stored = {test: structure.entry(test, [], counted) for test, counted in counts.items()}
    baselines.update(tmp_path / "baselines", "GPU_torch-1.0", lambda old: stored, "structure")
    return tmp_path


def run(project: Path, **environment: str) -> dict[str, tuple[list[str], str | None]]:
    """Run the tests on two workers; return the state and the number of threads that each test saw."""
    path = f"{project / 'bin'}:/usr/bin:/bin"
    variables = {"TMPDIR": str(project / "tmp"), "PATH": path, "CUDA_VISIBLE_DEVICES": "0", **environment}
    done = other_process(project, "-n", "2", "--compile-perf=track", "-q", environment=variables.items())
    assert "4 passed" in done.stdout, done.stdout + done.stderr
    seen = {name: json.loads((project / name).read_text()) for name in ("known", "without_memory", "unknown", "other")}
    return {name: (one["state"], one["threads"]) for name, one in seen.items()}


def test_a_speed_test_reserves_what_it_needs_and_a_new_one_reserves_the_whole_gpu(project: Path) -> None:
    seen = run(project)
    usable = round(40_000 * 2**20 * 0.9)
    assert {name: state for name, (state, _) in seen.items()} == {
        "known": [f"2 {needed_by_test(10**9)}"],
        "without_memory": [f"2 {needed_by_test(10**9)}"],
        "unknown": [f"2 {usable}"],
        "other": ["2 0"],
    }
    assert {threads for _, threads in seen.values()} == {"1"}
    assert not list((project / "tmp").glob("*-on-GPU-1-*")), "the files are removed"


@pytest.mark.slow
def test_a_comparison_says_what_the_tests_need(project: Path) -> None:
    memory = json.dumps({"test_it.py::test_unknown": 123})
    seen = run(project, **{fresh_process.MEMORY: memory, "TORCHINDUCTOR_COMPILE_THREADS": "4"})
    assert seen["unknown"] == (["2 123"], "4"), "the user's number of threads stays"


@pytest.mark.slow
def test_without_a_gpu_nothing_is_registered(project: Path) -> None:
    (project / "bin" / "nvidia-smi").unlink()
    assert run(project) == {name: ([], None) for name in ("known", "without_memory", "unknown", "other")}
