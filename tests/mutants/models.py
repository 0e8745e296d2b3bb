"""Small configurations of the models the suites cover, with weights as lively as trained ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import transformers
from torch import nn

Inputs = dict[str, torch.Tensor]
TEXT = {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
DECODER = TEXT | {"max_position_embeddings": 32, "use_cache": False, "bos_token_id": 1, "eos_token_id": 2}
IMAGE = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 48,
    "image_size": 16,
    "patch_size": 4,
    "num_labels": 7,
}


def tokens(batch: int = 8, length: int = 20) -> Inputs:
    mask = torch.ones(batch, length, dtype=torch.int64)
    mask[1::2, length - 3 :] = 0
    return {"input_ids": torch.randint(3, 64, (batch, length)), "attention_mask": mask}


def pixels(size: int = 16) -> Inputs:
    return {"pixel_values": torch.randn(8, 3, size, size)}


def bert() -> nn.Module:
    return transformers.BertForMaskedLM(transformers.BertConfig(**TEXT, max_position_embeddings=32))


def distilbert() -> nn.Module:
    config = transformers.DistilBertConfig(vocab_size=64, dim=32, n_layers=2, n_heads=2, hidden_dim=48)
    return transformers.DistilBertForSequenceClassification(config)


def electra() -> nn.Module:
    config = transformers.ElectraConfig(**TEXT, embedding_size=16, max_position_embeddings=32)
    return transformers.ElectraForTokenClassification(config)


def gpt2() -> nn.Module:
    config = transformers.GPT2Config(
        vocab_size=64, n_embd=32, n_layer=2, n_head=2, n_positions=32, use_cache=False, bos_token_id=1, eos_token_id=2
    )
    return transformers.GPT2LMHeadModel(config)


def llama() -> nn.Module:
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**DECODER, num_key_value_heads=1))


def qwen2() -> nn.Module:
    return transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**DECODER, num_key_value_heads=2))


def opt() -> nn.Module:
    config = transformers.OPTConfig(
        vocab_size=64,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        ffn_dim=48,
        word_embed_proj_dim=32,
        max_position_embeddings=32,
        use_cache=False,
        bos_token_id=1,
        eos_token_id=2,
    )
    return transformers.OPTForCausalLM(config)


def t5() -> nn.Module:
    config = transformers.T5Config(
        vocab_size=64,
        d_model=32,
        d_kv=16,
        d_ff=48,
        num_layers=1,
        num_heads=2,
        use_cache=False,
        decoder_start_token_id=0,
    )
    return transformers.T5ForConditionalGeneration(config)


def t5_inputs() -> Inputs:
    return tokens() | {"decoder_input_ids": torch.randint(3, 64, (8, 12))}


def vit() -> nn.Module:
    return transformers.ViTForImageClassification(transformers.ViTConfig(**IMAGE))


def convnext() -> nn.Module:
    config = transformers.ConvNextConfig(hidden_sizes=[8, 16], depths=[1, 1], num_stages=2, patch_size=2, num_labels=7)
    return transformers.ConvNextForImageClassification(config)


def resnet() -> nn.Module:
    config = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic", num_labels=7
    )
    return transformers.ResNetForImageClassification(config)


def mobilenet() -> nn.Module:
    import torchvision

    setting = [[1, 8, 1, 1], [2, 16, 1, 2]]
    return torchvision.models.MobileNetV2(num_classes=7, width_mult=0.25, inverted_residual_setting=setting)


def swin() -> nn.Module:
    config = transformers.SwinConfig(
        image_size=16, patch_size=2, embed_dim=16, depths=[1, 1], num_heads=[2, 2], window_size=4, num_labels=7
    )
    return transformers.SwinForImageClassification(config)


class UNet(nn.Module):
    """Down, attention in the middle, up with a skip connection, as diffusion models do."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.GroupNorm(2, 8)
        self.down = nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.time = nn.Linear(8, 16)
        self.up = nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.last = nn.Conv2d(16, 3, 3, padding=1)

    def forward(self, pixel_values: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        start = nn.functional.silu(self.norm(self.first(pixel_values)))
        half = self.down(start) + self.time(time)[:, :, None, None]
        flat = half.flatten(2).transpose(1, 2)
        half = half + self.attention(flat, flat, flat, need_weights=False)[0].transpose(1, 2).reshape(half.shape)
        return self.last(torch.cat([self.up(nn.functional.silu(half)), start], dim=1))


def unet_inputs() -> Inputs:
    return {"pixel_values": torch.randn(8, 3, 8, 8), "time": torch.randn(8, 8)}


class GAN(nn.Sequential):
    """A DCGAN generator."""

    def __init__(self) -> None:
        super().__init__(
            nn.ConvTranspose2d(8, 16, 4, bias=False),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.ConvTranspose2d(16, 8, 4, 2, 1, bias=False),
            nn.BatchNorm2d(8),
            nn.LeakyReLU(0.2),
            nn.ConvTranspose2d(8, 3, 4, 2, 1),
            nn.Tanh(),
        )


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], Inputs]]] = {
    "bert": (bert, tokens),
    "distilbert": (distilbert, tokens),
    "electra": (electra, tokens),
    "gpt2": (gpt2, tokens),
    "llama": (llama, tokens),
    "qwen2": (qwen2, tokens),
    "opt": (opt, tokens),
    "t5": (t5, t5_inputs),
    "vit": (vit, pixels),
    "swin": (swin, pixels),
    "convnext": (convnext, pixels),
    "resnet": (resnet, lambda: pixels(24)),
    "mobilenet": (mobilenet, lambda: {"x": torch.randn(8, 3, 24, 24)}),
    "unet": (UNet, unet_inputs),
    "dcgan": (GAN, lambda: {"input": torch.randn(8, 8, 1, 1)}),
}


