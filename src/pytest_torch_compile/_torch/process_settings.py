"""What torch is set to in this process, to be set in another: results may depend on any of it."""

from __future__ import annotations

import functools
import pickle
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any

import torch

from .deviations import changed_config

_CUDNN = ("benchmark", "deterministic", "allow_tf32")


def process_settings() -> dict[str, Any]:
    """The settings as data that can be sent; a value that cannot be pickled, such as a pass of the user's, is not."""
    config = {}
    for module, name, value, *_ in changed_config():
        with suppress(Exception):
            pickle.dumps(value)
            config[module, name] = value
    wanted: dict[str, Any] = {
        "threads": torch.get_num_threads(),
        "dtype": torch.get_default_dtype(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "warn_only": torch.is_deterministic_algorithms_warn_only_enabled(),
        "config": config,
    }
    with suppress(RuntimeError):  # set through the newer switches of each backend, which the older ones refuse to read
        wanted["precision"] = torch.get_float32_matmul_precision()
        wanted["cudnn"] = {name: getattr(torch.backends.cudnn, name) for name in _CUDNN}
    return wanted


def set_process_settings(wanted: Mapping[str, Any]) -> None:
    """Set what another process had. What is so already is left alone: to set it is another state to dynamo's guards."""
    torch.set_num_threads(wanted["threads"])
    torch.set_default_dtype(wanted["dtype"])
    torch.use_deterministic_algorithms(wanted["deterministic"], warn_only=wanted["warn_only"])
    if "precision" in wanted and torch.get_float32_matmul_precision() != wanted["precision"]:
        torch.set_float32_matmul_precision(wanted["precision"])
    for name, value in wanted.get("cudnn", {}).items():
        if getattr(torch.backends.cudnn, name) != value:
            setattr(torch.backends.cudnn, name, value)
    for (module, name), value in wanted["config"].items():
        *groups, leaf = name.split(".")
        setattr(functools.reduce(getattr, groups, import_module(module)), leaf, value)
