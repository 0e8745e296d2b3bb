"""Compile the two parts of the captioner separately."""

from __future__ import annotations

from typing import Any

from transformers import VisionEncoderDecoderModel


def compile_parts(model: VisionEncoderDecoderModel, **options: Any) -> VisionEncoderDecoderModel:
    """Compile the encoder for images of one size and the decoder for captions of any length, in place."""
    model.encoder.compile(dynamic=False, **options)
    model.decoder.compile(dynamic=True, **options)
    return model


def without_pooler(model: VisionEncoderDecoderModel) -> VisionEncoderDecoderModel:
    """The captioner without the encoder's pooler, whose output it does not use."""
    model.encoder.pooler = None
    return model
