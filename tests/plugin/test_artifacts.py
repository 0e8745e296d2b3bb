"""Whole runs that keep a compile cache: the second starts warm, with what the workers of the first compiled."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("fsspec")

from pytest_torch_compile._torch import cache_artifacts as cache  # noqa: E402
from tests.plugin.projects import other_process  # noqa: E402

# Products only, for which Inductor generates no C++ code, whose compilation takes longer.
SUITE = """
import pytest, torch

@pytest.mark.parametrize("number", [1, 2])
def test_target(compile_check, number):
    compile_check(lambda x: torch.linalg.multi_dot([x] * (number + 1)), torch.randn(8, 8), warm={warm})
"""


@pytest.mark.skipif(bool(cache.unavailable()), reason=cache.unavailable() or "available")
def test_artifacts_of_two_workers_make_the_next_run_warm(pytester):
    url = f"file://{pytester.path}/stored"
    pytester.makepyfile(test_it=SUITE.format(warm=False))
    cold = other_process(pytester.path, f"--compile-cache={url}", "-n", "2", "-q").stdout
    assert "2 passed" in cold
    assert "starts with an empty cache" in cold
    pytester.makepyfile(test_it=SUITE.format(warm=True))
    warm = other_process(pytester.path, f"--compile-cache={url}", "-q").stdout
    assert "2 passed" in warm
    assert "artifacts loaded" in warm


@pytest.mark.slow
def test_folder_of_two_workers_makes_the_next_run_warm(pytester):
    pytester.makepyfile(test_it=SUITE.format(warm=False))
    assert "2 passed" in other_process(pytester.path, "--compile-cache=kept", "-n", "2", "-q").stdout
    pytester.makepyfile(test_it=SUITE.format(warm=True))
    assert "2 passed" in other_process(pytester.path, "--compile-cache=kept", "-q").stdout


def test_url_without_a_file_system_is_a_usage_error(pytester):
    result = other_process(pytester.path, "--compile-cache=nowhere://bucket")
    assert result.returncode == pytest.ExitCode.USAGE_ERROR
    assert "--compile-cache=nowhere://bucket: " in result.stderr
