"""Determine whether a rule was verified for a GPU's compute capability and a torch version."""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from ...plan.cards import Card

CardAndTorch = tuple[tuple[int, int], str]


def card_and_torch(card: Card) -> CardAndTorch:
    """Return the GPU's compute capability and this torch version, such as ``((9, 0), "2.11")``."""
    return card.capability, ".".join(str(torch.__version__).split(".")[:2])


def not_recorded(card: Card, recorded: Container[CardAndTorch]) -> str:
    """Return an empty string if ``recorded`` contains the GPU's capability with this torch version; otherwise, a clause
    for the plan.
    """
    capability, release = card_and_torch(card)
    if (capability, release) in recorded:
        return ""
    return f"no recording exists for GPUs of compute capability {capability[0]}.{capability[1]} with torch {release}"
