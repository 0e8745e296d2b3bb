"""The settings in ``torch.backends`` on which results may depend, such as TF32 and cuDNN's benchmark mode."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import torch

_PRECISIONS = (
    *("fp32_precision", "cuda.matmul.fp32_precision"),
    *("cudnn.fp32_precision", "cudnn.conv.fp32_precision", "cudnn.rnn.fp32_precision"),
    *("mkldnn.fp32_precision", "mkldnn.matmul.fp32_precision", "mkldnn.conv.fp32_precision"),
    "mkldnn.rnn.fp32_precision",
)
"""Torch's newer settings for the precision of float32 (since torch 2.9). A setting for a whole library also changes the
settings for its ops, so it comes first."""
_OF_PRODUCTS = "cuda.matmul.fp32_precision"
_ATTRIBUTES = (
    *("cudnn.enabled", "cudnn.benchmark", "cudnn.deterministic", "cudnn.allow_tf32"),
    *("cuda.matmul.allow_fp16_reduced_precision_reduction", "cuda.matmul.allow_bf16_reduced_precision_reduction"),
    *("cuda.matmul.allow_fp16_accumulation", "mkldnn.enabled", *_PRECISIONS),
)
# The implementations of attention in ``torch.backends.cuda``, which are read and set with functions.
_ATTENTION = ("cuda.flash_sdp", "cuda.mem_efficient_sdp", "cuda.math_sdp", "cuda.cudnn_sdp")


def switches() -> dict[str, Any]:
    """Return the values of the settings that this torch version has, keyed by name."""
    values = {}
    for name in (*_ATTRIBUTES, *_ATTENTION):
        # If a precision was set through the newer settings, torch may refuse to read the older ones.
        with suppress(AttributeError, RuntimeError):
            values[name] = _value(name)
    return values


def effective(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the settings without a difference that does not matter: if the precision of all ops is ``none``, the
    precision ``none`` of CUDA's matrix products means IEEE. Setting ``allow_tf32`` to False makes it ``ieee``.
    """
    inherits = values.get(_OF_PRODUCTS) == values.get("fp32_precision") == "none"
    return {**values, _OF_PRODUCTS: "ieee"} if inherits else values


def set_switches(wanted: Mapping[str, Any]) -> None:
    """Set the settings that differ. Others are not set again, because dynamo's guards check some of them."""
    for name, value in wanted.items():
        with suppress(RuntimeError):
            if _value(name) == value:
                continue
        owner, _, leaf = name.rpartition(".")
        if name in _ATTENTION:
            getattr(torch.backends.cuda, f"enable_{leaf}")(value)
        else:
            setattr(operator.attrgetter(owner)(torch.backends) if owner else torch.backends, leaf, value)


def _value(name: str) -> Any:
    if name in _ATTENTION:
        return operator.attrgetter(f"{name}_enabled")(torch.backends)()
    return operator.attrgetter(name)(torch.backends)
