"""Compile and warm up a target for a speed test. If this fails, a check explains the failure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .._torch.machine_faults import machine_fault
from ..findings import CompileUsageError
from ..legs.calls import Call
from ..speed.measuring.bench import Bench
from .check_compile import KEYWORDS, check_compile


def warm_bench(target: Any, args: Sequence[Any], options: Mapping[str, Any]) -> Bench:
    """Create a ``Bench``, which warms up an eager and a compiled version of the target.

    Raises:
        CompileCheckFailed: If the target does not compile. The exception contains the findings of ``check_compile``.
    """
    try:
        return Bench(target, *args, **options)
    except CompileUsageError:
        raise
    except Exception as raised:
        if machine_fault(raised, compiling=True):
            raise
        error = raised
    # The target fails, so there is nothing to measure. A check explains the failure better than torch's error.
    same = {name: value for name, value in options.items() if name in KEYWORDS.options}
    check_compile(target, calls=[Call(tuple(args), options.get("kwargs") or {})], **{**same, "diagnose": "off"})
    raise error
