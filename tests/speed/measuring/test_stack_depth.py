"""Room on the stack: calls cost the same however deep the caller stands."""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import perf_counter

import pytest

from pytest_torch_compile.speed.measuring.stack_depth import with_spare_stack

DEPTHS = range(150)


def leaf() -> None:
    pass


def call_a_leaf() -> None:
    leaf()


def seconds_per_call() -> float:
    start = perf_counter()
    for _ in range(200):
        call_a_leaf()
    return (perf_counter() - start) / 200


def at_depth(depth: int, measure: Callable[[], float]) -> float:
    return at_depth(depth - 1, measure) if depth else min(measure() for _ in range(5))


def with_spare_stack_here() -> float:
    return with_spare_stack(seconds_per_call)


def test_arguments_and_results_go_through():
    assert with_spare_stack(divmod, 7, 2) == (3, 1)
    assert with_spare_stack(sorted, [1, 2], reverse=True) == [2, 1]


def test_exceptions_go_through():
    with pytest.raises(ZeroDivisionError):
        with_spare_stack(divmod, 1, 0)


def test_it_can_be_asked_for_again_inside():
    assert with_spare_stack(with_spare_stack, with_spare_stack, max, 1, 2) == 2


@pytest.mark.skipif(
    sys.version_info < (3, 11) or sys.implementation.name != "cpython",
    reason="only CPython 3.11 and newer allocate frames in chunks",
)
def test_no_depth_makes_calls_slow():
    plain = [at_depth(depth, seconds_per_call) for depth in DEPTHS]
    roomy = [at_depth(depth, with_spare_stack_here) for depth in DEPTHS]
    # Somewhere the end of a chunk lies between two frames, and there each call costs some 50 times as much.
    assert max(plain) > 10 * min(plain)
    assert max(roomy) < max(plain) / 5
