"""The model whose modes are timed."""

from typing import Any

import torch
from transformers import GPT2Config, GPT2LMHeadModel
from transformers.loss.loss_utils import ForCausalLMLoss

WORDS = 50257


def gpt2(layers: int) -> GPT2LMHeadModel:
    """GPT-2 small with fewer layers and with its loss set."""
    model = GPT2LMHeadModel(GPT2Config(n_layer=layers, use_cache=False))
    model.loss_function = ForCausalLMLoss
    return model


def words(batch: int, length: int) -> dict[str, torch.Tensor]:
    """Random tokens on the CUDA device, which also serve as labels."""
    ids = torch.randint(1, WORDS, (batch, length), device="cuda")
    return {"input_ids": ids, "labels": ids.clone()}


def loss_of(output: Any) -> torch.Tensor:
    """The loss that the model computed."""
    return output.loss
