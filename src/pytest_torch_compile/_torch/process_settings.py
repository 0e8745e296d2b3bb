"""Collect the torch settings that may affect results, and apply them in another process."""

from __future__ import annotations

import functools
import operator
import pickle
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from typing import Any

import torch

from .defaults import Defaults, defaults, set_defaults
from .deterministic import deterministic, set_deterministic
from .deviations import changed_config

# Settings in ``torch.backends``. Dynamo's guards, including the guards of an artifact, check the settings for reduced
# matmul precision.
_SWITCHES = (
    *("cudnn.benchmark", "cudnn.deterministic", "cudnn.allow_tf32"),
    *("cuda.matmul.allow_fp16_reduced_precision_reduction", "cuda.matmul.allow_bf16_reduced_precision_reduction"),
    "cuda.matmul.allow_fp16_accumulation",
)
_AUTOCAST_DEVICES = ("cpu", "cuda")


def process_settings() -> dict[str, Any]:
    """Return the torch settings of this process as picklable data. Values that cannot be pickled, such as a custom
    pass, are omitted.
    """
    config = {}
    for module, name, value, *_ in changed_config():
        with suppress(Exception):
            pickle.dumps(value)
            config[module, name] = value
    wanted: dict[str, Any] = {
        "threads": torch.get_num_threads(),
        "dtype": defaults().dtype,
        "device": defaults().device,
        "deterministic": deterministic(),
        "autocast_cache": torch.is_autocast_cache_enabled(),
        "autocast_dtypes": {device: torch.get_autocast_dtype(device) for device in _AUTOCAST_DEVICES},
        "autocast": [device for device in _AUTOCAST_DEVICES if torch.is_autocast_enabled(device)],
        "grad": torch.is_grad_enabled(),
        "inference": torch.is_inference_mode_enabled(),
        "switches": {},
        "config": config,
    }
    with suppress(RuntimeError):  # changed through newer per-backend settings, which older functions cannot read
        wanted["precision"] = torch.get_float32_matmul_precision()
        wanted["matmul"] = _newer_matmul_precision()
    for name in _SWITCHES:
        with suppress(AttributeError, RuntimeError):  # torch 2.6 does not have the last of these settings
            wanted["switches"][name] = operator.attrgetter(name)(torch.backends)
    return wanted


def _newer_matmul_precision() -> str | None:
    """Return torch's newer setting for matmul precision (since torch 2.9). The newer setting is "none" until the older
    setting is first set to "highest"; from then on, it is "ieee".
    """
    precision: str | None = getattr(torch.backends.cuda.matmul, "fp32_precision", None)
    return precision


def set_process_settings(wanted: Mapping[str, Any]) -> None:
    """Apply another process's settings. Defaults, the matmul precision and the settings in ``torch.backends`` are set
    only if they differ, because setting them makes one of dynamo's guards fail.
    """
    torch.set_num_threads(wanted["threads"])
    set_defaults(Defaults(wanted["dtype"], wanted["device"]))
    set_deterministic(wanted["deterministic"])
    torch.set_autocast_cache_enabled(wanted["autocast_cache"])
    for device, dtype in wanted["autocast_dtypes"].items():
        torch.set_autocast_dtype(device, dtype)
    here = torch.get_float32_matmul_precision(), _newer_matmul_precision()
    if "precision" in wanted and here != (wanted["precision"], wanted["matmul"]):
        torch.set_float32_matmul_precision(wanted["precision"])
    for name, value in wanted["switches"].items():
        if operator.attrgetter(name)(torch.backends) != value:
            owner, _, leaf = name.rpartition(".")
            setattr(operator.attrgetter(owner)(torch.backends), leaf, value)
    for (module, name), value in wanted["config"].items():
        *groups, leaf = name.split(".")
        setattr(functools.reduce(getattr, groups, import_module(module)), leaf, value)


@contextmanager
def modes(wanted: Mapping[str, Any]) -> Iterator[None]:
    """Run the ``with`` block in the same modes as another process: inference mode, no_grad and autocast."""
    with ExitStack() as stack:
        stack.enter_context(torch.inference_mode(wanted["inference"]))
        stack.enter_context(torch.set_grad_enabled(wanted["grad"]))
        for device in wanted["autocast"]:  # with the current dtype and cache setting
            stack.enter_context(torch.autocast(device))
        yield
