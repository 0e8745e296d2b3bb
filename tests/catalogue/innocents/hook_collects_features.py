"""A feature extractor: a forward hook stores outputs in a dict that it closes over, alike in both legs."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


def extract(model, names):
    features = {}

    def save(name):
        def hook(module, args, output):
            features[name] = output.detach()

        return hook

    for name in names:
        model.get_submodule(name).register_forward_hook(save(name))
    return features


def check(**options):
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))
    features = extract(model, ["0", "1"])
    report = check_compile(model, torch.randn(2, 4), backend="eager", **options)
    assert not features
    return report
