"""Torch's setting for deterministic algorithms, and Inductor's setting with the same purpose.

This module uses the option ``torch._inductor.config.deterministic``, checked with torch 2.11 and 2.15. Torch 2.6 and
2.8 do not have it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Deterministic:
    """The arguments of ``torch.use_deterministic_algorithms``, and Inductor's option ``deterministic``, which
    prevents choices that depend on timing (None if this torch version does not have the option).
    """

    algorithms: bool
    warn_only: bool
    inductor: bool | None


def deterministic() -> Deterministic:
    """Return the current settings."""
    return Deterministic(
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        getattr(_inductor_config(), "deterministic", None),
    )


def set_deterministic(wanted: Deterministic) -> None:
    """Set all settings that differ from the wanted settings."""
    now = deterministic()
    if (now.algorithms, now.warn_only) != (wanted.algorithms, wanted.warn_only):
        torch.use_deterministic_algorithms(wanted.algorithms, warn_only=wanted.warn_only)
    # If torch has Inductor's option, the function above also sets it, and so overrides TORCHINDUCTOR_DETERMINISTIC=1.
    if wanted.inductor is not None and _inductor_config().deterministic != wanted.inductor:
        _inductor_config().deterministic = wanted.inductor


def _inductor_config() -> Any:
    import torch._inductor.config

    return torch._inductor.config
