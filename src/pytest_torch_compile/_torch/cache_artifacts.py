"""Save and load compiled code with ``torch.compiler.save_cache_artifacts``, public since torch 2.7.

This module uses no private torch names.
"""

from __future__ import annotations

import platform
from contextlib import suppress
from importlib import metadata
from typing import Any

import torch

from .accelerator import accelerator


def unavailable() -> str:
    """Return the reason why this torch version cannot save artifacts, or an empty string if it can."""
    if hasattr(torch.compiler, "save_cache_artifacts"):
        return ""
    return f"torch {torch.__version__} cannot save compile cache artifacts (requires torch 2.7 or newer)"


def environment() -> dict[str, str]:
    """Return the properties of this environment on which artifacts depend: the device, and the versions of torch, CUDA,
    Triton and Python.
    """
    device, cuda, triton = f"cpu {platform.machine()} {torch.backends.cpu.get_cpu_capability()}", "", ""
    if (module := accelerator()) is not None and hasattr(module, "get_device_name"):
        device, cuda = module.get_device_name(), str(torch.version.cuda or torch.version.hip or "")
        with suppress(metadata.PackageNotFoundError):
            triton = metadata.version("triton")
    python = ".".join(platform.python_version_tuple()[:2])
    return {"device": device, "torch": str(torch.__version__), "cuda": cuda, "triton": triton, "python": python}


def save() -> tuple[bytes, set[str]] | None:
    """Return the artifacts that this process stored in the caches or loaded from the caches, and the artifacts' keys.
    Return None if there are no artifacts.
    """
    saved = torch.compiler.save_cache_artifacts()
    return (bytes(saved[0]), _keys(saved[1])) if saved else None


def load(content: bytes) -> set[str]:
    """Load artifacts into the caches, and return the artifacts' keys. Return an empty set if torch cannot read the
    artifacts.
    """
    loaded = torch.compiler.load_cache_artifacts(content)
    return _keys(loaded) if loaded else set()


def _keys(info: Any) -> set[str]:
    return {f"{kind} {key}" for kind, keys in info.artifacts.items() for key in keys}
