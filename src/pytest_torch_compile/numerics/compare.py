"""Compare the eager and compiled records of one call; return findings, and a result for every tensor or number."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import torch

from .._torch.tensor_state import without_subclass, without_torch_function
from ..findings import Finding, FindingKind, Reference
from . import messages
from .containers import as_tensor, is_below, plain_leaf_difference, structure_differences
from .extra_runs import ExtraRuns
from .leaves import Judgement, LeafVerdict, Pair, judge_pairs
from .measure import bitwise_equal
from .metadata import MetadataDifference, metadata_differences, part_differences, plain_tensors
from .record import CallRecord
from .sections import GRADIENTS, SECTIONS, SectionName, before_the_call, section
from .tolerances import Tolerances
from .tree import Flat

__all__ = ["Comparison", "LeafVerdict", "compare_call"]
Sides = tuple[Flat, Flat]  # the eager values and the compiled values


@dataclass
class Comparison:
    """The result of comparing one call. ``reference`` is the type of reference run that was used for values outside
    their tolerance.

    ``leaves`` contains the result for each tensor or number. ``not_compared`` lists the paths of values that differ
    between two eager runs by more than rounding, and ``ignored`` lists the paths that ``Tolerances.ignored`` excludes.
    If ``raised`` is true, a run raised an exception, and no values were compared.
    """

    findings: list[Finding] = field(default_factory=list)
    leaves: list[LeafVerdict] = field(default_factory=list)
    reference: Reference = Reference.NOT_NEEDED
    nondeterministic: bool = False
    not_compared: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    raised: bool = False

    @property
    def worst_ratio(self) -> float:
        """The largest ratio of a measured error to its limit; a ratio greater than 1 leads to a finding."""
        return max((leaf.worst.ratio for leaf in self.leaves), default=0.0)


def compare_call(eager: CallRecord, compiled: CallRecord, extra_runs: ExtraRuns, tolerances: Tolerances) -> Comparison:
    """Compare the eager and compiled records of one call. ``extra_runs`` are started only while at least one value
    fails.

    Raises:
        CompileUsageError: If an output cannot be compared.
    """
    if eager.error is not None or compiled.error is not None:
        return Comparison(messages.exception_findings(eager, compiled), raised=True)
    sides: dict[SectionName, Sides] = {name: (section(eager, name), section(compiled, name)) for name in SECTIONS}
    # The function passed as compile= may replace modules, so state that exists in only one run before the call is not
    # compared.
    known = eager.initial_state and compiled.initial_state
    apart = eager.initial_state.keys() ^ compiled.initial_state.keys() if known else set()
    only_one_has = [
        label for one in apart for label in (eager.state_label(one), compiled.state_label(one), f"grad of {one}")
    ]
    for name in ("state", "grad"):
        sides[name] = _without(sides[name][0], only_one_has), _without(sides[name][1], only_one_has)
    # Attributes whose structure differs before the first call, for example because a compile wrapper adds attributes.
    different_at_start = [path for path, _ in structure_differences(eager.kept_at_start, compiled.kept_at_start)]
    sides["kept"] = _without(eager.kept, different_at_start), _without(compiled.kept, different_at_start)
    ignored = tuple(path for one, _ in sides.values() for path in one.nodes if tolerances.ignores(path))
    if not tolerances.state:
        sides["kept"] = Flat(), Flat()
    if tolerances.ignored:
        sides = {name: (_chosen(one, tolerances), _chosen(other, tolerances)) for name, (one, other) in sides.items()}
    # Values that are left out must not start another eager run, or be listed as unstable.
    unstable = _unstable(
        sides["kept"], extra_runs.repeat, lambda kept: _chosen(_without(kept, different_at_start), tolerances)
    )
    sides["kept"] = _without(sides["kept"][0], unstable), _without(sides["kept"][1], unstable)

    with without_torch_function():
        pairs = [pair for name, both in sides.items() for pair in _pairs(name, both, tolerances)]
        metadata_of = {name: _metadata(name, both, tolerances) for name, both in sides.items()}
    judged = judge_pairs(pairs, extra_runs)
    failing = judged.failing(pairs)
    findings: list[Finding] = []
    values: list[Finding] = []
    for name, both in sides.items():
        metadata = metadata_of[name]
        wrong = [pair for pair in failing if pair.section == name]
        values += _value_findings(eager, compiled, name, wrong, judged, metadata)
        findings += _structure(eager, name, both)
        findings += [messages.metadata_finding(eager, name, path, found) for path, found in metadata.items()]
    findings += values
    findings += messages.aliasing_findings(eager, compiled) if tolerances.aliasing else []
    findings += messages.random_stream_findings(eager, compiled) if tolerances.rng else []
    leaves = list(judged.verdicts.values())
    return Comparison(
        findings,
        leaves,
        judged.reference,
        nondeterministic=judged.nondeterministic or bool(unstable),
        not_compared=(*unstable, *(leaf.path for leaf in leaves if not leaf.compared)),
        ignored=ignored,
    )


def _chosen(flat: Flat, tolerances: Tolerances) -> Flat:
    return Flat({path: node for path, node in flat.nodes.items() if not tolerances.ignores(path)})


def _unstable(kept: Sides, repeat: Callable[[], CallRecord | None], comparable: Callable[[Flat], Flat]) -> list[str]:
    """Return the paths at which the kept state of two eager runs differs. A second eager run is requested only if the
    eager and the compiled state differ; ``comparable`` returns the part of its state that is compared.
    """
    if not _differing(*kept) or (again := repeat()) is None or again.error is not None:
        return []
    return _differing(kept[0], comparable(again.kept))


def _without(flat: Flat, paths: Sequence[str]) -> Flat:
    """Return the entries, except the entries at ``paths`` and at subpaths of ``paths``."""
    return Flat({k: v for k, v in flat.nodes.items() if k not in paths and not is_below(k, paths)}) if paths else flat


def _differing(one: Flat, other: Flat) -> list[str]:
    """Return the paths at which containers, or values that are not tensors, differ."""
    paths = [path for path, _ in structure_differences(one, other)]
    for path, left, right in _common((one, other)):
        if not isinstance(left, torch.Tensor) and plain_leaf_difference(path, left, right, strict=False):
            paths.append(path)
    return paths


def _structure(record: CallRecord, name: SectionName, sides: Sides) -> Iterator[Finding]:
    """Yield a finding for each difference in structure, such as a missing key or a different type, and for each
    differing value that cannot be converted to a tensor.
    """
    for path, line in structure_differences(*sides):
        yield messages.structure_finding(record, name, path, line)
    for path, left, right in _common(sides):
        if as_tensor(left) is None or as_tensor(right) is None:
            line = plain_leaf_difference(path, left, right, strict=name == "output")
            if line:
                yield messages.plain_finding(record, name, path, line)


def _metadata(name: SectionName, sides: Sides, tolerances: Tolerances) -> dict[str, list[MetadataDifference]]:
    """Return the differences in tensor metadata, by path."""
    # The strides of gradients are not compared, because torch chooses them, in eager and in compiled code.
    is_value = name not in GRADIENTS
    differences: dict[str, list[MetadataDifference]] = {}
    for path, left, right in _tensors_in_both(sides):
        strides = tolerances.strides and is_value
        if found := metadata_differences(left, right, strides=strides, requires_grad=is_value):
            differences[path] = found
        else:
            differences |= part_differences(left, right, path)
    return differences


def _common(sides: Sides) -> Iterator[tuple[str, object, object]]:
    """Yield a path, the eager value and the compiled value for each non-container value that has the same type in both
    runs. Two tensors count as the same type, even if their classes differ.
    """
    eager, compiled = sides
    for path, node in eager.nodes.items():
        other = compiled.nodes.get(path)
        if other is None or not (node.is_leaf and other.is_leaf):
            continue
        both_tensors = isinstance(node.value, torch.Tensor) and isinstance(other.value, torch.Tensor)
        if both_tensors or node.kind is other.kind:
            yield path, node.value, other.value


def _tensors_in_both(sides: Sides) -> Iterator[tuple[str, torch.Tensor, torch.Tensor]]:
    """Yield the entries of ``_common`` whose values are tensors, numbers or NumPy arrays, as tensors."""
    for path, left, right in _common(sides):
        one, two = as_tensor(left), as_tensor(right)
        if one is not None and two is not None:
            yield path, one, one if left is right else two


def _pairs(name: SectionName, sides: Sides, tolerances: Tolerances) -> Iterator[Pair]:
    """Yield the tensors to compare by value, with the tolerances that the user set."""
    for path, one, two in _tensors_in_both(sides):
        if one.layout is not two.layout:
            continue
        parts = plain_tensors(one, path)
        # A value that neither run changed is the same object in both runs.
        others = parts if one is two else plain_tensors(two, path)
        for part, value in parts.items():
            other = others.get(part)
            if other is not None and _comparable(value, other):
                yield Pair(part, name, value, other, tolerances.given_for(part, value.dtype))


def _comparable(left: torch.Tensor, right: torch.Tensor) -> bool:
    return bool(left.shape == right.shape and left.dtype == right.dtype and left.device == right.device)


def _value_findings(
    record: CallRecord,
    compiled: CallRecord,
    name: SectionName,
    failing: Sequence[Pair],
    judged: Judgement,
    metadata: dict[str, list[MetadataDifference]],
) -> list[Finding]:
    """Return one finding for each group of failing tensors. Tensors are in the same group if they have the same finding
    kind and the same result of ``_write`` (lost, unexpected or neither). The metadata differences of a group's tensors
    are moved from ``metadata`` into the group's finding.
    """
    before, compiled_before = before_the_call(record, name), before_the_call(compiled, name)
    stepped = {record.state_label(key) for key in record.state if record.is_parameter(key) and record.optimizer_steps}
    groups: dict[tuple[FindingKind, messages.Write], list[LeafVerdict]] = {}
    for pair in failing:
        # A parameter written by an optimizer is a result, not a side effect.
        kind = "numerics" if name == "state" and pair.path in stepped else messages.VALUE_KINDS[name]
        group = groups.setdefault((kind, _write(pair, before.get(pair.path), compiled_before.get(pair.path))), [])
        group.append(judged.verdicts[pair.path])
    findings = []
    for (kind, write), leaves in groups.items():
        paths = [p for p in metadata if any(leaf.path == p or is_below(leaf.path, [p]) for leaf in leaves)]
        own = {path: metadata.pop(path) for path in paths}
        findings.append(messages.value_finding(record, kind, write, leaves, own, judged.fp64_ran))
    return findings


def _write(pair: Pair, before: torch.Tensor | None, compiled_before: torch.Tensor | None) -> messages.Write:
    """Return ``lost`` if only eager changes the tensor in this call, ``unexpected`` if only compiled code changes it,
    and an empty string otherwise (for example, if both change the tensor, but to different values).
    """
    before = None if before is None else without_subclass(before)
    if before is None or not _comparable(pair.eager, before):
        return ""
    compiled_before = before if compiled_before is None else without_subclass(compiled_before)
    if not _comparable(pair.compiled, compiled_before):
        compiled_before = before
    writes, compiled_writes = not bitwise_equal(pair.eager, before), not bitwise_equal(pair.compiled, compiled_before)
    if writes is compiled_writes:
        return ""
    return "lost" if writes else "unexpected"
