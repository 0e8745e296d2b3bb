"""Find fixes for recompiles: changes that are suggested only if a trial run succeeds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from .._torch.capture import INTEGERS_OF_MODULES, capturing, written
from .._torch.dynamic import marked_dims
from ..findings import CompileReport
from ..legs.calls import Call
from ..legs.targets import argument_names
from ..report.failure_text import count
from .adapted import Adaptation, checked
from .first_call import ADVICE
from .subject import Subject, recompile_causes

KINDS = {"recompile", "eager-fallback"}
MULTIPLES = (8, 16, 32, 64)
Name = str | int  # name of an argument, or its position if it has no name
Dims = dict[Name, tuple[int, ...]]


def recompile_advice(subject: Subject) -> Iterator[str]:
    """Yield a line for each change that makes the check pass. Each line shows the number of recompiles with and without
    the change.
    """
    if not subject.kinds & KINDS or subject.compiling.wrapper is not None:
        return
    for what, changes in _candidates(subject):
        # First try without code generation, then with the check's backend if there is time.
        how, report = "tried", _again(subject, changes, backend="eager")
        if report is not None and not report.findings and not subject.compiling.has_backend("eager"):
            if subject.report.observation.compile_seconds.total > subject.left:
                how = "tried with backend eager"
            else:
                report = _again(subject, changes)
        if report is not None and not report.findings:
            recompiles = f"{count(len(report.recompiles), 'recompile')} instead of {len(subject.report.recompiles)}"
            yield f"{how}: {what}: {recompiles}{', no eager fallback' if subject.report.fallbacks else ''}"


def _again(subject: Subject, changes: dict[str, Any], backend: str | None = None) -> CompileReport | None:
    fields = {name: value for name, value in changes.items() if name not in ("switches", "adaptation")}
    with capturing(changes.get("switches", ())):
        if "adaptation" in changes:
            return checked(subject, changes["adaptation"], backend, **fields)
        return subject.again(backend, **fields)


def _candidates(subject: Subject) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield possible changes as (description, changes) pairs.

    Each key of ``changes`` is the name of a field of ``Work`` or ``Compiling``, or one of two special keys:
    ``switches`` (dynamo's options to turn on) and ``adaptation`` (a change to the calls).
    """
    calls, names = subject.work.calls, argument_names(subject.work.target)
    values: dict[Name, list[Any]] = {}
    for call in calls:
        for name, value in _named(call, names).items():
            values.setdefault(name, []).append(value)

    numbers = [
        name
        for name, seen in values.items()
        if all(isinstance(one, (int, float)) and not isinstance(one, bool) for one in seen) and len(set(seen)) > 1
    ]
    if numbers:
        as_tensors = partial(_changed, names, numbers, lambda _, number: torch.tensor(number, device="cpu"))
        yield (
            f"pass {_listed(numbers)} as {'a tensor instead of a Python number' if len(numbers) == 1 else 'tensors'}",
            {"adaptation": Adaptation(as_tensors)},
        )

    if recompile_causes(subject.report) - {"size", "python-number"}:
        yield ADVICE, {"adaptation": Adaptation(eager_first=True)}
    causes = recompile_causes(subject.report)
    if "stride" in causes:
        tensors = [name for name, seen in values.items() if all(isinstance(one, torch.Tensor) for one in seen)]
        differ = [name for name in tensors if len({one.stride() for one in values[name]}) > 1]
        contiguous = partial(_changed, names, differ, lambda _, tensor: tensor.contiguous())
        if differ:
            yield f"make {_listed(differ)} contiguous before the call", {"adaptation": Adaptation(contiguous)}
    if "python-number" in causes and not numbers:
        yield written(INTEGERS_OF_MODULES), {"switches": (INTEGERS_OF_MODULES,)}
        if not subject.compiling.dynamic:
            both = {"switches": (INTEGERS_OF_MODULES,), "dynamic": True}
            yield f"{written(INTEGERS_OF_MODULES)}, with dynamic=True", both
    if "dynamic-mark" in causes and not subject.work.dynamic_dims:
        marked: dict[str | int, tuple[int, ...]] = {}
        for name, seen in values.items():
            if dims := {dim for one in seen if isinstance(one, torch.Tensor) for dim in marked_dims(one)}:
                marked[name] = tuple(sorted(dims))
        yield (
            f"dynamic_dims={{{_listed_dims(marked)}}}, which marks these dimensions as dynamic in every call",
            {"dynamic_dims": marked},
        )

    yield from _of_sizes(subject, values, names)


def _of_sizes(
    subject: Subject, values: dict[Name, list[Any]], names: Sequence[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    calls = subject.work.calls
    # torch specializes sizes 0 and 1, so they cannot be marked as dynamic. A dimension of size 1 can still be padded.
    padded_dims = {name: changing for name, seen in values.items() if (changing := _changing_dims(seen, least=1))}
    dims: Dims = {name: changing for name, seen in values.items() if (changing := _changing_dims(seen, least=2))}
    if not padded_dims:
        return
    if dims and not subject.work.dynamic_dims:
        yield f"dynamic_dims={{{_listed_dims(dims)}}}", {"dynamic_dims": dims}
    if not subject.compiling.dynamic:
        yield "dynamic=True", {"dynamic": True}
    for multiple in MULTIPLES:
        padded = partial(_changed, names, padded_dims, partial(_padded, padded_dims, multiple))
        shapes = {tuple(_named(padded(call), names)[name].shape for name in padded_dims) for call in calls}
        if len(shapes) <= 1 + int(subject.report.budget["max_recompiles"]):
            yield (
                f"pad {_listed(padded_dims)} to a multiple of {multiple}",
                {"adaptation": Adaptation(padded, cuts=True)},
            )
            return


def _named(call: Call, names: Sequence[str]) -> dict[Name, Any]:
    named = {_name(names, i): value for i, value in enumerate(call.args)}
    named.update(call.kwargs)
    return named


def _name(names: Sequence[str], position: int) -> Name:
    return names[position] if position < len(names) else position


def _changing_dims(values: Sequence[Any], least: int) -> tuple[int, ...]:
    """Return the dimensions of a tensor argument that change between calls and are never smaller than ``least``."""
    shapes = [tuple(value.shape) for value in values if isinstance(value, torch.Tensor)]
    if len({len(shape) for shape in shapes}) != 1:
        return ()
    sizes = enumerate(zip(*shapes, strict=True))
    return tuple(dim for dim, seen in sizes if len(set(seen)) > 1 and min(seen) >= least)


def _changed(names: Sequence[str], chosen: Collection[Name], change: Callable[[Name, Any], Any], call: Call) -> Call:
    """Return the call with the chosen arguments changed."""
    new = {name: change(name, value) if name in chosen else value for name, value in _named(call, names).items()}
    args = tuple(new[_name(names, i)] for i in range(len(call.args)))
    return replace(call, args=args, kwargs={name: new[name] for name in call.kwargs})


def _padded(dims: Dims, multiple: int, name: Name, tensor: torch.Tensor) -> torch.Tensor:
    missing = [(-size) % multiple if dim in dims[name] else 0 for dim, size in enumerate(tensor.shape)]
    # torch expects the padding before and after each dimension, starting with the last dimension.
    flat = [number for behind in reversed(missing) for number in (0, behind)]
    return torch.nn.functional.pad(tensor, flat)


def _listed_dims(dims: Dims) -> str:
    return ", ".join(f"{name!r}: {changing[0] if len(changing) == 1 else changing}" for name, changing in dims.items())


def _listed(names: Iterable[Name]) -> str:
    return ", ".join(name if isinstance(name, str) else f"argument {name}" for name in names)
