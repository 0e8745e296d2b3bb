"""Fixtures that all suites share."""

import os
from glob import glob
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Build every model and input from the same random state."""
    import torch

    torch.manual_seed(0)


@pytest.fixture
def compile_options(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The backend of a model's case, unless the command line names one: `--compile-backend=inductor` runs all in it."""
    case = getattr(request.node, "callspec", None) and request.node.callspec.params.get("case")
    asked = request.config.getoption("--compile-backend")
    return {"backend": case.backend} if case is not None and not asked else {}


def pytest_configure(config: pytest.Config) -> None:
    """Start the list of GPUs at another one for each pytest-xdist worker, because most tests use the first.

    torch reads the list when it is first asked for a GPU, which is later.
    """
    worker = getattr(config, "workerinput", {}).get("workerid", "gw0")
    listed = os.environ.get("CUDA_VISIBLE_DEVICES")
    gpus = (
        listed.split(",") if listed is not None else [str(number) for number in range(len(glob("/dev/nvidia[0-9]*")))]
    )
    if len(gpus) > 1:
        first = int(worker.removeprefix("gw")) % len(gpus)
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(gpus[first:] + gpus[:first])
