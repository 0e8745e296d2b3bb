"""Fixtures that all suites share, and the distribution of GPUs among pytest-xdist workers."""

import gc
import os
from collections.abc import Iterator
from typing import Any

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Give each pytest-xdist worker another GPU as its first GPU, so that the workers do not all use the memory of
    the same GPU. Every worker can still use all GPUs, for the distributed tests.
    """
    worker = getattr(config, "workerinput", {}).get("workerid", "")
    if worker and config.getoption("--compile-device", None) == "cuda":
        import torch

        names = os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(torch.cuda.device_count())))
        gpus = names.split(",")
        first = int(worker.removeprefix("gw")) % len(gpus)
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(gpus[first:] + gpus[:first])


@pytest.fixture(autouse=True)
def seeded() -> Iterator[None]:
    """Build every model and input from the same random state. Afterwards, release the GPU memory that torch keeps for
    later use, because other pytest-xdist workers need it.
    """
    import torch

    torch.manual_seed(0)
    yield
    if torch.cuda.is_initialized():
        gc.collect()
        torch.cuda.empty_cache()


@pytest.fixture
def compile_options(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The backend of a model's case, unless the command line sets a backend: `--compile-backend=inductor` runs all
    cases in Inductor."""
    case = getattr(request.node, "callspec", None) and request.node.callspec.params.get("case")
    asked = request.config.getoption("--compile-backend")
    return {"backend": case.backend} if case is not None and not asked else {}
