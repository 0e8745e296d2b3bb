"""The default backend of suites without a model table: a light backend, unless a test or the command line selects
another."""

from __future__ import annotations

from typing import Any

import pytest

from ._models import LIGHT_BACKEND


@pytest.fixture
def compile_options(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Inductor's passes without code generation. A marker or `--compile-backend` overrides this backend."""
    return {} if request.config.getoption("--compile-backend") else {"backend": LIGHT_BACKEND}


@pytest.fixture
def backend(request: pytest.FixtureRequest, compile_options: dict[str, Any]) -> str:
    """The name of the same backend, for tests that call `torch.compile` themselves."""
    marker = request.node.get_closest_marker("torch_compile")
    chosen = {**compile_options, **(marker.kwargs if marker else {})}
    return chosen.get("backend", request.config.getoption("--compile-backend"))
