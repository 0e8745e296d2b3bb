"""A logger that the module closes over is made silent in eager only."""

import logging

import torch

from pytest_torch_compile import check_compile

EXPECT = [("state", "")]

LOGGER = logging.getLogger("planted.logger_level")


def target(x):
    if not torch.compiler.is_compiling():
        LOGGER.disabled = True
    return x.sin() * 2


def check(**options):
    try:
        return check_compile(target, torch.randn(4), max_graph_breaks=9, max_recompiles=9, backend="eager", **options)
    finally:
        left = LOGGER.disabled
        LOGGER.disabled = False
        assert not left
