"""Exceptions of the legs, sorted: the caller's mistake, eager's own error, or a finding."""

from __future__ import annotations

from collections.abc import Sequence

from ._torch import support
from ._torch.trace import error_location
from .causes import LIMITS, REFUSES_RECOMPILES, caused
from .compiling import Compiling
from .findings import CompileUsageError, Finding, Location
from .numerics import CallRecord
from .observation import Deviation


def raise_if_usage_error(expected: CallRecord, actual: CallRecord, compiling: Compiling) -> None:
    """Raise where the check cannot say anything.

    Raises:
        CompileUsageError: both legs raise, so that the error is the target's own; or there is no C++ compiler.
    """
    if isinstance(expected.error, CompileUsageError):
        raise expected.error
    if expected.error is not None and actual.error is not None:
        error = expected.error
        raise CompileUsageError(
            f"{expected.label} raises in eager, before torch.compile is involved: {type(error).__name__}: {error}"
        ) from error
    if actual.error is not None and support.is_missing_compiler(actual.error):
        raise CompileUsageError(
            "Inductor found no working C++ compiler: install one (for example g++), set CXX to it, or check with "
            f"backend='aot_eager', which needs none ({_summary(actual.error)})"
        ) from actual.error


def error_findings(
    error: BaseException, frame: Location | None = None, deviations: Sequence[Deviation] = ()
) -> list[Finding]:
    """The finding for an exception that torch's compiler raised; ``frame`` is what was being compiled, if known.

    ``deviations`` are the settings that differ from torch's defaults: one of them may have made torch raise.
    """
    location = error_location(error) or frame
    if support.is_refused_recompile(error):
        message = "torch raised instead of compiling once more, as its settings tell it to"
        return caused([Finding("compile-error", message, location, str(error))], deviations, REFUSES_RECOMPILES)
    if support.is_recompile_limit(error):
        limit = [
            Finding(
                "eager-fallback",
                f"the recompile limit of {support.recompile_limit()} was hit",
                location,
                _summary(error),
                "bound what changes between calls: dynamic_dims=..., dynamic=True, or pad to a few sizes",
            )
        ]
        return caused(limit, deviations, LIMITS)
    if type(error).__name__ in ("Unsupported", "UserError"):
        message = "torch.compile cannot trace this with fullgraph=True"
        return [Finding("graph-break", message, location, _summary(error), "see the line; or check fullgraph=False")]
    inner = support.user_error(error)
    return [
        Finding(
            "compile-error",
            f"compilation raised {type(inner).__name__}",
            location,
            _evidence(error, inner),
            "try backend='aot_eager' and backend='eager': the first that fails tells which stage is at fault",
        )
    ]


def _evidence(error: BaseException, inner: BaseException) -> str:
    """What was raised, what torch explains about it, and the innermost cause."""
    lines = [_summary(inner)]
    told = ("Explanation:", "Developer debug context:")
    lines += [line.strip() for line in str(error).splitlines() if line.strip().startswith(told)]
    root = support.root_cause(error)
    if root is not inner:
        lines.append(f"caused by {_summary(root)}")
    return "\n".join(dict.fromkeys(lines))


def _summary(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"
