"""x-transformers: attention with its many options, positions, norms, residuals."""

from __future__ import annotations

import torch
import x_transformers as xt
from x_transformers import x_transformers as parts

from libraries.inputs import Calls, calls, pairs, sequences, tokens
from libraries.targets import Target

DIM = 16


def attention(**options) -> Target:
    return Target(parts.Attention(DIM, dim_head=8, heads=2, **options), sequences(DIM))


def encoder(**options) -> Target:
    return Target(xt.Encoder(dim=DIM, depth=1, heads=2, attn_dim_head=8, ff_mult=2, **options), sequences(DIM))


def decoder(**options) -> Target:
    layers = xt.Decoder(dim=DIM, depth=1, heads=2, attn_dim_head=8, ff_mult=2, **options)
    return Target(xt.TransformerWrapper(num_tokens=20, max_seq_len=16, attn_layers=layers), tokens(20))


def conditioned() -> Calls:
    return calls(lambda n: (torch.randn(2, n, DIM),), (6, 8, 11))


def scores() -> Calls:
    return calls(lambda n: (torch.randn(2, 2, n, n),), (6, 8, 11))


TARGETS = {
    "Attention": lambda: attention(),
    "Attention_causal": lambda: attention(causal=True),
    "Attention_flash": lambda: attention(flash=True),
    "Attention_qk_norm": lambda: attention(qk_norm=True),
    "Attention_grouped": lambda: attention(kv_heads=1),
    "Attention_talking_heads": lambda: attention(pre_talking_heads=True),
    "Attention_sparse_topk": lambda: attention(sparse_topk=3),
    "Attention_memory": lambda: attention(num_mem_kv=2),
    "Attention_gated": lambda: attention(gate_values=True),
    "Attention_dropout": lambda: attention(dropout=0.2),
    "FeedForward": lambda: Target(parts.FeedForward(DIM, mult=2), sequences(DIM)),
    "FeedForward_glu": lambda: Target(parts.FeedForward(DIM, mult=2, glu=True, swish=True), sequences(DIM)),
    "LayerNorm": lambda: Target(parts.LayerNorm(DIM), sequences(DIM)),
    "RMSNorm": lambda: Target(parts.RMSNorm(DIM), sequences(DIM)),
    "ScaleNorm": lambda: Target(parts.ScaleNorm(DIM), sequences(DIM)),
    "SimpleRMSNorm": lambda: Target(parts.SimpleRMSNorm(DIM), sequences(DIM)),
    "DynamicTanh": lambda: Target(parts.DynamicTanh(DIM), sequences(DIM)),
    "Derf": lambda: Target(parts.Derf(DIM), sequences(DIM)),
    "ReluSquared": lambda: Target(parts.ReluSquared(), sequences(DIM)),
    "SoLU": lambda: Target(parts.SoLU(DIM), sequences(DIM)),
    "GLU": lambda: Target(parts.GLU(DIM, 8, torch.nn.GELU()), sequences(DIM)),
    "GRUGating": lambda: Target(parts.GRUGating(DIM), pairs(6, DIM)),
    "Residual": lambda: Target(parts.Residual(DIM, scale_residual=True), pairs(6, DIM)),
    "OrthogonalResidualUpdate": lambda: Target(parts.OrthogonalResidualUpdate(DIM), pairs(6, DIM)),
    "ShiftTokens": lambda: Target(parts.ShiftTokens([0, 1], torch.nn.Identity()), sequences(DIM)),
    "AbsolutePositionalEmbedding": lambda: Target(parts.AbsolutePositionalEmbedding(DIM, 16), sequences(DIM)),
    "ScaledSinusoidalEmbedding": lambda: Target(parts.ScaledSinusoidalEmbedding(DIM), sequences(DIM)),
    "RotaryEmbedding": lambda: Target(parts.RotaryEmbedding(8).forward_from_seq_len, [(6,), (8,), (11,)], train=False),
    "AttentionPool": lambda: Target(parts.AttentionPool(DIM, heads=2, dim_head=8), sequences(DIM)),
    "TokenEmbedding": lambda: Target(parts.TokenEmbedding(DIM, 20), tokens(20)),
    "LoRALinear": lambda: Target(parts.LoRALinear(DIM, 8, 4), sequences(DIM)),
    "calc_entropy": lambda: Target(parts.calc_entropy, sequences(DIM)),
    "Encoder": lambda: encoder(),
    "Encoder_rotary": lambda: encoder(rotary_pos_emb=True),
    "Encoder_alibi": lambda: encoder(alibi_pos_bias=True),
    "Encoder_relative": lambda: encoder(rel_pos_bias=True),
    "Encoder_dynamic_bias": lambda: encoder(dynamic_pos_bias=True),
    "Encoder_sandwich": lambda: encoder(sandwich_norm=True),
    "Encoder_macaron": lambda: encoder(macaron=True),
    "Decoder": lambda: decoder(),
    "Decoder_flash": lambda: decoder(attn_flash=True),
    "AutoregressiveWrapper": lambda: Target(xt.AutoregressiveWrapper(decoder().target), tokens(20)),
}
