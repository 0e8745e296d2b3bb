"""pytorch-metric-learning: losses, distances, miners, reducers."""

from __future__ import annotations

import torch
from pytorch_metric_learning import distances, losses, miners, regularizers

from libraries.inputs import Calls, labelled, pairs
from libraries.targets import Target


def batch() -> Calls:
    return labelled(8, 4)


def distance(made: torch.nn.Module) -> Target:
    return Target(made, pairs(8))


def miner(made: torch.nn.Module) -> Target:
    return Target(made, batch(), train=False)


TARGETS = {
    "AngularLoss": lambda: Target(losses.AngularLoss(), batch()),
    "ArcFaceLoss": lambda: Target(losses.ArcFaceLoss(4, 8), batch()),
    "CircleLoss": lambda: Target(losses.CircleLoss(), batch()),
    "ContrastiveLoss": lambda: Target(losses.ContrastiveLoss(), batch()),
    "CosFaceLoss": lambda: Target(losses.CosFaceLoss(4, 8), batch()),
    "CrossBatchMemory": lambda: Target(losses.CrossBatchMemory(losses.ContrastiveLoss(), 8, 16), batch()),
    "DynamicSoftMarginLoss": lambda: Target(losses.DynamicSoftMarginLoss(), batch(), train=False),
    "FastAPLoss": lambda: Target(losses.FastAPLoss(), batch()),
    "IntraPairVarianceLoss": lambda: Target(losses.IntraPairVarianceLoss(), batch()),
    "LargeMarginSoftmaxLoss": lambda: Target(losses.LargeMarginSoftmaxLoss(4, 8), batch()),
    "LiftedStructureLoss": lambda: Target(losses.LiftedStructureLoss(), batch()),
    "MarginLoss": lambda: Target(losses.MarginLoss(), batch()),
    "MultiSimilarityLoss": lambda: Target(losses.MultiSimilarityLoss(), batch()),
    "NCALoss": lambda: Target(losses.NCALoss(), batch()),
    "NormalizedSoftmaxLoss": lambda: Target(losses.NormalizedSoftmaxLoss(4, 8), batch()),
    "NTXentLoss": lambda: Target(losses.NTXentLoss(), batch()),
    "PNPLoss": lambda: Target(losses.PNPLoss(), batch()),
    "ProxyAnchorLoss": lambda: Target(losses.ProxyAnchorLoss(4, 8), batch()),
    "ProxyNCALoss": lambda: Target(losses.ProxyNCALoss(4, 8), batch()),
    "SoftTripleLoss": lambda: Target(losses.SoftTripleLoss(4, 8, 2), batch()),
    "SphereFaceLoss": lambda: Target(losses.SphereFaceLoss(4, 8), batch()),
    "SubCenterArcFaceLoss": lambda: Target(losses.SubCenterArcFaceLoss(num_classes=4, embedding_size=8), batch()),
    "SupConLoss": lambda: Target(losses.SupConLoss(), batch()),
    "TripletMarginLoss": lambda: Target(losses.TripletMarginLoss(), batch()),
    "CosineSimilarity": lambda: distance(distances.CosineSimilarity()),
    "DotProductSimilarity": lambda: distance(distances.DotProductSimilarity()),
    "LpDistance": lambda: distance(distances.LpDistance()),
    "SNRDistance": lambda: distance(distances.SNRDistance()),
    "BatchHardMiner": lambda: miner(miners.BatchHardMiner()),
    "MultiSimilarityMiner": lambda: miner(miners.MultiSimilarityMiner()),
    "TripletMarginMiner": lambda: miner(miners.TripletMarginMiner()),
    "RegularFaceRegularizer": lambda: Target(
        losses.NormalizedSoftmaxLoss(4, 8, weight_regularizer=regularizers.RegularFaceRegularizer()), batch()
    ),
}
