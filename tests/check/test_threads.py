"""Checks that run in several threads at the same time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from pytest_torch_compile import CompileCheckFailed, check_compile

X = torch.linspace(-1, 1, 6)


def added(x):
    return x + 1


def sine(x):
    return x.sin() * 2


def wrong(x):
    return x * (1.1 if torch.compiler.is_compiling() else 1.0)


def kinds_of(target):
    try:
        check_compile(target, X, backend="eager")
    except CompileCheckFailed as failed:
        return {finding.kind for finding in failed.findings}
    return set()


@pytest.mark.parametrize("threads", [2, 4])
def test_checks_in_several_threads_do_not_disturb_each_other(threads):
    targets = [added, sine, wrong, added] * threads
    with ThreadPoolExecutor(threads) as pool:
        found = list(pool.map(kinds_of, targets))
    assert found == [{"numerics"} if target is wrong else set() for target in targets]
