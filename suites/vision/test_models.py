"""torchvision models compile whole: one graph, eager's numbers, and one graph for every batch size.

Guards the breadth of the field: each family (residual, mobile, inception, ConvNeXt, ViT, Swin, segmentation, detection,
video) in inference and training, fp32 and bf16. In fp32 nothing is marked, so the first new size costs one recompile and
no later one does; in bf16 the varying dimensions are marked dynamic, and no size costs any.
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
