"""What torch is set to in one process is set in another."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from pytest_torch_compile._torch.process_settings import modes, process_settings, set_process_settings  # noqa: E402


@pytest.fixture
def settings():
    found = process_settings()
    yield found
    set_process_settings(found)


@pytest.mark.parametrize(
    "change",
    [
        lambda: torch.set_default_dtype(torch.float64),
        lambda: torch.set_default_device("meta"),
        lambda: torch.use_deterministic_algorithms(True, warn_only=True),
        lambda: torch.set_float32_matmul_precision("medium"),
        lambda: torch.set_autocast_cache_enabled(False),
        lambda: torch.set_autocast_dtype("cpu", torch.float16),
        lambda: setattr(torch.backends.cudnn, "benchmark", True),
        lambda: setattr(torch.backends.cuda.matmul, "allow_bf16_reduced_precision_reduction", False),
    ],
    ids=["dtype", "device", "deterministic", "precision", "autocast cache", "autocast dtype", "cudnn", "matmul"],
)
def test_each_setting_is_read_and_set(settings, change):
    change()
    changed = process_settings()
    assert changed != settings
    set_process_settings(settings)
    set_process_settings(changed)
    assert process_settings() == changed


@pytest.mark.parametrize(
    "mode",
    [torch.inference_mode, torch.no_grad, lambda: torch.autocast("cpu", torch.float16, cache_enabled=False)],
    ids=["inference", "no grad", "autocast"],
)
def test_each_mode_is_read_and_entered(settings, mode):
    with mode():
        inside = process_settings()
    assert inside != settings
    set_process_settings(inside)
    with modes(inside):
        assert process_settings() == inside
    set_process_settings(settings)
    assert process_settings() == settings
