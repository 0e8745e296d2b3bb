"""A machine at its end is named as the cause: no memory, a compile cache that cannot be written, a leaked default."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from pytest_torch_compile import CompileCheckFailed, CompileUsageError, check_compile, compile_guard  # noqa: E402
from pytest_torch_compile._torch import canary  # noqa: E402
from pytest_torch_compile._torch.machine_faults import machine_fault  # noqa: E402
from pytest_torch_compile.cache.folder import CacheFolder  # noqa: E402
from pytest_torch_compile.legs.holders import Memory  # noqa: E402

X = torch.ones(4)
FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def sine(x):
    return x.sin()


def backend_raising(error):
    def backend(graph, inputs):
        raise error

    return backend


def test_eager_without_memory_is_no_error_of_the_target():
    def target(x):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")

    with pytest.raises(
        CompileUsageError, match=r"call 1, eager: out of memory .*2\.00 GiB.*needs memory for the eager run"
    ):
        check_compile(target, X, backend="eager")


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        MemoryError(),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"),
    ],
    ids=["cuda", "python", "cpu"],
)
@pytest.mark.parametrize("swallowed_by_dynamo", [True, False])
def test_compiled_without_memory_is_no_error_of_inductor(error, swallowed_by_dynamo):
    def at_run_time(graph, inputs):
        def run(*args):
            raise error

        return run

    backend = backend_raising(error) if swallowed_by_dynamo else at_run_time
    with pytest.raises(CompileUsageError, match=r"call 1, compiled: out of memory"):
        check_compile(sine, X, backend=backend)


def test_real_allocation_that_fails_is_named():
    with pytest.raises(CompileUsageError, match=r"call 1, eager: out of memory \(RuntimeError: "):
        check_compile(lambda x: x + torch.empty(2**60, dtype=torch.uint8), X, backend="eager")


def test_snapshots_that_do_not_fit_are_named(monkeypatch):
    def out_of_memory(memory):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(Memory, "read", out_of_memory)
    with pytest.raises(CompileUsageError, match="could not run: out of memory"):
        check_compile(torch.nn.Linear(2, 2), torch.ones(1, 2), backend="eager")


@pytest.mark.parametrize(
    "error",
    [
        FULL,
        OSError(errno.EROFS, os.strerror(errno.EROFS), "{cache}/abc/main.cpp"),
        PermissionError(errno.EACCES, os.strerror(errno.EACCES), "{cache}/abc"),
        RuntimeError("compiling in a subprocess failed\n  OSError: [Errno 28] No space left on device"),
        OSError(errno.EFBIG, os.strerror(errno.EFBIG)),
        RuntimeError("g++: internal compiler error: File size limit exceeded signal terminated program cc1plus"),
    ],
    ids=["full", "read-only", "denied", "subprocess", "too large", "too large for the compiler"],
)
def test_cache_that_cannot_be_written_is_no_error_of_inductor(error, monkeypatch, tmp_path):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    if getattr(error, "filename", None):
        error.filename = error.filename.format(cache=tmp_path)
    expected = f"the compile cache {tmp_path} cannot be written .*(No space|Read-only|denied|too large|size limit).*--compile-cache"
    with pytest.raises(CompileUsageError, match=expected) as failed:
        check_compile(sine, X, backend=backend_raising(error))
    limited = "too large" in str(error) or "size limit" in str(error)
    assert ("ulimit -f" in str(failed.value)) is limited


def last_line_of_a_check(before="", **environment):
    """The last line that a process of its own prints where a check raises."""
    module = __name__.rpartition(".")[2]
    source = f"from {module} import sine, X\nfrom pytest_torch_compile import check_compile\n{before}\ncheck_compile(sine, X)\n"
    paths = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-c", source],
        env={**os.environ, "PYTHONPATH": paths, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stderr.strip().splitlines()[-1]


@pytest.mark.slow
def test_limit_of_the_size_of_files_is_named(tmp_path):
    resource = pytest.importorskip("resource")
    limit = (4096, resource.getrlimit(resource.RLIMIT_FSIZE)[1])
    before = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, {limit})"
    # Otherwise, Python writes the bytecode of modules that were never imported before only up to the limit, and every
    # later process of this environment fails to read it.
    without_bytecode = {"PYTHONDONTWRITEBYTECODE": "1"}
    last = last_line_of_a_check(before, TORCHINDUCTOR_CACHE_DIR=str(tmp_path), **without_bytecode)
    assert f"CompileUsageError: call 1, compiled: the compile cache {tmp_path} cannot be written" in last
    assert "ulimit -f" in last


def test_full_disk_stops_inductor_with_that_reason(tmp_path):
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", tmp_path], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("mounting a small disk needs root")
    try:
        last = last_line_of_a_check(TORCHINDUCTOR_CACHE_DIR=str(tmp_path))
    finally:
        subprocess.run(["umount", tmp_path], check=True)
    assert "CompileUsageError" in last and f"the compile cache {tmp_path} cannot be written" in last


class CppCompileError(RuntimeError):
    """As torch raises it."""

    def __init__(self, output):
        super().__init__(f"C++ compile error\n\nCommand:\ng++ main.cpp -std=c++20 -lgomp\n\nOutput:\n{output}")


@pytest.mark.parametrize(
    ("output", "what_to_do"),
    [
        ("g++: fatal error: Killed signal terminated program cc1plus\ncompilation terminated.", "ran out of memory"),
        ("main.cpp:3:10: fatal error: Python.h: No such file or directory\n    3 | #include", "Python's headers"),
        ("main.cpp:3:10: fatal error: 'Python.h' file not found", "Python's headers"),
        ("main.cpp:1:10: fatal error: omp.h: No such file or directory", "Install the missing file"),
        ("/usr/bin/ld: cannot find -lgomp: No such file or directory", "Install the compiler's OpenMP library"),
        ("gcc: fatal error: cannot execute 'cc1plus': execvp: No such file", "Install the compiler's C++ support"),
        ("g++: error: unrecognized command-line option '-std=c++20'; did you mean", "too old for this torch version"),
    ],
)
def test_compiler_of_the_machine_that_fails_is_no_error_of_inductor(output, what_to_do):
    with pytest.raises(CompileUsageError, match=r"call 1, compiled: the C\+\+ compiler on this machine") as failed:
        check_compile(sine, X, backend=backend_raising(CppCompileError(output)))
    assert output.splitlines()[0] in str(failed.value) and what_to_do in str(failed.value)


@pytest.mark.parametrize(
    "output",
    [
        "main.cpp:7:12: error: 'tmp3' was not declared in this scope",
        "/usr/bin/ld: cannot find -lof_the_users_options: No such file or directory",
        "main.cpp:7:12: error: no matching function for call to 'max'\nmain.cpp:2: note: out of memory is no issue",
    ],
)
def test_code_that_does_not_compile_is_an_error_of_inductor(output):
    with pytest.raises(CompileCheckFailed) as failed:
        check_compile(sine, X, backend=backend_raising(CppCompileError(output)))
    assert [finding.kind for finding in failed.value.findings] == ["compile-error"]


def test_real_compiler_without_the_headers_of_python_is_named(tmp_path):
    """A compiler that ends as one does where they are not installed."""
    compiler = tmp_path / "g++"
    compiler.write_text(
        '#!/bin/sh\ncase "$*" in *--version*) exec g++ "$@";; esac\n'
        'echo "main.cpp:3:10: fatal error: Python.h: No such file or directory" >&2\nexit 1\n',
        encoding="utf-8",
    )
    compiler.chmod(0o755)
    last = last_line_of_a_check(CXX=str(compiler), TORCHINDUCTOR_CACHE_DIR=str(tmp_path / "cache"))
    assert "CompileUsageError: call 1, compiled: the C++ compiler on this machine failed" in last
    assert "Python.h: No such file or directory). Install Python's headers" in last


def test_file_errors_of_the_target_are_its_own(tmp_path):
    def target(x):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(tmp_path / "weights.pt"))

    with pytest.raises(
        CompileUsageError, match=r"raises an exception in eager, before torch.compile is involved: PermissionError"
    ):
        check_compile(target, X, backend="eager")
    with pytest.raises(CompileCheckFailed, match=r"weights\.pt"):
        check_compile(sine, X, backend=backend_raising(FileNotFoundError(errno.ENOENT, "no such file", "/weights.pt")))


def test_error_with_similar_words_is_no_fault_of_the_machine():
    assert not machine_fault(RuntimeError("memory format channels_last is not supported"), compiling=True)
    assert not machine_fault(FULL, compiling=False)
    assert not machine_fault(RuntimeError("File too large: split the model"), compiling=True)


def test_fault_while_the_observer_is_tried_out_is_no_fault_of_torch(monkeypatch):
    def fails(backend_calls):
        raise FULL

    monkeypatch.setattr(canary, "_not_shown", None)
    monkeypatch.setattr(canary, "_compile_planted", fails)
    with pytest.raises(CompileUsageError, match="cannot be written"):
        check_compile(sine, X, backend="eager")
    with pytest.raises(CompileUsageError, match="cannot be written"):
        with compile_guard():
            pass


def test_cache_folder_in_the_way_of_a_file_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(CompileUsageError, match="file/cache cannot be created: Not a directory"):
        CacheFolder("file/cache", tmp_path).enter_test()


def test_cache_folder_that_is_read_only_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write anywhere
    with pytest.raises(CompileUsageError, match="kept is not writable: choose another folder"):
        CacheFolder("kept", tmp_path).enter_test()


@pytest.mark.parametrize(
    ("set_default", "value", "target", "named"),
    [
        (torch.set_default_device, "meta", lambda x: x + torch.ones(4) @ x, "set_default_device is 'meta'"),
        (torch.set_default_dtype, torch.float64, lambda x: torch.ones(4) @ x, "set_default_dtype is torch.float64"),
    ],
    ids=["device", "dtype"],
)
def test_leaked_default_is_named_with_the_test_that_left_it(set_default, value, target, named, monkeypatch):
    from pytest_torch_compile._torch import deviations

    before = torch.get_default_dtype()
    monkeypatch.setattr(deviations, "_left_by", {})
    set_default(value)
    try:
        deviations.note_left_by("tests/test_other.py::test_leaky")
        with pytest.raises(
            CompileUsageError, match=f"likely cause: torch.{named}.*left by tests/test_other.py::test_leaky"
        ):
            check_compile(target, X, backend="eager")
        with pytest.raises(CompileUsageError, match="KeyError") as other:
            check_compile(lambda x: {}["missing"], X, backend="eager")
        assert "likely cause" not in str(other.value)
    finally:
        torch.set_default_device(None)
        torch.set_default_dtype(before)
