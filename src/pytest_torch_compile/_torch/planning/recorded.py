"""What is known of a card: rules are recorded by capability and torch."""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from ...plan.cards import Card

CardAndTorch = tuple[tuple[int, int], str]


def card_and_torch(card: Card) -> CardAndTorch:
    """The key of the card's capability with this torch: ``((9, 0), "2.11")``."""
    return card.capability, ".".join(str(torch.__version__).split(".")[:2])


def not_recorded(card: Card, recorded: Container[CardAndTorch]) -> str:
    """An empty string if the card's capability was recorded with this torch, else a text that says that it was not."""
    capability, release = card_and_torch(card)
    if (capability, release) in recorded:
        return ""
    return f"not recorded on a card of capability {capability[0]}.{capability[1]} with torch {release}"
