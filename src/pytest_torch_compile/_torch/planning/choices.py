"""Use constant choices where Inductor would decide by timing candidates on the GPU, so that plans are reproducible.

The fast path of torch's encoder layers is turned off as well: it is a C++ operator without generated code, and cannot
be traced without the GPU.

This module sets private options of ``torch._inductor.config``, checked with torch 2.11, 2.13 and 2.15.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch

from ..random_ops import draw_as_in_eager

# Maps each option to its value in a plan, and to a line for the user. A plan lists only the choices that differ from
# the user's settings.
CHOICES: dict[str, tuple[Any, str]] = {
    "shape_padding": (False, "matrix products are not padded (shape_padding)"),
    "max_autotune": (False, "no autotuning: matrix products and convolutions use ATen kernels (max_autotune)"),
    "max_autotune_gemm": (False, "no autotuning of matrix products (max_autotune_gemm)"),
    "max_autotune_pointwise": (False, "no autotuning of pointwise kernels (max_autotune_pointwise)"),
    "coordinate_descent_tuning": (False, "no coordinate descent tuning of block sizes (coordinate_descent_tuning)"),
    "combo_kernels": (False, "no combined kernels (combo_kernels)"),
}
FAST_PATH = "torch.backends.mha"
_asked: dict[str, Any] = {}  # the process's settings before this module changed them


def fix_choices() -> None:
    """Set the options in ``CHOICES`` in this process, and turn off the compile caches and the fast path of encoder
    layers.
    """
    config: Any = torch._inductor.config
    for name, (value, _) in CHOICES.items():
        if hasattr(config, name):
            _asked[name] = getattr(config, name)
            setattr(config, name, value)
    config.force_disable_caches = True
    config.compile_threads = 1
    _asked[FAST_PATH] = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)


def fall_back_to_operators(*, on: bool) -> None:
    """If ``on`` is true, draw random numbers with operators instead of generated code, so that eager code draws the
    same numbers.
    """
    config: Any = torch._inductor.config
    config.fallback_random = on
    if on:
        draw_as_in_eager()


def choices_of(
    mode: str | None, options: Mapping[str, Any] | None, modules: Iterable[torch.nn.Module] = ()
) -> list[str]:
    """Return a line of text for each option whose value in a plan differs from the user's settings, mode or options. If
    one of the modules would use the fast path of encoder layers, another line states that the fast path is off.
    """
    asked = {**_asked, **_options(mode, options)}
    fixed = [text for name, (value, text) in CHOICES.items() if asked.get(name, value) != value]
    fast = (torch.nn.TransformerEncoderLayer, torch.nn.TransformerEncoder, torch.nn.MultiheadAttention)
    if asked[FAST_PATH] and any(isinstance(module, fast) and not module.training for module in modules):
        fixed.append("the fast path of encoder layers is off (torch.backends.mha.set_fastpath_enabled)")
    return fixed


def fixed_options(mode: str | None, options: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the Inductor options from ``mode`` and ``options``, except those in ``CHOICES``. A value in ``options``
    overrides the mode's value. Returns None if no options remain.
    """
    return {name: value for name, value in _options(mode, options).items() if name not in CHOICES} or None


def _options(mode: str | None, options: Mapping[str, Any] | None) -> dict[str, Any]:
    from torch._inductor import list_mode_options

    named = {**(list_mode_options(mode) if mode else {}), **(options or {})}
    return {name.replace("-", "_"): value for name, value in named.items()}
