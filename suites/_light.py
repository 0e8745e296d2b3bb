"""The default backend of suites without a table of models. It runs Inductor's passes without code generation, unless a
test or the command line selects another backend.
"""

from __future__ import annotations

from typing import Any

import pytest

from ._models import LIGHT_BACKEND


@pytest.fixture
def compile_options(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The options for a backend that runs Inductor's passes without code generation. A marker or `--compile-backend`
    overrides this backend.
    """
    return {} if request.config.getoption("--compile-backend") else {"backend": LIGHT_BACKEND}


@pytest.fixture
def backend(request: pytest.FixtureRequest, compile_options: dict[str, Any]) -> str:
    """The name of the backend of this test, for tests that call `torch.compile` themselves."""
    marker = request.node.get_closest_marker("torch_compile")
    chosen = {**compile_options, **(marker.kwargs if marker else {})}
    return chosen.get("backend", request.config.getoption("--compile-backend"))
