"""The two comparisons that people use today, on the same records: torch.testing.assert_close and torch's same()."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._dynamo.utils import same

from pytest_torch_compile.numerics import CallRecord
from pytest_torch_compile.numerics.sections import section

SAME_TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-4}
SAME_TOLERANCE_HALF = 1e-3


def compared(record: CallRecord) -> dict[str, Any]:
    """What a careful test compares: outputs, gradients, and the state after the call."""
    parts: dict[str, Any] = dict(section(record, "output").tensors)
    parts |= {f"grad of {name}": grad for name, grad in (*record.grads.items(), *record.input_grads.items())}
    return parts | {f"state {name}": tensor for name, tensor in record.state.items()}


def assert_close_passes(eager: CallRecord, compiled: CallRecord) -> bool:
    """With its default tolerances."""
    try:
        torch.testing.assert_close(compared(compiled), compared(eager), equal_nan=True)
    except (AssertionError, TypeError, ValueError):
        return False
    return True


def same_passes(eager: CallRecord, compiled: CallRecord, reference: Callable[[], CallRecord | None]) -> bool:
    """With the tolerances of torch's own benchmark runner."""
    left, right = compared(eager), compared(compiled)
    true = compared(known) if (known := reference()) is not None else left
    for name, value in left.items():
        if value is None or right.get(name) is None:
            if value is not right.get(name):
                return False
            continue
        tolerance = SAME_TOLERANCE.get(value.dtype, SAME_TOLERANCE_HALF)
        try:
            passed = same(value, right[name], true[name], tol=tolerance, equal_nan=True, log_error=lambda *_: None)
        except (AssertionError, RuntimeError, KeyError):
            return False
        if not passed:
            return False
    return True