SUITE_MODELS = (
    "regnet", "densenet", "mobilenet_v3", "shufflenet_v2", "efficientnet", "deberta_v2", "modernbert", "gemma3",
    "mixtral", "dinov2", "segformer", "clip",
)  # fmt: skip


def _of_the_suites(name: str) -> tuple[Callable[[], nn.Module], Callable[[], Inputs]]:
    """A model of the suites as it stands there, on inputs of its largest sizes."""

    def entry() -> Any:
        from suites.transformers.models import MODELS as texts
        from suites.vision.models import MODELS as images

        return next(model for model in (*images, *texts) if model.name == name)

    def inputs() -> Inputs:
        model = entry()
        return dict(model.inputs(**{size: max(values) for size, values in model.sizes.items()}))

    return lambda: entry().make(), inputs


MODELS |= {name: _of_the_suites(name) for name in SUITE_MODELS}


def make_model(name: str, dtype: torch.dtype, *, train: bool, seed: int = 0, device: str = "cpu") -> nn.Module:
    """The model, with weights drawn anew."""
    torch.manual_seed(seed)
    module = MODELS[name][0]()
    enliven(module)
    if hasattr(module, "config"):
        module.config.output_hidden_states = True
    return module.to(device=device, dtype=dtype).train(train)


def make_inputs(name: str, dtype: torch.dtype, seed: int, device: str = "cpu") -> Inputs:
    """Inputs by keyword."""
    torch.manual_seed(seed)
    inputs = MODELS[name][1]()
    return {k: (v.to(dtype) if v.is_floating_point() else v).to(device) for k, v in inputs.items()}


def enliven(module: nn.Module) -> None:
    """Weights like those of a trained model: library defaults of 0.02, 0 and 1 leave attention flat and biases idle."""
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if parameter.dim() > 1:
                fan_in = parameter.shape[-1] if "embed" in name else parameter[0].numel()
                parameter.normal_(0, 1.2 / math.sqrt(fan_in))
            elif name.endswith("weight"):
                parameter.normal_(1, 0.2)
            else:
                parameter.normal_(0, 0.2)
        for name, buffer in module.named_buffers():
            if name.endswith("running_mean"):
                buffer.normal_(0, 0.2)
            elif name.endswith("running_var"):
                buffer.uniform_(0.5, 1.5)


def trained_arguments(inputs: Inputs, train: bool) -> dict[str, Any]:
    """The inputs; the first floating one asks for its gradient in training."""
    for value in inputs.values():
        if train and value.is_floating_point():
            value.requires_grad_()
            break
    return inputs
