"""vit-pytorch: vision transformers, each with one small block."""

from __future__ import annotations

import importlib

import torch

from libraries.inputs import Calls, calls, images
from libraries.targets import Target

SMALL = {"num_classes": 4, "dim": 16, "depth": 1, "heads": 2}


def few(channels: int = 3, size: int = 16) -> Calls:
    return images(channels, size, (2, 3))


def vit(module: str, name: str, **options) -> Target:
    """A model of the package. It is imported when it is built, because its module may require packages that are not
    installed."""
    made = getattr(importlib.import_module(f"vit_pytorch.{module}"), name)
    return Target(made(**options), few())


def plain(module: str, name: str, **options) -> Target:
    return vit(module, name, image_size=16, patch_size=8, mlp_dim=16, **SMALL, **options)


TARGETS = {
    "ViT": lambda: plain("vit", "ViT"),
    "ViT_mean_pool": lambda: plain("vit", "ViT", pool="mean"),
    "ViT_dropout": lambda: plain("vit", "ViT", dropout=0.1, emb_dropout=0.1),
    "SimpleViT": lambda: plain("simple_vit", "SimpleViT"),
    "DeepViT": lambda: plain("deepvit", "DeepViT"),
    "CaiT": lambda: plain("cait", "CaiT", cls_depth=1),
    "RvT": lambda: plain("rvt", "RvT"),
    "ParallelViT": lambda: plain("parallel_vit", "ViT"),
    "SmallDatasetViT": lambda: plain("vit_for_small_dataset", "ViT"),
    "PatchMerger": lambda: plain("vit_with_patch_merger", "ViT", patch_merge_layer=1, patch_merge_num_tokens=2),
    "PatchDropout": lambda: plain("vit_with_patch_dropout", "ViT", patch_dropout=0.5),
    "RegisterTokens": lambda: plain("simple_vit_with_register_tokens", "SimpleViT", num_register_tokens=2),
    "QkNorm": lambda: plain("simple_vit_with_qk_norm", "SimpleViT"),
    "FlashAttention": lambda: plain("simple_flash_attn_vit", "SimpleViT"),
    "ValueResidual": lambda: plain("simple_vit_with_value_residual", "SimpleViT"),
    "FftViT": lambda: plain("simple_vit_with_fft", "SimpleViT", freq_patch_size=8),
    "NormalizedViT": lambda: plain("normalized_vit", "nViT", dim_head=8),
    "LearnableMemory": lambda: plain("learnable_memory_vit", "ViT"),
    "CCT": lambda: vit(
        "cct",
        "CCT",
        img_size=16,
        embedding_dim=16,
        n_conv_layers=1,
        kernel_size=3,
        stride=2,
        padding=1,
        num_layers=1,
        num_heads=2,
        mlp_ratio=2.0,
        num_classes=4,
        positional_embedding="learnable",
    ),
    "T2TViT": lambda: vit("t2t", "T2TViT", image_size=16, t2t_layers=((3, 2), (3, 2)), mlp_dim=16, **SMALL),
    "PiT": lambda: vit(
        "pit", "PiT", image_size=16, patch_size=4, dim=16, num_classes=4, depth=(1, 1), heads=2, mlp_dim=16
    ),
    "XCiT": lambda: plain("xcit", "XCiT", cls_depth=1, local_patch_kernel_size=3),
    "ViT_1d": lambda: Target(
        importlib.import_module("vit_pytorch.vit_1d").ViT(seq_len=16, patch_size=4, channels=3, mlp_dim=16, **SMALL),
        calls(lambda n: (torch.randn(n, 3, 16),)),
    ),
    "SimpleViT_1d": lambda: Target(
        importlib.import_module("vit_pytorch.simple_vit_1d").SimpleViT(
            seq_len=16, patch_size=4, channels=3, mlp_dim=16, **SMALL
        ),
        calls(lambda n: (torch.randn(n, 3, 16),)),
    ),
    "Extractor": lambda: Target(
        importlib.import_module("vit_pytorch.extractor").Extractor(plain("vit", "ViT").target), few()
    ),
    "Recorder": lambda: Target(
        importlib.import_module("vit_pytorch.recorder").Recorder(plain("vit", "ViT").target), few()
    ),
    "LookViT": lambda: vit(
        "look_vit",
        "LookViT",
        dim=16,
        image_size=16,
        num_classes=4,
        depth=1,
        patch_size=8,
        heads=2,
        dim_head=8,
        highres_patch_size=4,
        cross_attn_heads=2,
        cross_attn_dim_head=8,
    ),
}
