"""A fresh process runs with the settings of the process that starts it."""

from __future__ import annotations

import operator

import pytest

torch = pytest.importorskip("torch")

from pytest_torch_compile._torch.backend_switches import _PRECISIONS  # noqa: E402
from pytest_torch_compile._torch.process_settings import ProcessSettings  # noqa: E402
from pytest_torch_compile.fresh.process import run_fresh  # noqa: E402


@pytest.fixture
def settings():
    before = ProcessSettings.now()
    yield before
    before.put()


def set_precision(name):
    owner, _, leaf = name.rpartition(".")
    backend = operator.attrgetter(owner)(torch.backends) if owner else torch.backends
    setattr(backend, leaf, "ieee" if getattr(backend, leaf) != "ieee" else "tf32")


@pytest.mark.parametrize(
    "change",
    [
        lambda: torch.set_default_dtype(torch.float64),
        lambda: torch.set_default_device("meta"),
        lambda: torch.use_deterministic_algorithms(True, warn_only=True),
        lambda: torch.set_float32_matmul_precision("medium"),
        lambda: torch.set_autocast_cache_enabled(False),
        lambda: torch.set_autocast_dtype("cpu", torch.float16),
        lambda: torch.set_num_threads(torch.get_num_threads() + 1),
        lambda: torch.autograd.set_detect_anomaly(True),
        lambda: setattr(torch.backends.cudnn, "benchmark", True),
        lambda: setattr(torch.backends.cuda.matmul, "allow_bf16_reduced_precision_reduction", False),
        lambda: setattr(torch.backends.cudnn, "allow_tf32", False),
        lambda: torch.backends.cuda.enable_flash_sdp(False),
        *(lambda name=name: set_precision(name) for name in _PRECISIONS if hasattr(torch.backends, "fp32_precision")),
    ],
    ids=[
        *("dtype", "device", "deterministic", "precision", "autocast cache", "autocast dtype"),
        *("threads", "anomaly", "cudnn", "matmul", "cudnn tf32", "attention"),
        *(name for name in _PRECISIONS if hasattr(torch.backends, "fp32_precision")),
    ],
)
def test_each_setting_is_read_and_set(settings, change):
    change()
    changed = ProcessSettings.now()
    assert changed != settings
    settings.put()
    assert ProcessSettings.now() == settings
    changed.put()
    assert ProcessSettings.now() == changed


@pytest.mark.parametrize(
    "mode",
    [torch.inference_mode, torch.no_grad, lambda: torch.autocast("cpu", torch.float16, cache_enabled=False)],
    ids=["inference", "no grad", "autocast"],
)
def test_each_mode_is_read_and_set(settings, mode):
    with mode():
        inside = ProcessSettings.now()
    assert inside != settings
    inside.put()
    assert ProcessSettings.now() == inside
    settings.put()
    assert ProcessSettings.now() == settings


class MadeAnew:
    """An argument whose tensor is made, and not loaded, when it is unpickled."""

    def __init__(self):
        self.tensor = torch.zeros(1)

    def __reduce__(self):
        return MadeAnew, ()


def kind_of(argument, tensor):
    return (
        argument.tensor.dtype,
        argument.tensor.is_inference(),
        tensor.is_inference(),
        torch.is_inference_mode_enabled(),
    )


def test_arguments_are_loaded_with_the_settings_of_the_parent(settings):
    torch.set_default_dtype(torch.float64)
    arguments = MadeAnew(), torch.zeros(1)
    with torch.inference_mode():
        ended = run_fresh(kind_of, *arguments, seconds=100)
    assert ended.value == (torch.float64, False, False, True), ended
