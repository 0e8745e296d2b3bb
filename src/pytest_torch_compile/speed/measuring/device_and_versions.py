"""Describe where a target runs: its device and the device's state, and the versions of torch, CUDA and Python."""

from __future__ import annotations

import sys
from typing import Any

import torch

from . import turns
from .device import device_state


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
