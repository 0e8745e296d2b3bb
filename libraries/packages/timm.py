"""timm: layers, and small versions of whole models."""

from __future__ import annotations

import timm
import timm.layers as layers
import torch
from timm import loss
from timm.models.mlp_mixer import MlpMixer

from libraries.inputs import Calls, calls, images, labelled, sequences, tensors
from libraries.targets import Target


def maps() -> Calls:
    return calls(lambda n: (torch.randn(n, 16, 8, 8),))


def model(name: str, size: int = 32, **options) -> Target:
    return Target(timm.create_model(name, num_classes=5, **options), images(size=size, batches=(2, 3)))


def vit(**options) -> Target:
    return model(
        "vit_tiny_patch16_224",
        img_size=32,
        patch_size=8,
        embed_dim=32,
        depth=2,
        num_heads=2,
        dynamic_img_size=True,
        **options,
    )


TARGETS = {
    "Attention": lambda: Target(layers.Attention(16, 4), sequences(16)),
    "AttentionRope": lambda: Target(layers.AttentionRope(16, 4), sequences(16)),
    "AttentionPoolLatent": lambda: Target(layers.AttentionPoolLatent(16, num_heads=4), sequences(16)),
    "DiffAttention": lambda: Target(layers.DiffAttention(16, 2), sequences(16)),
    "AttentionPool2d": lambda: Target(layers.AttentionPool2d(16, feat_size=8, num_heads=4), maps()),
    "RotAttentionPool2d": lambda: Target(layers.RotAttentionPool2d(16, ref_feat_size=8, num_heads=4), maps()),
    "BatNonLocalAttn": lambda: Target(layers.BatNonLocalAttn(16, block_size=4), maps()),
    "BlurPool2d": lambda: Target(layers.BlurPool2d(16), maps()),
    "CecaModule": lambda: Target(layers.CecaModule(16), maps()),
    "CondConv2d": lambda: Target(
        layers.CondConv2d(4, 8, 3, padding=1, num_experts=2),
        calls(lambda n: (torch.randn(n, 4, 8, 8), torch.rand(n, 2))),
    ),
    "Conv2dSame": lambda: Target(layers.Conv2dSame(16, 8, 3, stride=2), maps()),
    "ConvNormAct": lambda: Target(layers.ConvNormAct(16, 8, 3), maps()),
    "BatchNormAct2d": lambda: Target(layers.BatchNormAct2d(16), maps()),
    "DropBlock2d": lambda: Target(layers.DropBlock2d(0.2, 3), maps()),
    "DropPath": lambda: Target(layers.DropPath(0.3), maps()),
    "EcaModule": lambda: Target(layers.EcaModule(16), maps()),
    "EvoNorm2dB0": lambda: Target(layers.EvoNorm2dB0(16), maps()),
    "EvoNorm2dS0": lambda: Target(layers.EvoNorm2dS0(16, groups=4), maps()),
    "FilterResponseNormTlu2d": lambda: Target(layers.FilterResponseNormTlu2d(16), maps()),
    "GatherExcite": lambda: Target(layers.GatherExcite(16, extent=2, use_mlp=False), maps()),
    "GlobalContext": lambda: Target(layers.GlobalContext(16), maps()),
    "GlobalResponseNormMlp": lambda: Target(
        layers.GlobalResponseNormMlp(16, 32), calls(lambda n: (torch.randn(n, 4, 4, 16),))
    ),
    "GluMlp": lambda: Target(layers.GluMlp(16, 32), sequences(16)),
    "SwiGLU": lambda: Target(layers.SwiGLU(16, 32), sequences(16)),
    "LayerNorm2d": lambda: Target(layers.LayerNorm2d(16), maps()),
    "RmsNorm": lambda: Target(layers.RmsNorm(16), sequences(16)),
    "MixedConv2d": lambda: Target(layers.MixedConv2d(16, 16, [3, 5]), maps()),
    "MultiQueryAttention2d": lambda: Target(layers.MultiQueryAttention2d(16, num_heads=4), maps()),
    "NonLocalAttn": lambda: Target(layers.NonLocalAttn(16), maps()),
    "PatchDropout": lambda: Target(layers.PatchDropout(0.5), sequences(8)),
    "PatchEmbed": lambda: Target(layers.PatchEmbed(16, 4, 3, 8), images()),
    "RelPosBias": lambda: Target(layers.RelPosBias((4, 4), 2), tensors(2, 16, 16)),
    "RelPosMlp": lambda: Target(layers.RelPosMlp((4, 4), 2, 16), tensors(2, 16, 16)),
    "Mlp": lambda: Target(layers.Mlp(16, 32), sequences(16)),
    "SelectAdaptivePool2d": lambda: Target(layers.SelectAdaptivePool2d(pool_type="avgmax", flatten=True), maps()),
    "SelectiveKernel": lambda: Target(layers.SelectiveKernel(16, 16), maps()),
    "SplitAttn": lambda: Target(layers.SplitAttn(16, 16), maps()),
    "SplitBatchNorm2d": lambda: Target(
        layers.SplitBatchNorm2d(16, num_splits=2), calls(lambda n: (torch.randn(n, 16, 8, 8),), (2, 4, 6))
    ),
    "SqueezeExcite": lambda: Target(layers.SqueezeExcite(16), maps()),
    "ScaledStdConv2d": lambda: Target(layers.ScaledStdConv2d(16, 8, 3), maps()),
    "SpaceToDepth": lambda: Target(layers.SpaceToDepth(4), maps()),
    "TestTimePoolHead": lambda: Target(layers.SimPool2d(16, num_heads=2), maps()),
    "JsdCrossEntropy": lambda: Target(loss.JsdCrossEntropy(3), labelled(4, 3, (9, 12, 15))),
    "LabelSmoothingCrossEntropy": lambda: Target(loss.LabelSmoothingCrossEntropy(), labelled(4, 3)),
    "AsymmetricLossMultiLabel": lambda: Target(
        loss.AsymmetricLossMultiLabel(), calls(lambda n: (torch.randn(n, 4), (torch.rand(n, 4) > 0.5).float()))
    ),
    "vit": vit,
    "vit_features": lambda: Target(vit().target.forward_features, images(size=32, batches=(2, 3))),
    "mobilenetv3": lambda: model("mobilenetv3_small_050"),
    "convnext": lambda: model("convnext_atto", depths=(1, 1, 1, 1), dims=(8, 16, 24, 32)),
    "swin": lambda: model(
        "swin_tiny_patch4_window7_224", img_size=32, window_size=4, embed_dim=16, depths=(1, 1), num_heads=(2, 2)
    ),
    "mixer": lambda: Target(
        MlpMixer(num_classes=5, img_size=32, patch_size=8, embed_dim=32, num_blocks=2),
        images(size=32, batches=(2, 3)),
    ),
    "resnet10t": lambda: model("resnet10t"),
}
