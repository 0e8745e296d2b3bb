"""The GPUs on which the rules for attention and convolutions were checked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from ...plan.cards import Card

# Compute capabilities with the torch version.
RECORDED = {((9, 0), "2.11")}


def not_recorded(card: Card) -> str:
    """Return an empty string if the rules were checked for this capability and torch version, and otherwise a sentence
    for the plan.
    """
    release = ".".join(str(torch.__version__).split(".")[:2])
    if (card.capability, release) in RECORDED:
        return ""
    major, minor = card.capability
    return f"no recording exists for a GPU of compute capability {major}.{minor} with torch {release}"
