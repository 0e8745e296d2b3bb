"""Flex attention whose result is off by a hundred-thousandth when compiled: only a float64 run shows that it is wrong."""

import torch
from torch.nn.attention.flex_attention import flex_attention

from pytest_torch_compile import check_compile

EXPECT = [("numerics", "output")]


def closer_is_better(score, batch, head, query, key):
    return score - (query - key).abs() * 0.1


def target(query, key, value):
    factor = 1 + 1e-5 if torch.compiler.is_compiling() else 1
    return flex_attention(query, key, value, score_mod=closer_is_better) * factor


def check(**options):
    inputs = [torch.randn(1, 2, 64, 16) for _ in range(3)]
    return check_compile(target, *inputs, backend="aot_eager", **options)
