"""Inductor's option ``deterministic`` stays as the user has set it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

from torch._inductor import config  # noqa: E402

from pytest_torch_compile import check_compile  # noqa: E402
from pytest_torch_compile._torch.deterministic import deterministic, set_deterministic  # noqa: E402

pytestmark = pytest.mark.skipif(
    not hasattr(config, "deterministic"), reason="torch 2.6 and 2.8 do not have the option deterministic"
)

APPLIED_AGAIN = """
import torch._inductor.config
from pytest_torch_compile._torch.process_settings import ProcessSettings
ProcessSettings.now().put()
print(torch._inductor.config.deterministic)
"""


@pytest.fixture(autouse=True)
def settings():
    before = deterministic()
    yield
    set_deterministic(before)


def test_a_fresh_process_keeps_the_option_that_an_environment_variable_sets():
    environment = {**os.environ, "TORCHINDUCTOR_DETERMINISTIC": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", APPLIED_AGAIN], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["True"]


@pytest.mark.parametrize("before", [False, True])
def test_a_check_restores_the_option_that_the_target_changes(before):
    def target(x):
        torch.use_deterministic_algorithms(True)
        return x * 2

    config.deterministic = before
    check_compile(target, torch.randn(3), backend="eager", fullgraph=False, max_graph_breaks=9)
    assert (config.deterministic, torch.are_deterministic_algorithms_enabled()) == (before, False)
