"""Exceptions of the legs, sorted: the caller's mistake, eager's own error, or a finding."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .._torch import support
from .._torch.causes import LIMITS, REFUSES_RECOMPILES, caused
from .._torch.defaults import defaults
from .._torch.error_text import error_summary
from .._torch.guards import EXPLANATIONS, parse_guard, readable
from .._torch.trace import error_location
from ..findings import CompileUsageError, Finding
from ..legs.compiling import Compiling
from ..numerics import CallRecord
from ..observation import Deviation, Location


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
            f"{_default_device()}"
        ) from error
    if actual.error is not None and support.is_missing_compiler(actual.error):
        raise CompileUsageError(
            "Inductor found no working C++ compiler: install one (for example g++), set CXX to it, or check with "
            f"backend='aot_eager', which needs none ({error_summary(actual.error)})"
        ) from actual.error


def _default_device() -> str:
    """A remark on a default device other than the CPU, which another test may have left."""
    device = defaults().device
    if device is None or device.type == "cpu":
        return ""
    return f" (the default device is {device}, by torch.set_default_device: tensors that name no device are made there)"


def error_findings(
    error: BaseException, frame: Location | None = None, deviations: Sequence[Deviation] = ()
) -> list[Finding]:
    """The finding for an exception that torch's compiler raised; ``frame`` is what was being compiled, if known.

    ``deviations`` are the settings that differ from torch's defaults: one of them may have made torch raise.
    """
    location = error_location(error) or frame
    if support.is_refused_recompile(error):
        message = "torch raised instead of compiling once more, as its settings tell it to"
        return caused(
            [Finding("compile-error", message, location, readable(str(error)))], deviations, REFUSES_RECOMPILES
        )
    if support.is_recompile_limit(error):
        limit = [
            Finding(
                "eager-fallback",
                f"the recompile limit of {support.recompile_limit()} was hit",
                location,
                error_summary(error),
                _limit_hint(error),
            )
        ]
        return caused(limit, deviations, LIMITS)
    if support.is_constraint_violation(error):
        return [
            Finding(
                "compile-error",
                "the code does not allow a dimension to be as dynamic as it is marked",
                location,
                readable(error_summary(error)),
                _constraint_hint(str(error)),
            )
        ]
    if type(error).__name__ in ("Unsupported", "UserError"):
        message = "torch.compile cannot trace this with fullgraph=True"
        hint = "rewrite the line with what torch.compile can trace, or check the default mode with fullgraph=False"
        return [Finding("graph-break", message, location, _evidence(error, error), hint)]
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
    lines = error_summary(inner).splitlines()
    told = ("Explanation:", "Developer debug context:")
    lines += [line.strip() for line in str(error).splitlines() if line.strip().startswith(told)]
    root = support.root_cause(error)
    if root is not inner:
        lines.append(f"caused by {error_summary(root)}")
    return "\n".join(dict.fromkeys(lines))


def _constraint_hint(text: str) -> str:
    """Which of the code and the mark to change, by what the code does with the size."""
    constant = re.search(r"constant \((\d+)\)", text)
    if constant:
        return (
            f"the code works for the size {constant[1]} only, because it compares the size with a number or uses it as "
            "one: rewrite that line, or remove the mark (dynamic_dims=..., mark_dynamic) from the dimension"
        )
    return (
        "the code ties this size to another one or to a range: give the range, dynamic_dims={'x': {0: (low, high)}}, "
        "or remove the mark from one of them"
    )


def _limit_hint(error: BaseException) -> str:
    """What to do about the guard that torch names as the last reason."""
    last = re.search(r"last reason: (.+)", str(error))
    cause = parse_guard(last[1]).cause if last else "other"
    return f"{cause}: {EXPLANATIONS[cause]}"
