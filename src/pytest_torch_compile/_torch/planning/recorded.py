"""The GPUs and torch versions for which the rules for attention and convolutions were verified."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from ...plan.cards import Card

# Pairs of a compute capability and a torch version.
RECORDED = {((9, 0), "2.11")}


def not_recorded(card: Card) -> str:
    """Return an empty string if the rules for attention and convolutions were verified for this compute capability and
    torch version. Otherwise, return a note for the plan.
    """
    release = ".".join(str(torch.__version__).split(".")[:2])
    if (card.capability, release) in RECORDED:
        return ""
    major, minor = card.capability
    return f"this choice was not verified for GPUs of compute capability {major}.{minor} with torch {release}"
