"""A preallocated per-layer cache, a list of dicts of plain tensors, written in place over three decode steps."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(2))
        self.layer_cache = [{"k": torch.zeros(6, 4), "v": torch.zeros(6, 4)} for _ in range(2)]

    def forward(self, x, position):
        for layer, cache in zip(self.layers, self.layer_cache, strict=True):
            cache["k"].index_copy_(0, position, layer(x))
            cache["v"].index_copy_(0, position, x)
            x = torch.softmax(x @ cache["k"].T, dim=-1) @ cache["v"]
        return x


@torch.no_grad()
def check(**options):
    model = Decoder()
    calls = [(torch.randn(1, 4), torch.tensor([step])) for step in range(3)]
    report = check_compile(model, calls=calls, backend="aot_eager", **options)
    assert not any(cache["k"].any() for cache in model.layer_cache)
    return report
