"""A logging call in the hot path."""

import logging

import torch

from pytest_torch_compile import check_compile

EXPECT = [("graph-break", "log")]
logger = logging.getLogger("planted")


def target(x):
    y = x.sin()
    logger.info("computed")  # HERE
    return y * 2


def check(**options):
    return check_compile(target, torch.randn(4), backend="eager", **options)
