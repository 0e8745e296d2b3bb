"""Check calls that are expected to raise an exception in eager and in compiled code."""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from dataclasses import replace

from .. import advice
from .._torch import support
from .._torch.breaks import OTHER
from .._torch.error_text import error_summary, usage_error
from .._torch.object_text import text_of_error
from ..budget import Budget
from ..findings import CompileUsageError, Finding
from ..legs.calls import Call
from ..numerics import CallRecord, Comparison, ExtraRuns, Flat, Tolerances, compare_call
from ..observation import CompileError, GraphBreak, Observation


def require_expected(call: Call, number: int, error: BaseException | None) -> None:
    """Reject call ``number`` if it is expected to raise an exception, and ``error`` of the eager run is not one of the
    expected exceptions.

    Raises:
        CompileUsageError: If the eager run does not raise an exception, or raises a different exception.
    """
    if not call.exceptions or isinstance(error, call.exceptions):
        return
    expects = f"call {number} is expected to raise {' or '.join(kind.__name__ for kind in call.exceptions)}, but eager"
    if error is None:
        raise CompileUsageError(f"{expects} returns without an exception")
    raise usage_error(f"{expects} raises {text_of_error(error)}", error) from None


def compared_exceptions(
    call: Call, eager: CallRecord, compiled: CallRecord, extra_runs: ExtraRuns, tolerances: Tolerances
) -> Comparison:
    """Check a call that is expected to raise an exception, and compare what the call has written before it raised.

    Raises:
        CompileUsageError: If the eager run does not raise an exception, or raises a different exception.
    """
    require_expected(call, eager.number, eager.error)
    assert eager.error is not None
    error = compiled.error
    if isinstance(error, call.exceptions) and not support.is_failed_compilation(error):
        compared = compare_call(_writes_of(eager), _writes_of(compiled), extra_runs, tolerances)
        hints = {advice.LOST_WRITE: advice.WRITES_BEFORE_RAISE}
        findings = [replace(finding, hint=hints.get(finding.hint, finding.hint)) for finding in compared.findings]
        return replace(compared, findings=findings)
    expects = f"eager raises {type(eager.error).__name__}"
    message = (
        f"{expects}, but compiled code raises {type(error).__name__}"
        if error
        else f"{expects}, but compiled code returns without an exception"
    )
    evidence = [f"eager: {error_summary(eager.error)}"]
    evidence += [f"compiled: {error_summary(error)}"] if error else []
    hint = advice.RAISES_SOMETHING_ELSE if error else advice.ONLY_EAGER_RAISES
    return Comparison([Finding("exception", message, None, "\n".join(evidence), hint, calls=(eager.number,))])


def _writes_of(record: CallRecord) -> CallRecord:
    """Return the record of a call that raised, with only the arguments and the state that the call left."""
    return replace(record, error=None, output=Flat(), sharing=None, grads={}, input_grads={}, rng={})


def without_expected(seen: Observation, errors: Mapping[int, BaseException]) -> Observation:
    """Return the observation without the effects of expected exceptions.

    ``errors`` maps call numbers to the expected exceptions of the eager run. For the calls in ``errors``, omit
    recompiles that produced no graph, the graph breaks at which torch traced the exception, and compile errors that
    torch raised or that are the exception itself.
    """
    if not errors:
        return seen
    at_a_raise = [one.fingerprint for one in _where_it_raised(seen, errors)]
    breaks = [one for one in seen.graph_breaks if one.fingerprint not in at_a_raise]
    compiled = {graph.compile_id for graph in seen.graphs}
    recompiles = [one for one in seen.recompiles if one.call not in errors or one.compile_id in compiled]
    failed = [one for one in seen.errors if one.call not in errors or _hides_failure(one, errors[one.call])]
    return replace(seen, graph_breaks=breaks, recompiles=recompiles, errors=failed)


def _hides_failure(error: CompileError, expected: BaseException) -> bool:
    """Return whether an error has another cause than that tracing raised the expected exception. Tracing is over when
    torch compiles a backward graph, and torch raises the compiler's exception as it is, so its class says nothing.
    """
    return error.backward or (error.swallowed and error.error not in (type(expected).__name__, "TorchRuntimeError"))


def given_up(
    seen: Observation, errors: Mapping[int, BaseException], calls: Sequence[Call], budget: Budget
) -> list[Finding]:
    """Return a finding for each function that raised an exception while torch traced the function. In later calls,
    torch runs such a function entirely in eager, even if parts of the function are already compiled.
    """
    later = max((number for number, call in enumerate(calls, 1) if not call.exceptions), default=0)
    return [
        Finding(
            "eager-fallback",
            f"{one.location.function} raised an exception while torch traced it, so later calls run eagerly",
            one.location,
            f"{one.location.source}\nfingerprint {one.fingerprint}",
            advice.RAISE_LAST,
            calls=(one.call,),
            subject=one.location.function,
        )
        for one in _where_it_raised(seen, errors)
        if one.call < later and one.fingerprint not in budget.accepted_breaks
    ]


def _where_it_raised(seen: Observation, errors: Mapping[int, BaseException]) -> list[GraphBreak]:
    lines = {
        number: {(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)}
        for number, error in errors.items()
    }
    # A break of another category, such as a disabled function, would break the graph without the exception too.
    return [
        one
        for one in seen.graph_breaks
        if one.category == OTHER and (one.location.file, one.location.line) in lines.get(one.call, set())
    ]
