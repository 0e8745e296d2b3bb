"""``check_invariance``: check that results do not depend on the other rows in the batch, on the run or on the
process.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from .. import advice, settings
from .._torch import support
from .._torch.error_text import usage_error
from ..check.conclude import conclude
from ..check.describe import rerun_command, target_name
from ..check.leg_errors import error_findings, machine_faults_named
from ..check.requirements import require_values
from ..disk import TemporaryFolder
from ..events import doing
from ..findings import CompileReport, CompileUsageError, Finding
from ..legs.calls import Call, as_calls
from ..legs.compiling import Compiling
from ..legs.targets import modules_of
from ..numerics import Tolerance, flatten
from ..numerics.measure import difference, element
from ..numerics.tolerances import require_tolerances
from ..report.failure_text import number
from .observed import Observed, RaisedInCall, observe
from .process import run_fresh
from .rows import rows_of

WAYS = ("batch", "run", "process")
RUNS = 3  # with CUDA graphs, the first run is a warm-up, the second is recorded, and the third is a replay
ROUNDING = 1000  # a difference of up to this many eps may come from a kernel's summation order


@dataclass
class Invariance:
    """The result for one entry of ``over``. ``largest`` is the largest difference, ``leaf`` is the path of the output
    with this difference, and ``module`` is the first module whose output differs, if known.
    """

    over: str
    equal: bool
    largest: float = 0.0
    leaf: str = ""
    module: str = ""


@dataclass
class InvarianceReport(CompileReport):
    """The report of ``check_invariance``, with a result for each entry of ``over``."""

    results: list[Invariance] = field(default_factory=list)


@dataclass(frozen=True)
class _Pair:
    """Two runs whose outputs must be equal. If ``row`` is set, ``first`` is the run with the whole batch, and ``other``
    is the run with only this row.
    """

    label: str
    first: Observed
    other: Observed
    row: int | None = None


@dataclass(frozen=True)
class _Difference:
    path: str
    largest: float
    limit: float
    text: str
    is_rounding: bool = False


@dataclass(frozen=True)
class _Subject:
    """The target, its calls, the compile options (None for eager), and the allowed difference."""

    target: Any
    call: Call
    rows: Mapping[int, Call]
    compiling: Compiling | None
    tolerance: Tolerance
    seed: int
    timeout: float

    @property
    def calls(self) -> list[Call]:
        return [*([self.call] * RUNS), *self.rows.values()]


def check_invariance(
    target: Callable[..., Any],
    /,
    *args: Any,
    over: Iterable[str] = WAYS,
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

    Every run starts from the same parameters, buffers and random state. Outputs must be identical, or equal within
    ``tolerance``. A failure reports the first module in execution order whose output differs, and whether the eager
    results differ as well. To find this module, the check compiles the module again and records the outputs of all
    its submodules. If the difference disappears in this second run, the failure message says so.

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
        CompileCheckFailed: If a result differs, or the target cannot be compiled.
        CompileUsageError: If the check is not possible, for example because eager raises an exception or the arguments
            contain no batch.
    """
    __tracebackhide__ = True
    support.require_supported_torch()
    ways = list(over) if isinstance(over, Iterable) and not isinstance(over, str) else [over]
    if unknown := [way for way in ways if way not in WAYS]:
        raise CompileUsageError(f"over={unknown[0]!r} is unknown; choose one of: {', '.join(WAYS)}")
    require_tolerances("tolerance", tolerance, Tolerance)
    one = args[0] if len(args) == 1 and isinstance(args[0], Call) and not kwargs else as_calls(args, kwargs, None)[0]
    require_values(target, [one])
    compiling = Compiling(backend or settings.current.backend, mode, options, dynamic, fullgraph) if compiled else None
    rows = rows_of(target, one, batch_dims) if "batch" in ways else {}
    subject = _Subject(target, one, rows, compiling, tolerance or Tolerance(0.0, 0.0), seed, timeout)
    tensors = [parameter for module in modules_of(target).values() for parameter in module.parameters()]
    tensors += flatten((one.args, dict(one.kwargs))).tensors.values()
    report = InvarianceReport(
        target_name(target),
        "invariance",
        compiling.name if compiling else "none",
        str(torch.__version__),
        str(tensors[0].device) if tensors else "cpu",
        rerun=rerun_command(),
    )
    with machine_faults_named():
        _examine(report, subject, ways)
    return conclude(report)


