"""What tests share within a process, and processes of their own."""

from __future__ import annotations

import os
import xml.etree.ElementTree as ElementTree

import pytest

torch = pytest.importorskip("torch")

from tests.plugin.projects import HEAD, other_process  # noqa: E402


def test_dynamo_is_reset_between_tests_that_use_the_plugin_and_only_those(project):
    result = project(
        """
compiled_graphs = []

def backend(gm, example_inputs):
    compiled_graphs.append(gm)
    return gm.forward

compiled = torch.compile(lambda x: x.sin(), backend=backend)

def test_a_plain():
    compiled(torch.ones(2))
    assert len(compiled_graphs) == 1

def test_b_plain_keeps_what_was_compiled():
    compiled(torch.ones(2))
    assert len(compiled_graphs) == 1

def test_c_check_starts_with_nothing(compile_options):
    compiled(torch.ones(2))
    assert len(compiled_graphs) == 2

@pytest.mark.torch_compile
def test_d_marker_counts_as_use():
    compiled(torch.ones(2))
    assert len(compiled_graphs) == 3

def test_e_plain_after_a_check_starts_with_nothing():
    compiled(torch.ones(2))
    assert len(compiled_graphs) == 4
"""
    )
    result.assert_outcomes(passed=5)


def test_isolated_test_runs_in_a_process_of_its_own(project):
    source = """
import os
PARENT = {parent}

def test_elsewhere(compile_check):
    assert os.getpid() != PARENT
    compile_check(breaking, torch.ones(4))

def test_here():
    assert os.getpid() == PARENT
"""
    result = project(source.replace("{parent}", str(os.getpid())), "--compile-isolate")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["E *1. graph-break: *", "*[[]breaking[]]*graph-break"])


def test_isolated_process_that_dies_is_a_failed_test(project):
    result = project("import os\ndef test_dies(compile_options):\n    os._exit(7)\n", "--compile-isolate")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*the process running *::test_dies exited with status 7 without a report*"])


def test_workers_have_a_cache_folder_each_and_send_their_rows(tmp_path):
    pytest.importorskip("xdist", reason="pytest-xdist is part of the dev extra")
    (tmp_path / "pytest.ini").write_text("[pytest]\ncompile_backend = eager\n")
    (tmp_path / "test_workers.py").write_text(
        HEAD
        + """
import os

@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_good(compile_check, n):
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"].endswith("cache")
    compile_check(changing, torch.ones(2), n)

def test_bad(compile_check):
    compile_check(breaking, torch.ones(4))
"""
    )
    result = other_process(tmp_path, "-n", "2", "--compile-cache=cache", "--junitxml=junit.xml")
    assert "1 failed, 4 passed" in result.stdout, result.stdout + result.stderr
    assert sum("[changing]" in line for line in result.stdout.splitlines()) == 4
    assert (tmp_path / "cache").is_dir()
    (suite,) = ElementTree.parse(tmp_path / "junit.xml").iter("testsuite")
    assert (suite.get("failures"), suite.get("errors")) == ("1", "0")


@pytest.mark.usefixtures("new_interpreters")
def test_unused_plugin_imports_no_torch_and_says_nothing(tmp_path):
    (tmp_path / "test_a.py").write_text("import sys\ndef test_a():\n    assert 'torch' not in sys.modules\n")
    result = other_process(tmp_path, "-q")
    assert result.returncode == 0, result.stdout
    assert "compile" not in result.stdout
    assert result.stderr == ""


@pytest.mark.usefixtures("new_interpreters")
def test_unused_plugin_imports_no_torch_to_collect(tmp_path):
    (tmp_path / "test_a.py").write_text("def test_a():\n    pass\n")
    (tmp_path / "conftest.py").write_text(
        "import sys\ndef pytest_collection_finish(session):\n    assert 'torch' not in sys.modules\n"
    )
    result = other_process(tmp_path, "--collect-only", "-q")
    assert result.returncode == 0, result.stdout + result.stderr
