"""Determine whether results depend on the other rows in the batch, on the run or on the process."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch

from .. import advice
from ..events import doing
from ..findings import Finding
from ..numerics.measure import difference, element
from ..numerics.tolerances import Tolerance
from ..report.failure_text import digits_apart, number
from .observed import RUNS, Observed, RaisedInCall, Subject

PROPERTIES = ("batch", "run", "process")
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


@dataclass
class Dependence:
    """Compares the runs of ``subject`` that must be equal. ``seen`` contains the runs of the subject, and ``eager`` its
    runs in eager. ``remarks`` lists outputs that cannot be compared.
    """

    subject: Subject
    tolerance: Tolerance
    seen: Sequence[Observed]
    eager: Sequence[Observed]
    remarks: list[str] = field(default_factory=list)

    def on(self, way: str) -> tuple[Invariance, list[Finding]]:
        """Return whether the results are the same over one of the ``PROPERTIES``, and the findings."""
        with doing(f"checking whether results depend on the {way}"):
            pairs = _pairs(way, self.subject, self.seen)
            if isinstance(pairs, Finding):
                return Invariance(way, False), [pairs]
            if way == "batch" and not self._has_batch_dim(pairs[0]):
                message = "no output has a batch dimension, so rows cannot be compared with the batch"
                return Invariance(way, False), [Finding("not-observable", message)]
            found = _worst(pairs, self.tolerance)
            if found is None:
                return Invariance(way, True), []
            module = _first_module(way, self.subject, self.tolerance)
            result = Invariance(way, False, found.largest, found.path, module)
            return result, [self._finding(way, found, module)]

    def _has_batch_dim(self, pair: _Pair) -> bool:
        """Return whether an output has a batch dimension, and note the outputs that have none."""
        whole, row = pair.first.outputs, pair.other.outputs
        alike = [path for path, tensor in whole.items() if path in row and _batch_dim(tensor, row[path]) is None]
        if alike:
            self.remarks.append(f"no batch dimension, so not compared row by row: {', '.join(alike)}")
        return len(alike) < len(whole)

    def _finding(self, way: str, found: _Difference, module: str) -> Finding:
        evidence = [found.text]
        if isinstance(self.subject.target, torch.nn.Module):
            evidence.append(f"first module that differs: {module}" if module else _NO_MODULE)
        in_eager: _Difference | None = found
        if self.subject.compiling is not None:
            pairs = _pairs(way, replace(self.subject, compiling=None), self.eager)
            in_eager = None if isinstance(pairs, Finding) else _worst(pairs, self.tolerance)
            too = f"the largest difference is {number(in_eager.largest)} at {in_eager.path}" if in_eager else ""
            evidence.append(f"the eager results also differ: {too}" if too else "eager: equal")
        hints = advice.VARIANT_IN_EAGER if in_eager is not None and not in_eager.is_rounding else advice.VARIANT
        return Finding(
            "invariance",
            f"{found.path} {_DIFFERS[way]}",
            evidence="\n".join(evidence),
            hint=hints[way],
            subject=found.path,
            measure="largest difference",
            measured=found.largest,
            limit=found.limit,
        )


_DIFFERS = {
    "batch": "differs between a row on its own and the same row in the batch",
    "run": "differs between two runs of the same code",
    "process": "differs between this process and a fresh process",
}
_NO_MODULE = (
    "the first module that differs is unknown: no module's output differs when the outputs of all modules are recorded "
    "(recording affects which ops are fused)"
)


def _pairs(way: str, subject: Subject, seen: Sequence[Observed], *, modules: bool = False) -> list[_Pair] | Finding:
    """Return the pairs of runs whose outputs must be equal, or a finding if the fresh process returns no result."""
    if way == "run":
        return [_Pair(f"run {number + 1}", seen[0], seen[number]) for number in range(1, RUNS)]
    if way == "batch":
        return [_Pair(f"row {row}", seen[0], alone, row) for row, alone in zip(subject.rows, seen[RUNS:], strict=True)]
    there = subject.observe_in_fresh_process(modules=modules)
    return there if isinstance(there, Finding) else [_Pair("fresh process", seen[0], there)]


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
    if found.worst.ratio <= 1 and found.nonfinite is None:
        return None
    where = found.index if found.nonfinite is None else found.nonfinite
    (index, value), (_, there) = element(first, where), element(other, where)
    digits = digits_apart(value, there)
    text = f"{path}{list(index)} is {number(value, digits)}, but {number(there, digits)} in {pair.label}"
    largest = found.worst.error if found.nonfinite is None else math.inf
    text = f"{text}; {found.differing} of {first.numel()} elements differ"
    return _Difference(path, largest, found.worst.limit, text, _is_rounding(first, largest))


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


def _first_module(way: str, subject: Subject, tolerance: Tolerance) -> str:
    """Return the first module whose output differs when all module outputs are recorded, or an empty string if no
    output differs.
    """
    if not isinstance(subject.target, torch.nn.Module):
        return ""
    try:
        pairs = _pairs(way, subject, subject.observe(modules=True), modules=True)
    except RaisedInCall:
        return ""
    if isinstance(pairs, Finding):
        return ""
    firsts = [place for pair in pairs if (place := _differing_module(pair, tolerance)) is not None]
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
