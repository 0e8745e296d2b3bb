"""The encoder works under torch.compile."""

import pytest
import torch
from tinynet import Encoder

from pytest_torch_compile import CompileSuite, sizes


def make_inputs(batch, length):
    return torch.randn(batch, length, 16)


def test_inference(compile_check):
    compile_check(Encoder(), make_inputs(2, 8))


def test_training(compile_check):
    compile_check(Encoder(), make_inputs(2, 8), train=True)


@pytest.mark.torch_compile(backend="aot_eager")
def test_sizes(compile_check):
    compile_check(Encoder(), calls=sizes(make_inputs, batch=[2, 3], length=[8, 12]), max_recompiles=2)


class TestEncoder(CompileSuite):
    shapes = [(2, 8), (3, 8), (4, 8)]

    def make_model(self):
        return Encoder()

    def make_inputs(self, shape):
        return make_inputs(*shape)
