"""A key of the output dict is missing when compiled."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("metadata", "attentions")]


def target(x):
    output = {"logits": x.sin(), "attentions": x.cos()}
    if torch.compiler.is_compiling():
        del output["attentions"]
    return output


def check(**options):
    return check_compile(target, torch.randn(4), backend="eager", **options)
