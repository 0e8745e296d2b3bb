"""Options and their ini twins."""

from __future__ import annotations

import os

import pytest

torch = pytest.importorskip("torch")

from pytest_torch_compile import settings  # noqa: E402


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_backend_option_reaches_the_check(project, backend):
    source = "def test_a(compile_check, request):\n    from pytest_torch_compile import settings\n"
    source += f"    assert settings.current.backend == {backend!r}\n"
    if backend != "inductor":
        source += f"    assert compile_check(changing, torch.ones(2), 2).backend == {backend!r}\n"
    result = project(source, f"--compile-backend={backend}")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines([f"torch.compile: *backend {backend},*"])


def test_unknown_backend_is_refused(project):
    result = project(
        "def test_a(compile_check):\n    compile_check(changing, torch.ones(2), 2)\n", "--compile-backend=fast"
    )
    result.stdout.fnmatch_lines(["E *CompileUsageError: backend 'fast' is unknown to torch*"])


def test_device_option_moves_target_and_inputs(project):
    result = project(
        "def test_a(compile_check, compile_device):\n"
        "    assert compile_device.type == 'cpu'\n"
        "    assert compile_check(torch.nn.Linear(2, 2), torch.ones(2, 2)).device == 'cpu'\n",
        "--compile-device=cpu",
    )
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["torch.compile: *device cpu,*"])


def test_device_that_is_not_there_is_named(project):
    source = "def test_a(compile_check):\n    compile_check(changing, torch.ones(2), 2)\n"
    project(source, "--compile-device=cuda:99").stdout.fnmatch_lines(
        ["E *CompileUsageError: device 'cuda:99' is not available*"]
    )


def test_every_option_has_an_ini_twin(project):
    project.tester.makeini(
        "[pytest]\ncompile_backend = aot_eager\ncompile_device = cpu\ncompile_cache = fresh\ncompile_isolate = false\n"
    )
    result = project(
        "def test_a(compile_check):\n    assert compile_check(changing, torch.ones(2), 2).backend == 'aot_eager'\n"
    )
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["torch.compile: *device cpu, backend aot_eager, cache fresh"])


def test_command_line_wins_over_the_ini_file(project):
    result = project("def test_a(compile_check):\n    pass\n", "--compile-backend=aot_eager")
    result.stdout.fnmatch_lines(["torch.compile: *backend aot_eager,*"])


@pytest.mark.parametrize("key", ["compile_bakend", "compile-backend", "compile_cach"])
def test_typo_in_the_ini_file_is_refused(project, key):
    project.tester.makeini(f"[pytest]\n{key} = eager\n")
    result = project("def test_a():\n    pass\n")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*unknown ini option '{key}': did you mean 'compile_*'?"])


def test_typo_in_pyproject_is_refused(project):
    (project.tester.path / "tox.ini").unlink()
    project.tester.makepyprojecttoml('[tool.pytest.ini_options]\ncompile_bakend = "eager"\n')
    result = project("def test_a():\n    pass\n")
    result.stderr.fnmatch_lines(["*unknown ini option 'compile_bakend': did you mean 'compile_backend'?"])


@pytest.mark.parametrize(("choice", "same"), [("fresh", False), ("session", True), ("kept", True)])
def test_cache_option_chooses_the_folder_and_the_environment_is_put_back(project, monkeypatch, choice, same):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/of/the/user")
    result = project(
        f"""
import os
seen = []

def folder():
    return os.environ["TORCHINDUCTOR_CACHE_DIR"]

def test_a(compile_options):
    seen.append(folder())

def test_b(compile_options):
    assert (folder() == seen[0]) is {same}
    assert os.path.isdir(folder())
    assert folder().endswith("kept") is {choice == "kept"}
""",
        f"--compile-cache={choice}",
    )
    result.assert_outcomes(passed=2)
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == "/of/the/user"
    assert (project.tester.path / "kept").is_dir() is (choice == "kept")


@pytest.mark.parametrize("off", ["-p no:terminal", "--no-summary"])
@pytest.mark.parametrize("option", ["--compile-accept", "--compile-update-baselines", "--compile-write-tests=written"])
def test_option_that_writes_is_refused_if_nothing_would_be_written(project, option, off):
    existing = ["--compile-existing=json"] if "write-tests" in option else []
    result = project("def test_a():\n    pass\n", option, *existing, *off.split())
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    message = f"ERROR: {option.split('=')[0]} writes when pytest shows its summary: remove {off}"
    assert message in result.errlines + result.outlines


def test_settings_of_the_session_around_come_back(pytester, monkeypatch):
    outer = settings.current
    pytester.makepyfile("def test_a():\n    pass\n")
    pytester.runpytest_inprocess("--compile-backend=eager", "--compile-diagnose=full").assert_outcomes(passed=1)
    assert settings.current is outer
    pytester.runpytest_inprocess("--compile-backend=eager", "--compile-perf=never")
    assert settings.current is outer
