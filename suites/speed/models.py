"""The models of the speed cases: real architectures, built from their configurations with random weights."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

WIDTH, HEADS, VOCABULARY = 512, 8, 8192


def resnet18() -> nn.Module:
    """ResNet-18, channels last."""
    from torchvision.models import resnet18 as build

    return build(weights=None).to(memory_format=torch.channels_last)


def mobilenet() -> nn.Module:
    """MobileNet v3 small: many small kernels."""
    from torchvision.models import mobilenet_v3_small as build

    return build(weights=None)


def convnext() -> nn.Module:
    """A shallow ConvNeXt with the widths of ConvNeXt tiny."""
    from transformers import ConvNextConfig, ConvNextForImageClassification

    return ConvNextForImageClassification(ConvNextConfig(depths=[1, 1, 2, 1], num_labels=100))


def vit(layers: int = 3) -> nn.Module:
    """A vision transformer over 14 x 14 patches."""
    from transformers import ViTForImageClassification

    return ViTForImageClassification(_vit_config(layers))


def bert(layers: int = 3) -> nn.Module:
    """BERT with a masked-language-model head."""
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=WIDTH,
        num_hidden_layers=layers,
        num_attention_heads=HEADS,
        intermediate_size=4 * WIDTH,
    )
    return BertForMaskedLM(config)


def gpt2(layers: int = 3) -> nn.Module:
    """GPT-2 with its language-model head."""
    from transformers import GPT2LMHeadModel

    return GPT2LMHeadModel(_gpt2_config(layers))


def llama(layers: int = 3) -> nn.Module:
    """Llama with grouped-query attention."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=WIDTH,
        intermediate_size=3 * WIDTH,
        num_hidden_layers=layers,
        num_attention_heads=HEADS,
        num_key_value_heads=2,
        max_position_embeddings=1024,
        use_cache=False,
    )
    return LlamaForCausalLM(config)


def captioner(layers: int = 2) -> nn.Module:
    """Image captioning: a ViT encoder and a GPT-2 decoder with cross-attention."""
    from transformers import VisionEncoderDecoderConfig, VisionEncoderDecoderModel

    config = VisionEncoderDecoderConfig.from_encoder_decoder_configs(_vit_config(layers), _gpt2_config(layers))
    config.decoder_start_token_id = config.pad_token_id = 0
    config.decoder.use_cache = False
    return VisionEncoderDecoderModel(config=config)


class ConvCaptioner(nn.Module):
    """Image captioning: a ResNet-18 trunk and a transformer decoder over its feature map."""

    def __init__(self, layers: int = 2) -> None:
        super().__init__()
        from torchvision.models import resnet18 as build

        self.trunk = nn.Sequential(*list(build(weights=None).children())[:-2])
        self.words = nn.Embedding(VOCABULARY, WIDTH)
        layer = nn.TransformerDecoderLayer(WIDTH, HEADS, 4 * WIDTH, batch_first=True, norm_first=True)
        self.decoder = nn.TransformerDecoder(layer, layers)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, pixels: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
        """The logits of each next token."""
        memory = self.trunk(pixels).flatten(2).transpose(1, 2)
        length = words.shape[1]
        mask = torch.ones(length, length, dtype=torch.bool, device=words.device).triu(1)
        return self.head(self.decoder(self.words(words), memory, tgt_mask=mask))


def _vit_config(layers: int) -> Any:
    from transformers import ViTConfig

    return ViTConfig(
        hidden_size=WIDTH, num_hidden_layers=layers, num_attention_heads=HEADS, intermediate_size=4 * WIDTH
    )


def _gpt2_config(layers: int) -> Any:
    from transformers import GPT2Config

    return GPT2Config(
        vocab_size=VOCABULARY,
        n_positions=256,
        n_embd=WIDTH,
        n_layer=layers,
        n_head=HEADS,
        use_cache=False,
        bos_token_id=0,
        eos_token_id=0,
    )
