"""Count false alarms on ordinary small models that Inductor compiles, in training and in inference:

    python benchmarks/false_alarms.py [SEEDS] [FIRST SEED] [DEVICE] [DTYPE]

All models are correct, so every finding is a false alarm. A seed takes about 10 s on a CPU with filled compile caches.
The default is float32 on a CPU.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from pytest_torch_compile import CompileCheckFailed, check_compile

Case = tuple[nn.Module, tuple[Any, ...], Callable[[Any], torch.Tensor]]


class Residual(nn.Module):
    """Two convolutions with a normalization each, and a skip connection."""

    def __init__(self, channels: int, norm: Callable[[int], nn.Module]) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)
        self.norms = nn.ModuleList([norm(channels), norm(channels)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = F.relu(self.norms[0](self.first(x)))
        return F.relu(x + self.norms[1](self.second(hidden)))


class Separable(nn.Module):
    """A depthwise convolution and two pointwise ones, with dropout."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(channels, channels, 5, padding=2, groups=channels),
            nn.GroupNorm(8, channels),
            nn.Conv2d(channels, 4 * channels, 1),
            nn.GELU(),
            nn.Dropout(0.1),
            nn.Conv2d(4 * channels, channels, 1),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.layers(x)


class Autoencoder(nn.Module):
    """A variational autoencoder, which draws random numbers after a convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(3, 64, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(64, 128, 4, 2, 1))
        self.decoder = nn.Sequential(
            nn.ConvTranspose2d(64, 64, 4, 2, 1),
            nn.BatchNorm2d(64),
            nn.ReLU(),
            nn.ConvTranspose2d(64, 3, 4, 2, 1),
            nn.Sigmoid(),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean, log_variance = self.encoder(x).chunk(2, 1)
        return self.decoder(mean + torch.randn_like(mean) * (0.5 * log_variance).exp())


class Attention(nn.Module):
    """Causal self-attention after an RMS norm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm, self.heads = nn.RMSNorm(width), heads
        self.inputs, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.inputs(self.norm(x)).chunk(3, -1)
        query, key, value = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        attended = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return x + self.output(attended.transpose(1, 2).flatten(2))


class LanguageModel(nn.Module):
    """An embedding, attention and a gated feed-forward layer, which returns the loss."""

    def __init__(self, words: int, width: int) -> None:
        super().__init__()
        self.embedding, self.attention = nn.Embedding(words, width), Attention(width, 4)
        self.norm, self.gate = nn.RMSNorm(width), nn.Linear(width, 8 * width)
        self.down, self.head = nn.Linear(4 * width, width), nn.Linear(width, words, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.attention(self.embedding(tokens))
        gate, up = self.gate(self.norm(x)).chunk(2, -1)
        logits = self.head(x + self.down(F.silu(gate) * up))
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


class GraphAttention(nn.Module):
    """Attention over the edges of a graph, with sums over the edges of each node."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.score = nn.Linear(32, 32), nn.Linear(64, 1)

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        nodes = self.linear(x)
        both = torch.cat([nodes[edges[0]], nodes[edges[1]]], -1)
        weights = F.leaky_relu(self.score(both), 0.2).exp()
        total = x.new_zeros(len(x), 1).index_add(0, edges[1], weights)
        summed = torch.zeros_like(nodes).index_add(0, edges[1], weights * nodes[edges[0]])
        return F.elu(summed / (total + 1e-9))


def square(output: torch.Tensor) -> torch.Tensor:
    return output.square().mean()


def of_first_class(output: torch.Tensor) -> torch.Tensor:
    return -output[:, 0].mean()


def residual(channels: int, size: int) -> Case:
    return Residual(channels, nn.BatchNorm2d), (torch.randn(2, channels, size, size),), square


def pooled() -> Case:
    layers = [nn.Conv2d(3, 128, 7, 4, 3), nn.BatchNorm2d(128), nn.ReLU6(), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1)]
    model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(128, 100), nn.LogSoftmax(-1))
    return model, (torch.randn(8, 3, 64, 64),), of_first_class


def perceptron() -> Case:
    layers = [nn.Linear(512, 2048), nn.ReLU(), nn.Dropout(0.1), nn.Linear(2048, 512), nn.ReLU(), nn.Linear(512, 10)]
    return nn.Sequential(*layers), (torch.randn(256, 512),), square


def speech() -> Case:
    layers = [nn.Conv1d(80, 256, 5, padding=2), nn.BatchNorm1d(256), nn.ReLU(), nn.Conv1d(256, 256, 5, padding=2)]
    return nn.Sequential(*layers, nn.GLU(1)), (torch.randn(4, 80, 200),), square


def volume() -> Case:
    layers = [nn.Conv3d(4, 32, 3, padding=1), nn.InstanceNorm3d(32, affine=True), nn.LeakyReLU()]
    return (
        nn.Sequential(*layers, nn.Conv3d(32, 8, 3, padding=1), nn.Softmax(1)),
        (torch.randn(1, 4, 16, 16, 16),),
        square,
    )


CASES: dict[str, Callable[[], Case]] = {
    "two residual blocks": lambda: (
        nn.Sequential(Residual(64, nn.BatchNorm2d), Residual(64, nn.BatchNorm2d)),
        (torch.randn(2, 64, 28, 28),),
        square,
    ),
    "residual block": lambda: residual(256, 14),
    "group norm": lambda: (
        Residual(64, lambda channels: nn.GroupNorm(8, channels)),
        (torch.randn(2, 64, 30, 30),),
        square,
    ),
    "separable": lambda: (Separable(96), (torch.randn(2, 96, 14, 14),), square),
    "pooled": pooled,
    "autoencoder": lambda: (Autoencoder(), (torch.randn(4, 3, 32, 32),), square),
    "perceptron": perceptron,
    "encoder layer": lambda: (
        nn.TransformerEncoderLayer(128, 4, 512, batch_first=True),
        (torch.randn(4, 64, 128),),
        square,
    ),
    "language model": lambda: (LanguageModel(1000, 128), (torch.randint(0, 1000, (4, 64)),), lambda loss: loss),
    "graph attention": lambda: (GraphAttention(), (torch.randn(200, 32), torch.randint(0, 200, (2, 2000))), square),
    "speech": speech,
    "volume": volume,
}


def main(seeds: str = "5", first: str = "0", device: str = "cpu", dtype: str = "float32") -> None:
    warnings.simplefilter("ignore")
    precision = getattr(torch, dtype)
    checks = alarms = 0
    for seed in range(int(first), int(first) + int(seeds)):
        for name, make in CASES.items():
            torch.manual_seed(seed)
            torch._dynamo.reset()
            model, inputs, loss = make()
            model.to(device, precision)
            inputs = tuple(x.to(device, precision if x.is_floating_point() else x.dtype) for x in inputs)
            for train in (True, False):
                checks += 1
                try:
                    check_compile(
                        model.train(train), *inputs, train=loss if train else False, diagnose="off", seed=seed
                    )
                except CompileCheckFailed as failed:
                    alarms += 1
                    print(f"{name}, seed {seed}, train={train}: {failed.findings[0].message}")
        print(f"{alarms} false alarms in {checks} checks", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
