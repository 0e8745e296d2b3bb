"""Turn exceptions raised in the eager and compiled runs into usage errors or findings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from .. import advice
from .._torch import support
from .._torch.causes import LIMITS, REFUSES_RECOMPILES, caused
from .._torch.deviations import deviations
from .._torch.error_stage import raised_at
from .._torch.error_text import error_summary, usage_error
from .._torch.guards import parse_guard, readable
from .._torch.machine_faults import machine_fault
from .._torch.object_text import message_of
from .._torch.user_lines import error_location
from ..findings import CompileUsageError, Finding
from ..numerics import CallRecord
from ..observation import Deviation, Location, Observation
from .guard_advice import for_guard


def raise_if_usage_error(expected: CallRecord, actual: CallRecord) -> None:
    """Raise an exception if the errors in the two records show that the check cannot be performed.

    Raises:
        CompileUsageError: If both runs raise an unexpected exception (the error is in the target itself), memory ran
            out, the compile cache is not writable, or the C++ compiler is missing or fails.
    """
    if isinstance(expected.error, CompileUsageError):
        raise expected.error
    for leg, record in (("eager", expected), ("compiled", actual)):
        only_compiled = record is actual and expected.error is None
        if record.error is not None and (fault := machine_fault(record.error, compiling=only_compiled)):
            raise usage_error(f"call {record.number}, {leg}: {fault}", record.error) from None
    if expected.error is not None and actual.error is not None and not expected.exceptions:
        error, message = expected.error, message_of(expected.error)
        where = "" if expected.part == "forward" else f"the {expected.part} of "
        raised = f"{where}call {expected.number} raises an exception in eager, before torch.compile is involved"
        text = f"{raised}: {type(error).__name__}: {message}{_leaked_defaults(message)}"
        raise usage_error(text, error) from None


def compile_error(expected: CallRecord, actual: CallRecord) -> BaseException | None:
    """Return the exception with which torch failed to compile a call that works in eager, or None."""
    fails = actual.error is not None and expected.error is None and support.is_compiler_error(actual.error)
    return actual.error if fails else None


# Exceptions that a changed default can cause.
_ABOUT = {
    "torch.set_default_device": re.compile(r"\b(devices?|meta|cuda|xpu|mps|cpu)\b", re.I),
    "torch.set_default_dtype": re.compile(r"dtype|scalar type|\b(Float|Double|Half|BFloat16)\b"),
}


def _leaked_defaults(error: str) -> str:
    """Return a line that shows where the default device or dtype was changed, possibly by another test; empty if
    neither was changed.
    """
    leaked = [one for one in deviations() if one.name in _ABOUT and _ABOUT[one.name].search(error)]
    if not leaked:
        return ""
    return (
        f"\nlikely cause: {'; '.join(map(str, leaked))}. Restore the previous setting there, or set the "
        "device and dtype of new tensors explicitly"
    )


@contextmanager
def machine_faults_named() -> Iterator[None]:
    """Inside the ``with`` block, convert exceptions that the machine's setup causes (memory, compile cache or C++
    compiler) into usage errors that explain the cause.

    Raises:
        CompileUsageError: If memory ran out, the compile cache is not writable, or the C++ compiler is missing or
            fails.
    """
    try:
        yield
    except Exception as error:
        fault = machine_fault(error, compiling=not isinstance(error, CompileUsageError))
        if not fault or fault in message_of(error):
            raise
        raise usage_error(f"the check could not run: {fault}", error) from None


def error_findings(
    error: BaseException, frame: Location | None = None, deviations: Sequence[Deviation] = ()
) -> list[Finding]:
    """Return the finding for an exception raised by torch.compile; ``frame`` is the location of the frame that was
    being compiled, if known.

    ``deviations`` are settings that differ from torch's defaults; one of these deviations may be the cause.
    """
    location = error_location(error) or frame
    if support.is_refused_recompile(error):
        message = "torch raised an exception instead of recompiling, because its config or stance forbids recompiles"
        refused = Finding("compile-error", message, location, readable(message_of(error)))
        return caused([refused], deviations, REFUSES_RECOMPILES)
    if support.is_recompile_limit(error):
        message = f"the recompile limit of {support.recompile_limit()} was hit"
        last = re.search(r"last reason: (.+)", message_of(error))
        hint = for_guard(parse_guard(last[1]).cause if last else "other")
        hit = Finding("eager-fallback", message, location, error_summary(error), hint)
        return caused([hit], deviations, LIMITS)
    if support.is_constraint_violation(error):
        message = "the code constrains the size of a dimension that is marked as dynamic"
        constant = re.search(r"constant \((\d+)\)", message_of(error))
        hint = advice.fixed_size(constant[1]) if constant else advice.TIED_SIZE
        return [Finding("compile-error", message, location, readable(error_summary(error)), hint)]
    if type(error).__name__ in ("Unsupported", "UserError"):
        message = "torch.compile cannot trace this code with fullgraph=True"
        return [Finding("graph-break", message, location, _evidence(error, error), advice.NO_FULLGRAPH)]
    inner = support.user_error(error)
    message = f"compilation raised {type(inner).__name__}"
    return [Finding("compile-error", message, location, _evidence(error, inner), advice.FIND_STAGE)]


def with_stage(finding: Finding, error: BaseException) -> Finding:
    """Add the stage of torch.compile that was running when ``error`` was raised to a finding about this exception."""
    if finding.kind != "compile-error" or finding.hint != advice.FIND_STAGE or (raised := raised_at(error)) is None:
        return finding
    if raised.by_other_code:
        hint = advice.BACKEND_RAISED if raised.stage == "the backend" else advice.raised_below(raised.stage)
        return replace(finding, evidence=f"{finding.evidence}\nraised at {raised.place}", hint=hint)
    if not raised.place:
        return replace(finding, hint=advice.FAILS_ON_FAKE_TENSORS)
    return replace(
        finding, evidence=f"{finding.evidence}\ntorch was at {raised.place}", hint=advice.RAISED_BY[raised.stage]
    )


def without_failed_compilations(compared: Sequence[Finding], seen: Observation) -> list[Finding]:
    """Return ``compared`` without the findings about exceptions in calls whose compilation failed, because the failed
    compilation has a separate finding.
    """
    failed = {error.call for error in seen.errors if not error.swallowed}
    return [one for one in compared if one.kind != "exception" or not failed & set(one.calls)]


def _evidence(error: BaseException, inner: BaseException) -> str:
    """Return the exception, torch's explanation, and the innermost cause."""
    explained = ("Explanation:", "Developer debug context:")
    lines = error_summary(inner).splitlines()
    lines += [line.strip() for line in message_of(error).splitlines() if line.strip().startswith(explained)]
    root = support.root_cause(error)
    if root is not inner:
        lines.append(f"caused by {error_summary(root)}")
    return "\n".join(dict.fromkeys(lines))
