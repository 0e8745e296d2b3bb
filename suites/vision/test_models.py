"""Whole torchvision models compile to one graph that matches eager, and use one graph for all batch sizes.

Covers many kinds of models: residual, mobile, inception, ConvNeXt, ViT, Swin, video, segmentation and detection models.

Each model runs in inference and training, in fp32 and bf16. Inference in fp32 does not mark any dimension, so the first
new size causes one recompile and later sizes cause none. Training in fp32 repeats a size, and the second step does not
recompile. In bf16, the dimensions that vary are marked as dynamic (in training, only the batch), and no size causes a
recompile.
"""

import pytest

pytest.importorskip("torchvision", reason="the vision suite needs torchvision")

from .._models import cases
from .models import MODELS


@pytest.mark.parametrize("case", cases(MODELS, "inference"))
def test_inference(compile_check, case):
    compile_check(case.target(), calls=case.calls(), **case.options())


@pytest.mark.parametrize("case", cases(MODELS, "training"))
def test_training(compile_check, case):
    compile_check(case.target(), calls=case.calls(), **case.options())
