"""monai: blocks, losses and small networks for medical images."""

from __future__ import annotations

import torch
from monai import losses
from monai.networks import blocks, layers, nets

from libraries.inputs import Calls, calls, image_pairs, pairs, sequences
from libraries.targets import Target


def maps(channels: int = 4, size: int = 8, batches: tuple[int, ...] = (2, 3, 5)) -> Calls:
    return calls(lambda n: (torch.randn(n, channels, size, size),), batches)


def masks(classes: int = 3) -> Calls:
    return calls(lambda n: (torch.randn(n, classes, 8, 8), torch.randint(0, classes, (n, 1, 8, 8))))


def one_hot() -> Calls:
    return calls(lambda n: (torch.rand(n, 2, 8, 8), (torch.rand(n, 2, 8, 8) > 0.5).float()))


def few(channels: int = 1, size: int = 16) -> Calls:
    return maps(channels, size, (2, 3))


TARGETS = {
    "Convolution": lambda: Target(blocks.Convolution(2, 4, 8), maps()),
    "Convolution_transposed": lambda: Target(blocks.Convolution(2, 4, 8, strides=2, is_transposed=True), maps()),
    "ResidualUnit": lambda: Target(blocks.ResidualUnit(2, 4, 8, subunits=1), maps()),
    "ADN": lambda: Target(blocks.ADN("NDA", 4, "relu", "batch", 2, 0.2, 2), maps()),
    "ChannelSELayer": lambda: Target(blocks.ChannelSELayer(2, 4), maps()),
    "ResidualSELayer": lambda: Target(blocks.ResidualSELayer(2, 4), maps()),
    "SimpleASPP": lambda: Target(blocks.SimpleASPP(2, 4, 4), maps()),
    "MLPBlock": lambda: Target(blocks.MLPBlock(16, 32), sequences(16)),
    "SABlock": lambda: Target(blocks.SABlock(16, 2), sequences(16)),
    "CrossAttentionBlock": lambda: Target(blocks.CrossAttentionBlock(16, 2), sequences(16)),
    "TransformerBlock": lambda: Target(blocks.TransformerBlock(16, 32, 2), sequences(16)),
    "SpatialAttentionBlock": lambda: Target(blocks.SpatialAttentionBlock(2, 4, norm_num_groups=2), maps()),
    "PatchEmbeddingBlock": lambda: Target(blocks.PatchEmbeddingBlock(4, 8, 4, 16, 2, spatial_dims=2), maps()),
    "UnetBasicBlock": lambda: Target(blocks.UnetBasicBlock(2, 4, 8, 3, 1, "instance"), maps()),
    "UnetResBlock": lambda: Target(blocks.UnetResBlock(2, 4, 8, 3, 1, "instance"), maps()),
    "UpSample": lambda: Target(blocks.UpSample(2, 4, 4), maps()),
    "SubpixelUpsample": lambda: Target(blocks.SubpixelUpsample(2, 4), maps()),
    "MaxAvgPool": lambda: Target(blocks.MaxAvgPool(2, 2), maps()),
    "Warp": lambda: Target(blocks.Warp(), calls(lambda n: (torch.rand(n, 1, 8, 8), torch.randn(n, 2, 8, 8)))),
    "DVF2DDF": lambda: Target(blocks.DVF2DDF(2), calls(lambda n: (torch.randn(n, 2, 8, 8),))),
    "MemoryEfficientSwish": lambda: Target(blocks.MemoryEfficientSwish(), maps()),
    "Mish": lambda: Target(blocks.Mish(), maps()),
    "GaussianFilter": lambda: Target(layers.GaussianFilter(2, 1.0), maps()),
    "MedianFilter": lambda: Target(layers.MedianFilter(1, 2), maps(1)),
    "Flatten": lambda: Target(layers.Flatten(), maps()),
    "DiceLoss": lambda: Target(losses.DiceLoss(to_onehot_y=True, softmax=True), masks()),
    "DiceCELoss": lambda: Target(losses.DiceCELoss(to_onehot_y=True, softmax=True), masks()),
    "FocalLoss": lambda: Target(losses.FocalLoss(to_onehot_y=True), masks()),
    "TverskyLoss": lambda: Target(losses.TverskyLoss(to_onehot_y=True, softmax=True), masks()),
    "GeneralizedDiceLoss": lambda: Target(losses.GeneralizedDiceLoss(to_onehot_y=True, softmax=True), masks()),
    "AsymmetricUnifiedFocalLoss": lambda: Target(losses.AsymmetricUnifiedFocalLoss(), one_hot()),
    "SoftclDiceLoss": lambda: Target(losses.SoftclDiceLoss(), one_hot()),
    "HausdorffDTLoss": lambda: Target(losses.HausdorffDTLoss(sigmoid=True, include_background=True), one_hot()),
    "BarlowTwinsLoss": lambda: Target(losses.BarlowTwinsLoss(), pairs(8, sizes=(4, 6, 7))),
    "ContrastiveLoss": lambda: Target(losses.ContrastiveLoss(), pairs(8, sizes=(4, 6, 7))),
    "BendingEnergyLoss": lambda: Target(losses.BendingEnergyLoss(), calls(lambda n: (torch.randn(n, 2, 8, 8),))),
    "DiffusionLoss": lambda: Target(losses.DiffusionLoss(), calls(lambda n: (torch.randn(n, 2, 8, 8),))),
    "SSIMLoss": lambda: Target(losses.SSIMLoss(2, win_size=5), image_pairs(1, 12)),
    "GlobalMutualInformationLoss": lambda: Target(losses.GlobalMutualInformationLoss(), image_pairs(1, 8)),
    "LocalNormalizedCrossCorrelationLoss": lambda: Target(
        losses.LocalNormalizedCrossCorrelationLoss(2), image_pairs(1, 8)
    ),
    "UNet": lambda: Target(nets.UNet(2, 1, 2, (4, 8), (2,)), few()),
    "AutoEncoder": lambda: Target(nets.AutoEncoder(2, 1, 1, (4, 8), (2, 2)), few()),
    "ViT": lambda: Target(nets.ViT(1, 16, 8, 16, 32, 1, 2, spatial_dims=2), few()),
    "FullyConnectedNet": lambda: Target(nets.FullyConnectedNet(8, 2, (4,)), calls(lambda n: (torch.randn(n, 8),))),
    "VQVAE": lambda: Target(
        nets.VQVAE(
            2,
            1,
            1,
            channels=(4, 8),
            num_res_layers=1,
            num_res_channels=(4, 8),
            downsample_parameters=((2, 4, 1, 1),) * 2,
            upsample_parameters=((2, 4, 1, 1, 0),) * 2,
            num_embeddings=8,
            embedding_dim=4,
        ),
        few(),
    ),
}
