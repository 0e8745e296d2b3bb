"""Flex attention with a scratch output that means nothing: a higher-order op runs in every kind of eager run."""

import torch
from torch.nn.attention.flex_attention import flex_attention

from pytest_torch_compile import check_compile


def closer_is_better(score, batch, head, query, key):
    return score - (query - key).abs() * 0.1


def target(query, key, value):
    return flex_attention(query, key, value, score_mod=closer_is_better), torch.empty(1 << 14)


def check(**options):
    dirt = [torch.full((1 << 14,), float(value)) for value in range(1, 5)]
    del dirt
    inputs = [torch.randn(1, 2, 64, 16) for _ in range(3)]
    return check_compile(target, *inputs, backend="aot_eager", custom_ops=True, **options)
