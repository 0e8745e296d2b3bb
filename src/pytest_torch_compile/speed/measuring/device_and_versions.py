"""Describe where a target runs: its device and the device's state, and the versions of torch, CUDA and Python."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import torch

from ...legs.targets import modules_of
from . import turns
from .device import device_state
from .workload import tensors_in


def device_of(target: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None) -> torch.device:
    """Return the device of the first parameter, buffer or tensor argument, or the CPU if there is no such tensor."""
    own = (t for module in modules_of(target).values() for t in (*module.parameters(), *module.buffers()))
    tensor = next(own, None)
    if tensor is None:
        tensor = next(tensors_in((args, kwargs)), None)
    return torch.device("cpu") if tensor is None else tensor.device


def environment_of(device: torch.device) -> dict[str, Any]:
    """Return the device's name and id, and the versions of torch, CUDA and Python."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    versions = {"torch": torch.__version__.split("+")[0], "cuda": None, "python": python}
    environment: dict[str, Any] = {"device": device.type, **versions}
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        environment.update(device=properties.name, cuda=torch.version.cuda, uuid=f"GPU-{properties.uuid}")
    return environment


def state_of(device: torch.device) -> dict[str, Any]:
    """Return the clocks, temperature and processes of a CUDA device, and how many of the processes are speed tests, or
    ``{}`` for another device.
    """
    if device.type != "cuda":
        return {}
    uuid = environment_of(device)["uuid"]
    users, state = turns.users(uuid), device_state(uuid)
    return {**state, "users": max(users, turns.users(uuid))} if state else {}
