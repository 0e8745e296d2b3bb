"""torchvision models compile whole: one graph, eager's numbers, and one graph for all batch sizes.

Guards the breadth of the field: residual, mobile, inception, ConvNeXt, ViT, Swin, video, segmentation and detection
models.

Each runs in inference and training, fp32 and bf16. Inference in fp32 marks nothing, so that the first new size costs
one recompile and no later one does; training in fp32 repeats a size, and the second step costs nothing; in bf16 the
varying dimensions are marked dynamic, and no size costs anything (in training, the batch).
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
