"""torchmetrics: functions, and metrics that keep state from call to call."""

from __future__ import annotations

from functools import partial

import torch
import torchmetrics as tm
import torchmetrics.functional as f
from torchmetrics.functional import image, text  # noqa: F401

from libraries.inputs import Calls, calls, image_pairs, pairs
from libraries.targets import Target


def classes() -> Calls:
    return calls(lambda n: (torch.randn(n, 4).softmax(-1), torch.arange(n) % 4), (8, 10, 13))


def binary() -> Calls:
    return calls(lambda n: (torch.rand(n), torch.arange(n) % 2), (8, 10, 13))


def multilabel() -> Calls:
    return calls(lambda n: (torch.rand(n, 4), torch.randint(0, 2, (n, 4))), (8, 10, 13))


def vectors() -> Calls:
    return calls(lambda n: (torch.randn(n), torch.randn(n)), (8, 10, 13))


def metric(made: tm.Metric, inputs: Calls) -> Target:
    """A target that calls a metric, which updates the metric's state and returns the value for the batch."""
    return Target(made, inputs, train=False)


def update(made: tm.Metric, inputs: Calls) -> Target:
    return Target(made.update, inputs, train=False)


TARGETS = {
    "accuracy": lambda: Target(lambda x, y: f.accuracy(x, y, "multiclass", num_classes=4), classes(), train=False),
    "auroc": lambda: Target(lambda x, y: f.auroc(x, y, "binary"), binary(), train=False),
    "auroc_binned": lambda: Target(partial(f.auroc, task="binary", thresholds=5), binary(), train=False),
    "average_precision": lambda: Target(lambda x, y: f.average_precision(x, y, "binary"), binary(), train=False),
    "calibration_error": lambda: Target(lambda x, y: f.calibration_error(x, y, "binary"), binary(), train=False),
    "cohen_kappa": lambda: Target(
        lambda x, y: f.cohen_kappa(x, y, "multiclass", num_classes=4), classes(), train=False
    ),
    "confusion_matrix": lambda: Target(
        lambda x, y: f.confusion_matrix(x, y, "multiclass", num_classes=4), classes(), train=False
    ),
    "f1_score": lambda: Target(lambda x, y: f.f1_score(x, y, "multiclass", num_classes=4), classes(), train=False),
    "hamming_distance": lambda: Target(
        lambda x, y: f.hamming_distance(x, y, "multilabel", num_labels=4), multilabel(), train=False
    ),
    "hinge_loss": lambda: Target(lambda x, y: f.hinge_loss(x, y, "multiclass", num_classes=4), classes()),
    "jaccard_index": lambda: Target(
        lambda x, y: f.jaccard_index(x, y, "multiclass", num_classes=4), classes(), train=False
    ),
    "matthews_corrcoef": lambda: Target(lambda x, y: f.matthews_corrcoef(x, y, "binary"), binary(), train=False),
    "precision_recall_curve": lambda: Target(
        lambda x, y: f.precision_recall_curve(x, y, "binary", thresholds=5), binary(), train=False
    ),
    "multilabel_coverage": lambda: Target(
        lambda x, y: f.classification.multilabel_coverage_error(x, y, 4), multilabel(), train=False
    ),
    "concordance_corrcoef": lambda: Target(f.concordance_corrcoef, vectors()),
    "cosine_similarity": lambda: Target(f.cosine_similarity, pairs(4)),
    "explained_variance": lambda: Target(f.explained_variance, vectors()),
    "kendall": lambda: Target(f.kendall_rank_corrcoef, vectors(), train=False),
    "kl_divergence": lambda: Target(
        f.kl_divergence, calls(lambda n: (torch.rand(n, 4).softmax(-1), torch.rand(n, 4).softmax(-1)))
    ),
    "log_cosh_error": lambda: Target(f.log_cosh_error, vectors()),
    "mean_absolute_error": lambda: Target(f.mean_absolute_error, vectors()),
    "mean_squared_error": lambda: Target(f.mean_squared_error, vectors()),
    "pearson_corrcoef": lambda: Target(f.pearson_corrcoef, vectors()),
    "r2_score": lambda: Target(f.r2_score, vectors()),
    "spearman_corrcoef": lambda: Target(f.spearman_corrcoef, vectors(), train=False),
    "pairwise_cosine": lambda: Target(f.pairwise_cosine_similarity, pairs(4)),
    "pairwise_euclidean": lambda: Target(f.pairwise_euclidean_distance, pairs(4)),
    "psnr": lambda: Target(lambda x, y: f.image.peak_signal_noise_ratio(x, y, 1.0), image_pairs(size=8)),
    "ssim": lambda: Target(f.image.structural_similarity_index_measure, image_pairs()),
    "total_variation": lambda: Target(f.image.total_variation, calls(lambda n: (torch.rand(n, 3, 8, 8),))),
    "uqi": lambda: Target(f.image.universal_image_quality_index, image_pairs()),
    "image_gradients": lambda: Target(f.image.image_gradients, calls(lambda n: (torch.rand(n, 3, 8, 8),))),
    "si_sdr": lambda: Target(f.audio.scale_invariant_signal_distortion_ratio, pairs(32)),
    "snr": lambda: Target(f.audio.signal_noise_ratio, pairs(32)),
    "retrieval_ndcg": lambda: Target(
        f.retrieval_normalized_dcg, calls(lambda n: (torch.rand(n), torch.arange(n) % 2), (8, 10, 13)), train=False
    ),
    "perplexity": lambda: Target(
        f.text.perplexity, calls(lambda n: (torch.randn(2, n, 6).softmax(-1), torch.randint(0, 6, (2, n))), (4, 6, 7))
    ),
    "MeanSquaredError": lambda: metric(tm.MeanSquaredError(), vectors()),
    "MeanMetric": lambda: metric(tm.MeanMetric(), calls(lambda n: (torch.randn(n),))),
    "Accuracy": lambda: metric(tm.Accuracy("multiclass", num_classes=4), classes()),
    "Accuracy.update": lambda: update(tm.Accuracy("multiclass", num_classes=4), classes()),
    "MeanSquaredError.update": lambda: update(tm.MeanSquaredError(), vectors()),
    "CatMetric.update": lambda: update(tm.CatMetric(), calls(lambda n: (torch.randn(n),))),
    "ConfusionMatrix": lambda: metric(tm.ConfusionMatrix("multiclass", num_classes=4), classes()),
    "PearsonCorrCoef": lambda: metric(tm.PearsonCorrCoef(), vectors()),
}
