"""Two legs' records of one call, compared: every finding, and every leaf's verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import torch

from ..findings import Finding
from . import messages
from .aliasing import aliasing_differences, sharing
from .containers import as_tensor, is_below, plain_leaf_difference, structure_differences
from .leaves import Judgement, LeafVerdict, Pair, Values, judge
from .measure import bitwise_equal
from .metadata import metadata_differences, plain_tensors
from .record import CallRecord
from .sections import SECTIONS, Section, SectionName, before_the_call, plain_values, section
from .tolerances import Tolerances
from .tree import Flat

__all__ = ["Comparison", "LeafVerdict", "compare_calls"]


@dataclass
class Comparison:
    """What comparing one call showed. ``reference`` says what judged the leaves that no tolerance passed.

    ``not_compared`` names the leaves in which eager differs from itself by more than rounding, ``ignored`` those that
    the user leaves out.
    ``raised``: a leg raised, so that there was nothing to compare.
    """

    findings: list[Finding] = field(default_factory=list)
    leaves: list[LeafVerdict] = field(default_factory=list)
    reference: str = "not needed"
    nondeterministic: bool = False
    not_compared: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    raised: bool = False

    @property
    def worst_ratio(self) -> float:
        """The largest measured error as a multiple of its limit; over 1 is a finding."""
        return max((leaf.ratio for leaf in self.leaves), default=0.0)


def compare_calls(
    eager: CallRecord,
    compiled: CallRecord,
    *,
    reference: Callable[[], CallRecord | None],
    repeat: Callable[[], CallRecord | None],
    tolerances: Tolerances,
    shaken: Callable[[], Iterable[CallRecord]] = tuple,
) -> Comparison:
    """Compare what two legs did on one call.

    ``reference`` runs (or looks up) the fp64 eager leg's record of the call, ``repeat`` a second eager run; each is
    asked at most once, and only when a leaf needs it. Either may return None: it could not run. ``shaken`` gives
    eager runs with disturbed rounding, one after the other, asked for as long as a leaf is wrong.

    Raises:
        CompileUsageError: an output that cannot be compared.
    """
    if eager.error is not None or compiled.error is not None:
        return Comparison(messages.exception_findings(eager, compiled), raised=True)
    legs = {name: (section(eager, name), section(compiled, name)) for name in SECTIONS}
    legs["kept"], unstable = _kept(eager, compiled, repeat)
    ignored = tuple(path for one, _ in legs.values() for path in one.flat.nodes if tolerances.ignores(path))
    legs = {name: (_chosen(one, tolerances), _chosen(other, tolerances)) for name, (one, other) in legs.items()}
    findings = [finding for left, right in legs.values() for finding in _structure(eager, left, right, tolerances)]
    pairs = [pair for left, right in legs.values() for pair in _pairs(left, right)]
    verdicts = judge(
        pairs,
        lambda: _values(reference()),
        lambda: _values(repeat()),
        tolerances,
        lambda: (values for record in shaken() if (values := _values(record)) is not None),
    )
    for name in legs:
        findings += _value_findings(eager, name, pairs, verdicts)
    if tolerances.aliasing:
        findings += _aliasing(eager, compiled)
    if tolerances.rng:
        findings += _random_streams(eager, compiled)
    leaves = list(verdicts.verdicts.values())
    not_compared = (*unstable, *(leaf.path for leaf in leaves if not leaf.compared))
    nondeterministic = verdicts.nondeterministic or bool(unstable)
    return Comparison(findings, leaves, verdicts.reference, nondeterministic, not_compared, ignored)


def _chosen(part: Section, tolerances: Tolerances) -> Section:
    """A section without the leaves that the user leaves out."""
    if part.name == "kept" and not tolerances.state:
        return Section(part.name, Flat())
    if not tolerances.ignored:
        return part
    return Section(part.name, Flat({k: v for k, v in part.flat.nodes.items() if not tolerances.ignores(k)}))


def _kept(
    eager: CallRecord, compiled: CallRecord, repeat: Callable[[], CallRecord | None]
) -> tuple[tuple[Section, Section], list[str]]:
    """What both legs keep, as far as it can be compared, and where eager differs from itself.

    What only one leg has before the first call, as what a compile wrapper puts on its target, is not compared.
    """
    own = [path for path, _ in structure_differences(eager.kept_at_start, compiled.kept_at_start)]
    one, other = _without(eager.kept, own), _without(compiled.kept, own)
    unstable: list[str] = []
    if _differing(one, other) and (again := repeat()) is not None and again.error is None:
        unstable = _differing(one, _without(again.kept, own))
    return (Section("kept", _without(one, unstable)), Section("kept", _without(other, unstable))), unstable


def _without(flat: Flat, paths: Sequence[str]) -> Flat:
    """What is left when some paths, and what they lead to, are taken out."""
    return Flat({k: v for k, v in flat.nodes.items() if k not in paths and not is_below(k, paths)}) if paths else flat


def _differing(one: Flat, other: Flat) -> list[str]:
    """Where two legs keep other containers or other values that are not tensors."""
    paths = [path for path, _ in structure_differences(one, other)]
    for path, left, right in _common(Section("kept", one), Section("kept", other)):
        if not isinstance(left, torch.Tensor) and plain_leaf_difference(path, left, right, strict=False):
            paths.append(path)
    return paths


def _values(record: CallRecord | None) -> Values | None:
    return None if record is None or record.error is not None else plain_values(record)


def _structure(record: CallRecord, eager: Section, compiled: Section, tolerances: Tolerances) -> Iterator[Finding]:
    for path, line in structure_differences(eager.flat, compiled.flat):
        yield messages.structure_finding(record, eager.name, path, line)
    for path, left, right in _common(eager, compiled):
        if isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor):
            is_grad = eager.name in ("grad", "input grad")
            lines = metadata_differences(
                left, right, strides=tolerances.strides and not is_grad, requires_grad=not is_grad
            )
            if lines:
                yield messages.metadata_finding(record, eager.name, path, lines)
        elif as_tensor(left) is None or as_tensor(right) is None:
            line = plain_leaf_difference(path, left, right, strict=eager.name == "output")
            if line:
                yield messages.plain_finding(record, eager.name, path, line)


def _common(eager: Section, compiled: Section) -> Iterator[tuple[str, object, object]]:
    others = compiled.flat.nodes
    for path, node in eager.flat.nodes.items():
        other = others.get(path)
        if other is None or not (node.is_leaf and other.is_leaf):
            continue
        both_tensors = isinstance(node.value, torch.Tensor) and isinstance(other.value, torch.Tensor)
        if both_tensors or node.kind is other.kind:
            yield path, node.value, other.value


def _pairs(eager: Section, compiled: Section) -> Iterator[Pair]:
    for path, left, right in _common(eager, compiled):
        one, two = as_tensor(left), as_tensor(right)
        if one is None or two is None or one.layout is not two.layout:
            continue
        parts, others = plain_tensors(one, path), plain_tensors(two, path)
        for part, value in parts.items():
            other = others.get(part)
            if other is not None and _comparable(value, other):
                yield Pair(part, eager.name, value, other)


def _comparable(left: torch.Tensor, right: torch.Tensor) -> bool:
    return bool(left.shape == right.shape and left.dtype == right.dtype and left.device == right.device)


def _value_findings(record: CallRecord, name: SectionName, pairs: list[Pair], result: Judgement) -> list[Finding]:
    failing = [p for p in pairs if p.section == name and not result.verdicts[p.path].ok]
    if not failing:
        return []
    before = before_the_call(record, name)
    groups: dict[tuple[str, str], list[LeafVerdict]] = {}
    for pair in failing:
        what = _write(pair, before.get(pair.path))
        kind = _kind(record, name, pair.path)
        groups.setdefault((kind, what), []).append(result.verdicts[pair.path])
    return [messages.value_finding(record, kind, what, found, result) for (kind, what), found in groups.items()]


def _kind(record: CallRecord, name: SectionName, path: str) -> str:
    if name in ("output", "kept"):
        return "numerics" if name == "output" else "state"
    if name in ("grad", "input grad"):
        return "gradient"
    stepped = record.optimizer_steps > 0 and path.startswith("parameter ")
    return "numerics" if stepped else "mutation"


def _write(pair: Pair, before: torch.Tensor | None) -> str:
    """``lost``, ``unexpected``, or nothing: the value is simply wrong."""
    if before is None or not _comparable(pair.eager, before):
        return ""
    if bitwise_equal(pair.compiled, before):
        return "lost"
    return "unexpected" if bitwise_equal(pair.eager, before) else ""


def _aliasing(eager: CallRecord, compiled: CallRecord) -> list[Finding]:
    sets = []
    for record in (eager, compiled):
        others = dict(section(record, "argument").flat.tensors) | dict(section(record, "state").flat.tensors)
        sets.append(sharing(section(record, "output").flat.tensors, others))
    return [messages.aliasing_finding(eager, line) for line in aliasing_differences(*sets)]


def _random_streams(eager: CallRecord, compiled: CallRecord) -> list[Finding]:
    devices = [d for d in eager.rng if d in compiled.rng and not torch.equal(eager.rng[d], compiled.rng[d])]
    return [messages.random_finding(eager, devices)] if devices else []
