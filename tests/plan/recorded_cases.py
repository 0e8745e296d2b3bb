"""What is recorded of a case, and the cases of small modules; ``suite_cases`` has the cases of the suites."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.optim.adamw import adamw
from torch.optim.sgd import sgd

BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32
LAST = torch.channels_last


@dataclass(frozen=True)
class Recorded:
    """A model and the arguments of its calls on the CPU.

    ``train`` is the loss, and ``optimizer`` creates the optimizer whose step ends each call. After the call with
    ``arguments``, the model is called with each of ``later``. ``breaks`` is the number of graph breaks. If
    ``reads_a_value`` is true, the model reads a value on the host, where a plan ends.
    """

    model: nn.Module
    arguments: dict[str, torch.Tensor]
    train: Callable[[Any], torch.Tensor] | None = None
    dynamic: bool | None = None
    mode: str | None = None
    optimizer: Callable[[Any], torch.optim.Optimizer] | None = None
    later: tuple[dict[str, torch.Tensor], ...] = ()
    breaks: int = 0
    reads_a_value: bool = False

    @property
    def calls(self) -> list[dict[str, torch.Tensor]]:
        """The arguments of each call."""
        return [self.arguments, *self.later]


def square(output: Any) -> torch.Tensor:
    return (output[0] if isinstance(output, tuple) else output).float().square().mean()


def _mlpnorm() -> Recorded:
    layers = nn.Linear(512, 2048), nn.GELU(), nn.LayerNorm(2048), nn.Linear(2048, 512)
    return Recorded(nn.Sequential(*layers).eval(), {"input": torch.randn(64, 512)})


def _encoder() -> Recorded:
    model = nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True).eval()
    return Recorded(model, {"src": torch.randn(8, 128, 256)})


def _half(case: Recorded) -> Recorded:
    return replace(case, model=case.model.to(BF16), arguments={name: x.to(BF16) for name, x in case.arguments.items()})


class Attention(nn.Module):
    """Attention with heads of a size, and a mask made in one of several ways."""

    def __init__(self, head: int = 64, mask: str = "", dropout: float = 0.0, kv_heads: int = 4) -> None:
        super().__init__()
        self.head, self.mask, self.dropout, self.kv_heads = head, mask, dropout, kv_heads
        self.q = nn.Linear(4 * head, 4 * head)
        self.kv = nn.Linear(4 * head, 2 * kv_heads * head)
        self.out = nn.Linear(4 * head, 4 * head)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        q = self.q(x).view(batch, length, 4, self.head).transpose(1, 2)
        k, v = self.kv(x).view(batch, length, 2, self.kv_heads, self.head).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(
            q, k, v, self._mask(x), self.dropout, self.mask == "causal", enable_gqa=self.kv_heads != 4
        )
        return self.out(y.transpose(1, 2).reshape(batch, length, -1))

    def _mask(self, x: torch.Tensor) -> torch.Tensor | None:
        batch, length, _ = x.shape
        if self.mask == "boolean":
            return torch.ones(length, length, dtype=torch.bool, device=x.device).tril()
        if self.mask == "additive":
            return torch.zeros(batch, 1, length, length, dtype=x.dtype, device=x.device)
        if self.mask == "padding":
            return (x[..., 0] > 0)[:, None, None, :].expand(batch, 1, length, length)
        if self.mask == "expanded":
            return (x[..., :1] > 0)[:, None].expand(batch, 1, length, length)
        return None


def _attention(dtype: torch.dtype = BF16, train: bool = False, length: int = 128, **options: Any) -> Recorded:
    model = Attention(**options)
    x = torch.randn(2, length, 4 * model.head, dtype=dtype)
    return Recorded(model.to(dtype).train(train), {"x": x}, square if train else None)


class Residual(nn.Module):
    def __init__(self, groups: bool = False) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(32, 32, 3, padding=1), nn.Conv2d(32, 32, 3, padding=1)
        self.norms = nn.ModuleList(nn.GroupNorm(4, 32) if groups else nn.BatchNorm2d(32) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norms[0](self.first(x)).relu()
        return F.adaptive_avg_pool2d((self.norms[1](self.second(y)) + x).relu(), 1).flatten(1)


def _convolutions(
    model: nn.Module, *size: int, dtype: torch.dtype = BF16, train: bool = False, last: bool = False
) -> Recorded:
    x = torch.randn(*size, dtype=dtype)
    model = model.to(dtype).train(train)
    if last:
        model, x = model.to(memory_format=LAST), x.to(memory_format=LAST)
    return Recorded(model, {next(iter(_names(model))): x}, square if train else None)


def _names(model: nn.Module) -> list[str]:
    return ["input"] if isinstance(model, nn.Sequential) else ["x"]


class Pointwise(nn.Module):
    """Chains of pointwise ops, reductions, indexing, sorting and concatenation."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(1000, 64)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.table(ids)
        y = torch.cat([x.sin(), x.flip(1), x.cumsum(1)], -1)
        top, _ = y.topk(8, dim=-1)
        return top.softmax(-1) + y.amax((1, 2), keepdim=True) + y.var(-1, keepdim=True).log1p()


