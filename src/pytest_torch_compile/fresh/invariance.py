"""``check_invariance``: check that results do not depend on the other rows in the batch, on the run or on the
process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from .. import settings
from .._torch import support
from .._torch.compiled import uncompiled
from ..check.conclude import conclude
from ..check.describe import device_name, rerun_command, target_name
from ..check.leg_errors import machine_faults_named
from ..check.requirements import require_values
from ..findings import CompileUsageError
from ..legs.calls import as_calls
from ..legs.compiling import Compiling
from ..numerics.tolerances import Tolerance, require_tolerances
from .dependence import PROPERTIES, InvarianceReport, add_dependence
from .observed import Subject
from .rows import rows_of


def check_invariance(
    target: Callable[..., Any],
    /,
    *args: Any,
    over: Iterable[str] = ("batch", "run", "process"),
    compiled: bool = True,
    tolerance: Tolerance | None = None,
    batch_dims: Mapping[str | int, int] | None = None,
    fullgraph: bool = True,
    dynamic: bool | None = None,
    backend: str | Callable[..., Any] | None = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    timeout: float = 600.0,
    seed: int = 0,
    **kwargs: Any,
) -> InvarianceReport:
    """Check that results do not depend on the other rows in the batch, on the run, or on the process.

    Every run starts from the same state of the target and the same random state. Outputs must be identical, or equal
    within ``tolerance``: tensors, arrays, numbers, and all other values that can be compared. The check also fails if
    nothing is compiled, or if no output can be compared. A failure reports the first module in execution order whose
    output differs, and whether the eager results differ as well. To find this module, the check compiles the module
    again and records the outputs of all its submodules. If the difference disappears in this second run, the failure
    message says so.

    Args:
        target: A module, function or other callable, as in ``check_compile``.
        *args: The arguments of the call, or a single ``call(...)``.
        over: The properties to check. ``"batch"``: each row on its own produces the same result as in the batch (at
            most 16 rows are checked, spread over the batch). ``"run"``: three runs of the same compiled code produce
            the same result. ``"process"``: a fresh process, which compiles without the compile cache, produces the same
            result as this process.
        compiled: If False, the target is checked in eager mode instead.
        tolerance: The allowed difference. By default, results must be identical.
        batch_dims: The batch dimension of each batched argument, such as ``{"x": 0, "mask": 1}``. By default, the batch
            dimension is dimension 0 of the first tensor, and of every other tensor whose dimension 0 has the same size.
        fullgraph: Passed to ``torch.compile``.
        dynamic: Passed to ``torch.compile``.
        backend: Passed to ``torch.compile``.
        mode: Passed to ``torch.compile``.
        options: Passed to ``torch.compile``.
        timeout: The time limit for the fresh process, in seconds.
        seed: The random seed, which is set before each run.
        **kwargs: Keyword arguments of the call.

    Returns:
        The report, which contains a result for each entry of ``over``.

    Raises:
        CompileCheckFailed: If a result differs, no result can be compared, or the target cannot be compiled.
        CompileUsageError: If the check is not possible, for example because eager raises an exception or the arguments
            contain no batch.
    """
    __tracebackhide__ = True
    support.require_supported_torch()
    ways = list(over) if isinstance(over, Iterable) and not isinstance(over, str) else [over]
    if not ways:
        raise CompileUsageError(f"over is empty; choose at least one of: {', '.join(PROPERTIES)}")
    if unknown := [way for way in ways if way not in PROPERTIES]:
        raise CompileUsageError(f"over={unknown[0]!r} is unknown; choose one of: {', '.join(PROPERTIES)}")
    require_tolerances("tolerance", tolerance, Tolerance)
    one, *others = as_calls(args, kwargs, None)
    if others:
        raise CompileUsageError(f"check_invariance checks a single call, but {len(args)} were passed")
    if one.exceptions:
        raise CompileUsageError("check_invariance compares the results of a call, so remove raises(...) from the call")
    target = uncompiled(target)
    require_values(target, [one])
    backend = settings.current.backend if backend is None else backend
    compiling = Compiling(backend, mode, options, dynamic, fullgraph) if compiled else None
    rows = rows_of(target, one, batch_dims) if "batch" in ways else {}
    report = InvarianceReport(
        target_name(target),
        "invariance",
        compiling.name if compiling else "none",
        str(torch.__version__),
        device_name(target, one),
        rerun=rerun_command(),
    )
    subject = Subject(target, one, rows, compiling, seed, timeout)
    with machine_faults_named():
        add_dependence(report, subject, tolerance or Tolerance(0.0, 0.0), ways)
    return conclude(report)