def _examine(report: InvarianceReport, subject: _Subject, ways: Sequence[str]) -> None:
    try:
        eager = observe(subject.target, subject.calls, None, subject.seed)
    except RaisedInCall as raised:
        which = f"row {list(subject.rows)[raised.number - RUNS - 1]} on its own" if raised.number > RUNS else "the call"
        raise usage_error(f"{which} raises an exception in eager: {raised}", raised.error) from None
    try:
        seen = observe(subject.target, subject.calls, subject.compiling, subject.seed) if subject.compiling else eager
    except RaisedInCall as raised:
        report.findings = error_findings(raised.error)
        return
    for way in ways:
        with doing(f"checking whether results depend on the {way}"):
            result, findings = _checked(way, subject, seen, eager, report)
        report.results.append(result)
        report.findings += findings
    verdicts = [f"{result.over}: {'equal' if result.equal else 'different'}" for result in report.results]
    report.remarks.append(f"invariance: {', '.join(verdicts)}")


def _checked(
    way: str, subject: _Subject, seen: Sequence[Observed], eager: Sequence[Observed], report: InvarianceReport
) -> tuple[Invariance, list[Finding]]:
    pairs = _pairs(way, subject, seen)
    if isinstance(pairs, Finding):
        return Invariance(way, False), [pairs]
    if way == "batch":
        row = pairs[0].other.outputs
        alike = [p for p, whole in seen[0].outputs.items() if p in row and _batch_dim(whole, row[p]) is None]
        if alike:
            report.remarks.append(f"no batch dimension, so not compared row by row: {', '.join(alike)}")
        if len(alike) == len(seen[0].outputs):
            message = "no output has a batch dimension, so rows cannot be compared with the batch"
            return Invariance(way, False), [Finding("not-observable", message)]
    found = _worst(pairs, subject.tolerance)
    if found is None:
        return Invariance(way, True), []
    module = _first_module(way, subject)
    evidence = [found.text]
    if isinstance(subject.target, torch.nn.Module):
        evidence.append(f"first module that differs: {module}" if module else _NO_MODULE)
    in_eager: _Difference | None = found
    if subject.compiling is not None:
        pairs = _pairs(way, replace(subject, compiling=None), eager)
        in_eager = None if isinstance(pairs, Finding) else _worst(pairs, subject.tolerance)
        too = (
            (f"the eager results also differ: the largest difference is {number(in_eager.largest)} at {in_eager.path}")
            if in_eager
            else ""
        )
        evidence.append(too or "eager: equal")
    message = f"{found.path} {_DIFFERS[way]}"
    measure = "largest difference"
    hint = (advice.VARIANT_IN_EAGER if in_eager is not None and not in_eager.is_rounding else advice.VARIANT)[way]
    finding = Finding("invariance", message, None, "\n".join(evidence), hint, subject=found.path, measure=measure)
    finding = replace(finding, measured=found.largest, limit=found.limit)
    return Invariance(way, False, found.largest, found.path, module), [finding]


_DIFFERS = {
    "batch": "differs between a row on its own and the same row in the batch",
    "run": "differs between two runs of the same code",
    "process": "differs between this process and a fresh process",
}
_NO_MODULE = (
    "the first module that differs is unknown: no module's output differs when the outputs of all modules are recorded "
    "(recording affects which ops are fused)"
)


def _pairs(way: str, subject: _Subject, seen: Sequence[Observed], *, modules: bool = False) -> list[_Pair] | Finding:
    """Return the pairs of runs whose outputs must be equal, or a finding if the fresh process returns no result."""
    if way == "run":
        return [_Pair(f"run {number + 1}", seen[0], seen[number]) for number in range(1, RUNS)]
    if way == "batch":
        return [_Pair(f"row {row}", seen[0], alone, row) for row, alone in zip(subject.rows, seen[RUNS:], strict=True)]
    with TemporaryFolder("torch-compile-process-") as cache:
        job = (subject.target, subject.call, subject.compiling, subject.seed, modules)
        environment = {"TORCHINDUCTOR_CACHE_DIR": str(cache)}
        ended = run_fresh(observe_one, *job, seconds=subject.timeout, environment=environment)
    if ended.without_answer:
        return Finding("exception", f"the fresh process {ended.without_answer}", evidence=ended.log)
    if ended.raised is not None:
        message = f"the fresh process raises {ended.raised.type}, but this process does not"
        return Finding("exception", message, ended.raised.location, ended.raised.text)
    return [_Pair("fresh process", seen[0], ended.value)]


