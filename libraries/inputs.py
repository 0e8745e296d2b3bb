"""Create calls with three sizes for the usual kinds of inputs. Sizes 0 and 1 are excluded, because torch specialises on
them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Calls = list[tuple[Any, ...]]
BATCHES = (2, 3, 5)


def calls(make: Callable[[int], tuple[Any, ...]], sizes: tuple[int, ...] = BATCHES) -> Calls:
    """One call for each size."""
    return [make(size) for size in sizes]


def tensors(*shape: int, sizes: tuple[int, ...] = BATCHES) -> Calls:
    """A batch of normal numbers."""
    return calls(lambda n: (torch.randn(n, *shape),), sizes)


def pairs(*shape: int, sizes: tuple[int, ...] = BATCHES) -> Calls:
    """Two batches with the same shape."""
    return calls(lambda n: (torch.randn(n, *shape), torch.randn(n, *shape)), sizes)


def images(channels: int = 3, size: int = 16, batches: tuple[int, ...] = BATCHES) -> Calls:
    """Square images with values from 0 to 1."""
    return calls(lambda n: (torch.rand(n, channels, size, size),), batches)


def image_pairs(channels: int = 3, size: int = 16, batches: tuple[int, ...] = BATCHES) -> Calls:
    return calls(lambda n: (torch.rand(n, channels, size, size), torch.rand(n, channels, size, size)), batches)


def sequences(features: int, batch: int = 2, lengths: tuple[int, ...] = (6, 8, 11)) -> Calls:
    """Sequences of vectors whose length changes."""
    return calls(lambda n: (torch.randn(batch, n, features),), lengths)


def tokens(vocabulary: int, batch: int = 2, lengths: tuple[int, ...] = (6, 8, 11)) -> Calls:
    """Sequences of token numbers whose length changes."""
    return calls(lambda n: (torch.randint(0, vocabulary, (batch, n)),), lengths)


def labelled(features: int, classes: int, sizes: tuple[int, ...] = (8, 10, 12)) -> Calls:
    """Vectors and the class of each vector; every class occurs."""
    return calls(lambda n: (torch.randn(n, features), torch.arange(n) % classes), sizes)
