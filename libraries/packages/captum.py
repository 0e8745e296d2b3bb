"""captum: attributions, which put hooks on a model while they run."""

from __future__ import annotations

from typing import Any

import torch
from captum import attr
from torch import nn

from libraries.inputs import tensors
from libraries.targets import Target


def model() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))


def convolutions() -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(72, 3))


class Attributed(nn.Module):
    """The attributions of one class of a model."""

    def __init__(self, method: type, layer: int | None = None, inner: nn.Sequential | None = None, **how: Any) -> None:
        super().__init__()
        self.model = inner or model()
        self.method = method(self.model) if layer is None else method(self.model, self.model[layer])
        self.how = how

    def forward(self, x: torch.Tensor) -> Any:
        return self.method.attribute(x, target=1, **self.how)


def attributed(method: type, *shape: int, **how: Any) -> Target:
    """A target that computes attributions. This needs no autograd graph, so there is nothing to train."""
    return Target(Attributed(method, **how), tensors(*(shape or (4,))), train=False)


TARGETS = {
    "Saliency": lambda: attributed(attr.Saliency),
    "InputXGradient": lambda: attributed(attr.InputXGradient),
    "IntegratedGradients": lambda: attributed(attr.IntegratedGradients, n_steps=5),
    "IntegratedGradients_delta": lambda: attributed(attr.IntegratedGradients, n_steps=4, return_convergence_delta=True),
    "DeepLift": lambda: attributed(attr.DeepLift),
    "GradientShap": lambda: attributed(attr.GradientShap, baselines=torch.zeros(2, 4), n_samples=3),
    "GuidedBackprop": lambda: attributed(attr.GuidedBackprop),
    "Deconvolution": lambda: attributed(attr.Deconvolution),
    "FeatureAblation": lambda: attributed(attr.FeatureAblation),
    "Occlusion": lambda: attributed(attr.Occlusion, sliding_window_shapes=(2,)),
    "ShapleyValueSampling": lambda: attributed(attr.ShapleyValueSampling, n_samples=2),
    "LRP": lambda: attributed(attr.LRP),
    "LayerActivation": lambda: Target(
        attr.LayerActivation((inner := model()), inner[1]).attribute, tensors(4), train=False
    ),
    "LayerConductance": lambda: attributed(attr.LayerConductance, layer=1, n_steps=4),
    "LayerGradCam": lambda: attributed(attr.LayerGradCam, 1, 8, 8, layer=0, inner=convolutions()),
    "LayerGradientXActivation": lambda: attributed(attr.LayerGradientXActivation, layer=1),
}
