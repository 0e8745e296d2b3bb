"""The random inputs and labels of the transformers models."""

import torch

VOCAB = 64
CLASSES = 5


def tokens(batch, length):
    ids = torch.randint(3, VOCAB, (batch, length))
    return {"input_ids": ids, "attention_mask": padding(batch, length)}


def padding(batch, length):
    """The mask of a batch whose first text is shorter than the others."""
    mask = torch.ones(batch, length, dtype=torch.long)
    mask[0, length // 2 :] = 0
    return mask


def next_tokens(batch, length):
    return {"labels": torch.randint(3, VOCAB, (batch, length))}


def text_pair(batch, length):
    return {**tokens(batch, length), "decoder_input_ids": torch.randint(3, VOCAB, (batch, length // 2))}


def image(batch, side=32):
    return {"pixel_values": torch.randn(batch, 3, side, side)}


def label(batch):
    return {"labels": torch.randint(0, CLASSES, (batch,))}


def label_map(batch):
    return {"labels": torch.randint(0, CLASSES, (batch, 32, 32))}


def image_and_text(batch, length):
    return {**image(batch), **tokens(batch, length)}


def caption(batch, length):
    return {**image(batch), "decoder_input_ids": torch.randint(3, VOCAB, (batch, length))}


def waveform(batch, length):
    return {"input_values": torch.randn(batch, length)}


def transcript(batch, length):
    return {"labels": torch.randint(1, 16, (batch, 4))}


def spectrogram(batch, length):
    return {"input_features": torch.randn(batch, 16, 64), "decoder_input_ids": torch.randint(3, VOCAB, (batch, length))}
