"""The line in pytest's header that shows the torch version, the device and the backend."""

from __future__ import annotations

import pytest

from .. import settings
from .._torch.warning_filters import calm
from . import unwritten, usage


def pytest_report_collectionfinish(config: pytest.Config, items: list[pytest.Item]) -> list[str]:
    """Report the torch version, device and backend if the session contains tests that use the plugin."""
    if not any(usage.uses_plugin(item) for item in items):
        return []
    try:
        with calm():
            import torch
    except Exception as error:  # only the tests that need torch fail
        return [f"torch.compile: torch cannot be imported: {unwritten.reason(error)}"]

    chosen = settings.current
    device = chosen.device or "chosen by each test"
    backend = f"{chosen.check_backend}{' (--compile-fast: generated code is not checked)' if chosen.fast else ''}"
    return [f"torch.compile: torch {torch.__version__}, device {device}, backend {backend}, cache {chosen.cache}"]
