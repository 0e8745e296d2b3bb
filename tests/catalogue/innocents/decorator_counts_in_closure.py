"""A decorator that counts calls in its closure, in eager and in compiled code alike."""

import functools

import torch

from pytest_torch_compile import check_compile


def counted(function):
    calls_made = {"forward": 0}

    @functools.wraps(function)
    def wrapper(*args):
        calls_made["forward"] += 1
        return function(*args)

    wrapper.calls_made = calls_made
    return wrapper


@counted
def target(x):
    return x.cos() * 2


def check(**options):
    report = check_compile(target, torch.randn(4), backend="eager", **options)
    assert target.calls_made == {"forward": 0}
    return report
