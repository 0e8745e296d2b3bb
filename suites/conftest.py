"""Fixtures that all suites share."""

from typing import Any

import pytest


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Build every model and input from the same random state."""
    import torch

    torch.manual_seed(0)


@pytest.fixture
def compile_options(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The backend of a model's case, unless the command line sets a backend: `--compile-backend=inductor` runs all
    cases in Inductor."""
    case = getattr(request.node, "callspec", None) and request.node.callspec.params.get("case")
    asked = request.config.getoption("--compile-backend")
    return {"backend": case.backend} if case is not None and not asked else {}