class Dropped(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(256, 256), nn.Dropout(0.1), nn.SiLU(), nn.RMSNorm(256), nn.Dropout(0.2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x) + x


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.step, self.mix = nn.Linear(128, 64), nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state = x.new_zeros(x.shape[0], 64)
        for part in x.unbind(1):
            state = torch.tanh(self.step(torch.cat([part, state], -1)))
        return self.mix(state)


class Autocast(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(128, 256), nn.LayerNorm(256), nn.GELU(), nn.Linear(256, 10))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cuda", torch.bfloat16):
            return self.layers(x)


def _block(model: nn.Module, *size: int, dtype: torch.dtype = F32, train: bool = True, **more: Any) -> Recorded:
    model = model.to(dtype).train(train)
    name = next(iter(_names(model)))
    return Recorded(model, {name: torch.randn(*size, dtype=dtype)}, square if train else None, **more)


class AdamW(nn.Module):
    """A step of AdamW as a function of the gradients, which is compiled as a whole."""

    def __init__(self) -> None:
        super().__init__()
        weights = list(nn.Sequential(nn.Linear(256, 512), nn.LayerNorm(512), nn.Linear(512, 100)).parameters())
        self.count = len(weights)
        for number, weight in enumerate(weights):
            self.register_buffer(f"step{number}", torch.zeros(()))
            for name in ("weight", "mean", "square"):
                self.register_buffer(f"{name}{number}", torch.zeros_like(weight))

    def _all(self, name: str) -> list[torch.Tensor]:
        return [getattr(self, f"{name}{number}") for number in range(self.count)]

    def gradients(self) -> dict[str, torch.Tensor]:
        """Random gradients, by the name of the argument."""
        return {f"gradient{number}": torch.randn_like(weight) for number, weight in enumerate(self._all("weight"))}

    def forward(self, **gradients: torch.Tensor) -> None:
        adamw(
            self._all("weight"),
            list(gradients.values()),
            self._all("mean"),
            self._all("square"),
            [],
            self._all("step"),
            foreach=True,
            capturable=True,
            amsgrad=False,
            beta1=0.9,
            beta2=0.999,
            lr=1e-3,
            weight_decay=0.01,
            eps=1e-8,
            maximize=False,
        )


class SGD(AdamW):
    """A step of SGD with Nesterov's momentum as a function of the gradients."""

    def forward(self, **gradients: torch.Tensor) -> None:
        sgd(
            self._all("weight"),
            list(gradients.values()),
            self._all("mean"),
            foreach=True,
            weight_decay=0.01,
            momentum=0.9,
            lr=0.1,
            dampening=0.0,
            nesterov=True,
            maximize=False,
        )


def _step(model: AdamW) -> Recorded:
    return Recorded(model, model.gradients())


def _plain_convolution(**options: Any) -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 32, 3, **options), nn.ReLU(), nn.Conv2d(32, 64, 1), nn.GELU())


