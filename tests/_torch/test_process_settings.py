"""What torch is set to in one process is set in another."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from pytest_torch_compile._torch.process_settings import process_settings, set_process_settings  # noqa: E402


@pytest.fixture
def settings():
    found = process_settings()
    yield found
    set_process_settings(found)


@pytest.mark.parametrize(
    "change",
    [
        lambda: torch.set_default_dtype(torch.float64),
        lambda: torch.use_deterministic_algorithms(True, warn_only=True),
        lambda: torch.set_float32_matmul_precision("medium"),
        lambda: torch.set_autocast_cache_enabled(False),
        lambda: torch.set_autocast_dtype("cpu", torch.float16),
        lambda: setattr(torch.backends.cudnn, "benchmark", True),
        lambda: setattr(torch.backends.cuda.matmul, "allow_bf16_reduced_precision_reduction", False),
    ],
    ids=["dtype", "deterministic", "precision", "autocast cache", "autocast dtype", "cudnn", "matmul"],
)
def test_each_setting_is_read_and_set(settings, change):
    change()
    changed = process_settings()
    assert changed != settings
    set_process_settings(settings)
    set_process_settings(changed)
    assert process_settings() == changed
