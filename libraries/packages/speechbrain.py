"""speechbrain: layers over time, losses with lengths, features of speech."""

from __future__ import annotations

import torch
from speechbrain.lobes.models.ECAPA_TDNN import ECAPA_TDNN
from speechbrain.lobes.models.transformer.Conformer import ConformerEncoderLayer
from speechbrain.nnet import CNN, RNN, activations, attention, linear, losses, normalization, pooling
from speechbrain.processing import features

from libraries.inputs import Calls, calls, sequences
from libraries.targets import Target


def with_lengths(batch: int = 2) -> Calls:
    return calls(lambda n: (torch.randn(batch, n, 4), torch.randn(batch, n, 4), torch.tensor([1.0, 0.5])), (6, 8, 10))


def waves() -> Calls:
    return calls(lambda n: (torch.randn(2, n),), (800, 960, 1120))


def spectra() -> Calls:
    return calls(lambda n: (torch.rand(2, n, 11),), (6, 8, 10))


TARGETS = {
    "Conv1d": lambda: Target(CNN.Conv1d(8, 3, in_channels=4), sequences(4)),
    "Conv1d_causal": lambda: Target(CNN.Conv1d(8, 3, in_channels=4, padding="causal"), sequences(4)),
    "Conv2d": lambda: Target(
        CNN.Conv2d(8, (3, 3), in_channels=1), calls(lambda n: (torch.randn(2, n, 8, 1),), (6, 8, 10))
    ),
    "ConvTranspose1d": lambda: Target(CNN.ConvTranspose1d(8, 3, in_channels=4), sequences(4)),
    "DepthwiseSeparableConv1d": lambda: Target(CNN.DepthwiseSeparableConv1d(4, 3, (None, None, 4)), sequences(4)),
    "SincConv": lambda: Target(CNN.SincConv(4, 9, in_channels=1), calls(lambda n: (torch.randn(2, n),), (40, 48, 56))),
    "GaborConv1d": lambda: Target(
        CNN.GaborConv1d(4, 9, 1, in_channels=1), calls(lambda n: (torch.randn(2, n, 1),), (40, 48, 56))
    ),
    "MultiheadAttention": lambda: Target(
        attention.MultiheadAttention(2, 8), calls(lambda n: (torch.randn(2, n, 8),) * 3, (6, 8, 10))
    ),
    "RelPosMHAXL": lambda: Target(
        attention.RelPosMHAXL(8, 2),
        calls(lambda n: (torch.randn(2, n, 8),) * 3 + (torch.randn(1, 2 * n - 1, 8),), (6, 8, 10)),
    ),
    "RoPEMHA": lambda: Target(attention.RoPEMHA(8, 2), calls(lambda n: (torch.randn(2, n, 8),) * 3, (6, 8, 10))),
    "RelPosEncXL": lambda: Target(attention.RelPosEncXL(8), sequences(8), train=False),
    "PositionalwiseFeedForward": lambda: Target(attention.PositionalwiseFeedForward(16, input_size=8), sequences(8)),
    "BatchNorm1d": lambda: Target(normalization.BatchNorm1d(input_size=4), sequences(4)),
    "LayerNorm": lambda: Target(normalization.LayerNorm(4), sequences(4)),
    "InstanceNorm1d": lambda: Target(normalization.InstanceNorm1d(input_size=4), sequences(4)),
    "GroupNorm": lambda: Target(normalization.GroupNorm(input_size=4, num_groups=2), sequences(4)),
    "StatisticsPooling": lambda: Target(pooling.StatisticsPooling(), sequences(4)),
    "AttentionPooling": lambda: Target(pooling.AttentionPooling(4), sequences(4)),
    "Pooling1d": lambda: Target(pooling.Pooling1d("max", 2), sequences(4)),
    "AdaptivePool": lambda: Target(pooling.AdaptivePool(3), sequences(4)),
    "Softmax": lambda: Target(activations.Softmax(apply_log=True), sequences(4)),
    "Swish": lambda: Target(activations.Swish(), sequences(4)),
    "Linear": lambda: Target(linear.Linear(8, input_size=4), sequences(4)),
    "Linear_max_norm": lambda: Target(linear.Linear(8, input_size=4, max_norm=0.5), sequences(4)),
    "GRU": lambda: Target(RNN.GRU(4, input_size=4), sequences(4)),
    "LiGRU": lambda: Target(RNN.LiGRU(4, (2, 6, 4)), sequences(4, lengths=(4, 5, 6))),
    "QuasiRNN": lambda: Target(RNN.QuasiRNN(4, input_size=4), sequences(4, lengths=(4, 5, 6))),
    "mse_loss": lambda: Target(losses.mse_loss, with_lengths()),
    "l1_loss": lambda: Target(losses.l1_loss, with_lengths()),
    "cal_si_snr": lambda: Target(
        losses.cal_si_snr, calls(lambda n: (torch.randn(n, 2, 1), torch.randn(n, 2, 1)), (20, 24, 28)), train=False
    ),
    "AngularMargin": lambda: Target(
        losses.AngularMargin(0.2, 2.0),
        calls(lambda n: (torch.rand(n, 4), torch.nn.functional.one_hot(torch.arange(n) % 4, 4)), (4, 6, 7)),
    ),
    "AdditiveAngularMargin": lambda: Target(
        losses.AdditiveAngularMargin(0.2, 2.0),
        calls(lambda n: (torch.rand(n, 4), torch.nn.functional.one_hot(torch.arange(n) % 4, 4)), (4, 6, 7)),
    ),
    "STFT": lambda: Target(features.STFT(16000, n_fft=64, win_length=4, hop_length=2), waves()),
    "Filterbank": lambda: Target(features.Filterbank(n_mels=6, n_fft=20), spectra()),
    "DCT": lambda: Target(features.DCT(11, 5), spectra()),
    "Deltas": lambda: Target(features.Deltas(11), spectra()),
    "ContextWindow": lambda: Target(features.ContextWindow(2, 2), spectra()),
    "spectral_magnitude": lambda: Target(
        features.spectral_magnitude, calls(lambda n: (torch.randn(2, n, 5, 2),), (6, 8, 10))
    ),
    "InputNormalization": lambda: Target(
        features.InputNormalization(norm_type="sentence"),
        calls(lambda n: (torch.randn(2, n, 4), torch.tensor([1.0, 0.5])), (6, 8, 10)),
    ),
    "ConformerEncoderLayer": lambda: Target(
        ConformerEncoderLayer(8, 16, 2, 3, attention_type="regularMHA"),
        calls(lambda n: (torch.randn(2, n, 8),), (6, 8)),
    ),
    "ECAPA_TDNN": lambda: Target(
        ECAPA_TDNN(
            8,
            channels=[8, 8, 8],
            kernel_sizes=[3, 3, 1],
            dilations=[1, 2, 1],
            attention_channels=4,
            res2net_scale=2,
            se_channels=4,
            lin_neurons=4,
        ),
        calls(lambda n: (torch.randn(2, n, 8),), (12, 16)),
    ),
}
