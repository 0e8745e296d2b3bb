"""What Inductor decides by running candidates on the card is fixed one way, the same every time.

Private names used, checked on torch 2.11, 2.13 and 2.15: the options of ``torch._inductor.config`` below.
"""

from __future__ import annotations

from typing import Any

import torch

# The option, the value of a plan, and what it means for a user. Listed in the plan where it changes anything.
CHOICES: dict[str, tuple[Any, str]] = {
    "shape_padding": (False, "matrix products are not padded (shape_padding)"),
    "max_autotune": (False, "no autotuning: matrix products and convolutions go to libraries (max_autotune)"),
    "max_autotune_gemm": (False, "no autotuning of matrix products (max_autotune_gemm)"),
    "max_autotune_pointwise": (False, "no autotuning of pointwise kernels (max_autotune_pointwise)"),
    "coordinate_descent_tuning": (False, "no tuning of block sizes (coordinate_descent_tuning)"),
    "combo_kernels": (False, "no combined kernels (combo_kernels)"),
}
# What a mode or the options of a call would turn on again.
_ON_DEMAND = {name for name in CHOICES if name != "shape_padding"}


def fix_choices() -> None:
    """Fix the choices for this process, and leave the caches of compiled code alone."""
    config: Any = torch._inductor.config
    for name, (value, _) in CHOICES.items():
        if hasattr(config, name):
            setattr(config, name, value)
    config.force_disable_caches = True
    config.compile_threads = 1


def choices_of(mode: str | None, options: dict[str, Any] | None) -> list[str]:
    """The choices that differ from what this mode and these options ask of Inductor."""
    from torch._inductor import list_mode_options

    asked = {**(list_mode_options(mode) if mode else {}), **(options or {})}
    asked = {name.replace("-", "_"): value for name, value in asked.items()}
    return [text for name, (value, text) in CHOICES.items() if asked.get(name, _DEFAULTS.get(name, value)) != value]


def fixed_options(mode: str | None, options: dict[str, Any] | None) -> dict[str, Any] | None:
    """The Inductor options of a mode and further options, without those that choose by timing; None if none remain."""
    from torch._inductor import list_mode_options

    asked = {**(list_mode_options(mode) if mode else {}), **(options or {})}
    return {name: value for name, value in asked.items() if name.replace("-", "_") not in CHOICES} or None


_DEFAULTS: dict[str, Any] = {}