def observe_one(target: Any, call: Call, compiling: Compiling | None, seed: int, modules: bool) -> Observed:
    """Run one call, and return copies of its outputs. ``check_invariance`` runs this function in a fresh process."""
    return observe(target, [call], compiling, seed, modules=modules)[0]


def _worst(pairs: Sequence[_Pair], tolerance: Tolerance) -> _Difference | None:
    """Return the largest difference over all pairs and outputs, or None if no difference exceeds the tolerance."""
    differences = [
        found
        for pair in pairs
        for path, tensor in pair.first.outputs.items()
        if (found := _difference(pair, path, tensor, pair.other.outputs.get(path), tolerance)) is not None
    ]
    return max(differences, key=lambda found: found.largest, default=None)


def _difference(
    pair: _Pair, path: str, first: torch.Tensor, other: torch.Tensor | None, tolerance: Tolerance
) -> _Difference | None:
    """Return the difference between two tensors if it exceeds the tolerance; otherwise, return None. If rows are
    compared and the tensors have no batch dimension, return None.
    """
    if other is None:
        return _Difference(path, math.inf, 0.0, f"{pair.label} has no {path}")
    if pair.row is not None:
        dim = _batch_dim(first, other)
        if dim is None:
            return None
        first = first.narrow(dim, pair.row, 1)
    if first.shape != other.shape or first.dtype != other.dtype:
        text = f"{first.dtype} {list(first.shape)}, but {other.dtype} {list(other.shape)} in {pair.label}"
        return _Difference(path, math.inf, 0.0, f"{path} is {text}")
    found = difference(first, other.to(first.device), tolerance.rtol, tolerance.atol)
    if found.ratio <= 1 and found.nonfinite is None:
        return None
    where = found.index if found.nonfinite is None else found.nonfinite
    (index, value), (_, there) = element(first, where), element(other, where)
    text = f"{path}{list(index)} is {number(value)}, but {number(there)} in {pair.label}"
    largest = found.error if found.nonfinite is None else math.inf
    text = f"{text}; {found.differing} of {first.numel()} elements differ"
    return _Difference(path, largest, found.limit, text, _is_rounding(first, largest))


def _is_rounding(tensor: torch.Tensor, error: float) -> bool:
    """Return whether the difference is small enough, relative to the largest element, to come from a different
    summation order.
    """
    if not (tensor.is_floating_point() or tensor.is_complex()) or not tensor.numel():
        return False
    share = min(ROUNDING * torch.finfo(tensor.dtype).eps, 0.05)
    return bool(error <= share * float(tensor.abs().max()))


def _batch_dim(whole: torch.Tensor, alone: torch.Tensor) -> int | None:
    """Return the batch dimension of a result, or None if there is no batch dimension. The batch dimension is the only
    dimension whose size differs between the whole batch and a single row, and its size for a single row is 1.
    """
    if whole.ndim != alone.ndim:
        return None
    smaller = [dim for dim in range(whole.ndim) if whole.shape[dim] != alone.shape[dim]]
    return smaller[0] if len(smaller) == 1 and alone.shape[smaller[0]] == 1 else None


def _first_module(way: str, subject: _Subject) -> str:
    """Return the first module whose output differs when all module outputs are recorded, or an empty string if no
    output differs.
    """
    if not isinstance(subject.target, torch.nn.Module):
        return ""
    try:
        seen = observe(subject.target, subject.calls, subject.compiling, subject.seed, modules=True)
        pairs = _pairs(way, subject, seen, modules=True)
    except RaisedInCall:
        return ""
    if isinstance(pairs, Finding):
        return ""
    firsts = [place for pair in pairs if (place := _differing_module(pair, subject.tolerance)) is not None]
    return min(firsts)[1] if firsts else ""


def _differing_module(pair: _Pair, tolerance: Tolerance) -> tuple[int, str] | None:
    """Return the position (in execution order) and the name of the first module whose output differs, or None if no
    output differs.
    """
    for position, ((name, ours), (_, theirs)) in enumerate(zip(pair.first.modules, pair.other.modules, strict=False)):
        for one, other in zip(ours, theirs, strict=False):
            if _difference(pair, name, one, other, tolerance) is not None:
                return position, name
    return None