# Run on the card with and without training, in three dtypes, with every kind of mask and layout.
OWN: dict[str, Callable[[], Recorded]] = {
    "mlpnorm": lambda: _half(_mlpnorm()),
    "encoder": lambda: _half(_encoder()),
    "mlp-float32-step": lambda: _block(_mlpnorm().model, 64, 512),
    "mlp-float16-step": lambda: _block(_mlpnorm().model, 64, 512, dtype=F16),
    "mlp-dynamic": lambda: _block(_mlpnorm().model, 64, 512, train=False, dynamic=True),
    "encoder-step": lambda: Recorded(
        nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True).to(BF16),
        {"src": torch.randn(8, 128, 256, dtype=BF16)},
        square,
    ),
    "attention": _attention,
    "attention-step": lambda: _attention(train=True),
    "attention-causal-step": lambda: _attention(train=True, mask="causal"),
    "attention-boolean-step": lambda: _attention(train=True, mask="boolean"),
    "attention-boolean-float16": lambda: _attention(F16, mask="boolean"),
    "attention-additive-step": lambda: _attention(train=True, mask="additive"),
    "attention-padding": lambda: _attention(mask="padding"),
    "attention-expanded": lambda: _attention(mask="expanded"),
    "attention-float32": lambda: _attention(F32),
    "attention-float32-step": lambda: _attention(F32, train=True),
    "attention-float32-boolean-step": lambda: _attention(F32, train=True, mask="boolean"),
    "attention-float16-causal-step": lambda: _attention(F16, train=True, mask="causal"),
    "attention-dropout-step": lambda: _attention(train=True, dropout=0.1),
    "attention-head-160": lambda: _attention(head=160),
    "attention-head-160-step": lambda: _attention(head=160, train=True),
    "attention-head-20": lambda: _attention(head=20),
    "attention-head-20-step": lambda: _attention(head=20, train=True),
    "attention-head-20-boolean": lambda: _attention(head=20, mask="boolean"),
    "attention-grouped": lambda: _attention(kv_heads=2),
    "attention-grouped-step": lambda: _attention(kv_heads=2, train=True),
    "attention-length-100-boolean": lambda: _attention(length=100, mask="boolean"),
    "attention-float32-length-100-boolean": lambda: _attention(F32, length=100, mask="boolean"),
    "residual": lambda: _convolutions(Residual(), 4, 32, 28, 28),
    "residual-step": lambda: _convolutions(Residual(), 4, 32, 28, 28, train=True),
    "residual-last-step": lambda: _convolutions(Residual(), 4, 32, 28, 28, train=True, last=True),
    "residual-float32-step": lambda: _convolutions(Residual(), 4, 32, 28, 28, dtype=F32, train=True),
    "residual-groups": lambda: _convolutions(Residual(groups=True), 4, 32, 28, 28),
    "residual-groups-step": lambda: _convolutions(Residual(groups=True), 4, 32, 28, 28, train=True),
    "residual-one-pixel": lambda: _convolutions(Residual(), 4, 32, 1, 1),
    "convolution-strided": lambda: _convolutions(_plain_convolution(stride=2), 4, 3, 33, 33),
    "convolution-dilated-step": lambda: _convolutions(_plain_convolution(dilation=2), 4, 3, 33, 33, train=True),
    "convolution-depthwise": lambda: _convolutions(
        nn.Sequential(nn.Conv2d(32, 32, 3, groups=32), nn.SiLU()), 4, 32, 17, 17
    ),
    "convolution-transposed": lambda: _convolutions(
        nn.Sequential(nn.ConvTranspose2d(32, 16, 2, stride=2), nn.ReLU()), 4, 32, 14, 14
    ),
    "convolution-1d": lambda: _convolutions(nn.Sequential(nn.Conv1d(16, 32, 5), nn.GELU()), 4, 16, 100),
    "convolution-3d": lambda: _convolutions(nn.Sequential(nn.Conv3d(4, 8, 3), nn.ReLU()), 2, 4, 9, 9, 9),
    "pointwise": lambda: Recorded(Pointwise().eval(), {"ids": torch.randint(1000, (8, 33))}),
    "pointwise-step": lambda: Recorded(Pointwise(), {"ids": torch.randint(1000, (8, 33))}, square),
    "pointwise-dynamic": lambda: Recorded(Pointwise().eval(), {"ids": torch.randint(1000, (8, 33))}, dynamic=True),
    "dropped-step": lambda: _block(Dropped(), 32, 256),
    "dropped-half-step": lambda: _block(Dropped(), 32, 256, dtype=BF16),
    "dropped-dynamic-step": lambda: _block(Dropped(), 32, 256, dynamic=True),
    "recurrent-step": lambda: _block(Recurrent(), 8, 6, 64),
    "autocast-step": lambda: _block(Autocast(), 32, 128),
    "optimizer/adamw": lambda: _step(AdamW()),
    "optimizer/sgd": lambda: _step(SGD()),
}
