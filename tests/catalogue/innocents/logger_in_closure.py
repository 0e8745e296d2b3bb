"""A logger and a lock in a closure, which the function asks nothing."""

import logging
import threading

import torch

from pytest_torch_compile import check_compile


def check(**options):
    logger, lock = logging.getLogger("innocent.logger_in_closure"), threading.Lock()

    def target(x):
        if x.shape[0] > 100:
            with lock:
                logger.warning("large")
        return x.sin() * 2

    with lock:
        return check_compile(target, torch.randn(4), backend="eager", **options)
