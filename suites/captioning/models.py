"""The captioner that these suites train, in a tiny size and in the published size, and its batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers import GPT2Config, GPT2LMHeadModel, VisionEncoderDecoderConfig, VisionEncoderDecoderModel, ViTConfig

IGNORED = -100
WORDS, SIDE, LONGEST = 96, 32, 64
PUBLISHED_WORDS, PUBLISHED_SIDE = 50257, 224


def tiny(
    layers: int = 1, dropout: float = 0.0, kind: type[VisionEncoderDecoderModel] = VisionEncoderDecoderModel
) -> VisionEncoderDecoderModel:
    """A captioner that compiles in seconds on one core.

    Attention has no dropout, because on a GPU transformers selects a different attention kernel during tracing, which
    draws different random numbers than the eager kernel.
    """
    encoder = ViTConfig(
        hidden_size=32,
        num_hidden_layers=layers,
        num_attention_heads=2,
        intermediate_size=64,
        image_size=SIDE,
        patch_size=16,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=0.0,
    )
    return kind(config=_config(encoder, tiny_decoder_config(layers, dropout)))


def tiny_decoder(dropout: float = 0.0) -> GPT2LMHeadModel:
    """Only the GPT-2 part of the tiny captioner, with its loss set, which halves the tracing time."""
    model = GPT2LMHeadModel(tiny_decoder_config(dropout=dropout))
    model.loss_type = "ForCausalLM"
    return model


def tiny_decoder_config(layers: int = 1, dropout: float = 0.0) -> GPT2Config:
    """The configuration of GPT-2 in the tiny captioner."""
    return GPT2Config(
        vocab_size=WORDS,
        n_positions=LONGEST,
        n_embd=32,
        n_layer=layers,
        n_head=2,
        bos_token_id=0,
        eos_token_id=0,
        use_cache=False,
        resid_pdrop=dropout,
        embd_pdrop=dropout,
        attn_pdrop=0.0,
    )


def published(layers: int = 12) -> VisionEncoderDecoderModel:
    """The captioner of the published figures: ViT base and GPT-2 small; fewer ``layers`` compile faster."""
    decoder = GPT2Config(n_layer=layers, bos_token_id=0, eos_token_id=0, use_cache=False)
    return VisionEncoderDecoderModel(config=_config(ViTConfig(num_hidden_layers=layers), decoder))


def _config(encoder: ViTConfig, decoder: GPT2Config) -> VisionEncoderDecoderConfig:
    config = VisionEncoderDecoderConfig.from_encoder_decoder_configs(encoder, decoder)
    config.decoder_start_token_id = config.pad_token_id = 0
    return config


def captions(lengths: Sequence[int], padded_to: int | None = None, seed: int = 0) -> dict[str, torch.Tensor]:
    """A tiny collated batch: images, and captions of these lengths padded to at least the longest."""
    return _batch(lengths, padded_to, seed, WORDS, SIDE)


def words(lengths: Sequence[int], seed: int = 0) -> dict[str, torch.Tensor]:
    """A tiny batch for only the decoder."""
    labels = captions(lengths, seed=seed)["labels"].clamp(min=1)
    return {"input_ids": labels, "labels": labels}


def published_captions(lengths: Sequence[int], padded_to: int | None = None, seed: int = 0) -> dict[str, torch.Tensor]:
    """A batch in the published size."""
    return _batch(lengths, padded_to, seed, PUBLISHED_WORDS, PUBLISHED_SIDE)


def _batch(lengths: Sequence[int], padded_to: int | None, seed: int, words: int, side: int) -> dict[str, torch.Tensor]:
    source = torch.Generator().manual_seed(seed)
    longest = padded_to or max(lengths)
    labels = torch.randint(1, words, (len(lengths), longest), generator=source)
    mask = torch.arange(longest)[None, :] < torch.tensor(lengths)[:, None]
    return {
        "pixel_values": torch.randn(len(lengths), 3, side, side, generator=source),
        "labels": labels.where(mask, IGNORED),
        "decoder_attention_mask": mask.long(),
    }


def on_device(batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The batch on the CUDA device."""
    return {name: tensor.cuda() for name, tensor in batch.items()}


def loss_of(output: Any) -> torch.Tensor:
    """The loss that the model computed from its labels."""
    return output.loss
