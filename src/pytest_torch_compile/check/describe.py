"""Describe calls and targets: names, shapes, rows of the call table, and the command that reruns a test."""

from __future__ import annotations

import inspect
import os
import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from types import BuiltinFunctionType, FunctionType
from typing import Any

import torch

from .. import settings
from .._torch.attributes import is_a
from .._torch.breaks import fingerprint
from .._torch.object_text import ROUTINES, name_of, text_of
from .._torch.tensor_state import without_torch_function
from .._torch.user_lines import is_library, is_torch, module_of
from ..findings import CallReport
from ..legs.calls import Call
from ..legs.targets import Factory, argument_names, called_function, device_of, modules_of
from ..numerics import flatten
from ..observation import Location, Observation, Recompile
from ..report import safe_text

_DTYPES = {torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16", torch.int64: "i64"}


_NAMESPACES = (torch, torch.nn.functional, torch.linalg, torch.fft, torch.special)


def target_name(target: Any) -> str:
    """Return a readable name for the target."""
    if is_a(target, Factory):
        return f"the target created by {target_name(target.make)}"
    name = name_of(target)
    if is_a(target, ROUTINES) and ("." in name or is_a(target, BuiltinFunctionType)):
        # The qualified names of torch's functions contain a C++ class or a factory function.
        public = (f"{m.__name__}.{key}" for m in _NAMESPACES for key, value in vars(m).items() if value is target)
        name = next(public, re.sub(r"^_?TensorBase\.", "Tensor.", name))
    return name


def definition(target: Any) -> Location | None:
    """Return the location of the target's definition, for findings that have no source line; None if the target is not
    written in Python.
    """
    file, line, source = _source(target)
    return Location(file, line, target_name(target), source[0].strip()) if source else None


def _source(target: Any) -> tuple[str, int, list[str]]:
    """Return the file, the number of the first line and the lines of the target's source. There are no lines if the
    target is not written in Python.
    """
    function = type(target).forward if is_a(target, torch.nn.Module) else called_function(target)
    try:
        function = inspect.unwrap(function)
        lines, line = inspect.getsourcelines(function)
        return inspect.getsourcefile(function) or "", line, lines
    except (OSError, TypeError):
        return "", 0, []


def located(seen: Observation, target: Any, calls: Sequence[Call] = ()) -> None:
    """Replace locations in torch's files with the line where the target is defined. For each graph break, record the
    NumPy scalars that its source line uses.
    """
    place = definition(target)
    if place is None or is_torch(place.file):
        place = None
    numbers = numpy_numbers(target, calls)
    for graph_break in seen.graph_breaks:
        words = set(re.findall(r"\w+", graph_break.location.source))
        graph_break.numbers = tuple(name for name in numbers if name.rpartition(".")[2] in words)
        if is_torch(graph_break.location.file) and place is not None:
            graph_break.location = replace(place, library=graph_break.location)
            graph_break.fingerprint = fingerprint(place, graph_break.category)
            graph_break.module, graph_break.installed = module_of(place.file), is_library(place.file)
    seen.recompiles[:] = [r if _is_users(r.location) else replace(r, location=place) for r in seen.recompiles]
    # torch wraps functions such as an optimizer's ``step``, and the wrapper's name means nothing to users.
    named = {"location": place, "frame": place.function} if place is not None else {"location": None}
    seen.errors[:] = [e if _is_users(e.location) else replace(e, **named) for e in seen.errors]
    seen.fallbacks[:] = [f if _is_users(f.location) else replace(f, location=place) for f in seen.fallbacks]


def numpy_numbers(target: Any, calls: Sequence[Call]) -> list[str]:
    """Return the names of the module attributes, function variables and arguments whose value is a NumPy scalar."""
    number, names = getattr(sys.modules.get("numpy"), "generic", ()), argument_names(target)
    named = [("self.", vars(part)) for module in modules_of(target).values() for part in module.modules()]
    if is_a(target, FunctionType):
        closed = inspect.getclosurevars(target)
        named += [("", closed.nonlocals), ("", closed.globals)]
    named += [("", {**dict(zip(names, call.args, strict=False)), **call.kwargs}) for call in calls]
    found = (
        f"{prefix}{name}" for prefix, values in named for name, value in values.items() if isinstance(value, number)
    )
    return list(dict.fromkeys(found))


def _is_users(location: Location | None) -> bool:
    return location is not None and not is_torch(location.file)


def shapes_text(call: Call, target: Any) -> str:
    """Describe the arguments of a call to the target: ``x f32[2, 16], n=3``."""
    names = argument_names(target)
    named = [(names[i] if i < len(names) else "", value) for i, value in enumerate(call.args)]
    with without_torch_function():
        parts = [_value_text(name, value) for name, value in [*named, *call.kwargs.items()]]
    return ", ".join(part for part in parts if part)


def _value_text(name: str, value: Any) -> str:
    if isinstance(value, torch.Tensor):
        dtype = _DTYPES.get(value.dtype, str(value.dtype).removeprefix("torch."))
        # A nested tensor with the strided layout has no shape.
        has_shape = not value.is_nested or value.layout is not torch.strided
        return f"{name} {dtype}{list(value.shape) if has_shape else '[nested]'}".strip()
    tensors = flatten(value, name or "arg").tensors
    if tensors:
        return ", ".join(_value_text(path, tensor) for path, tensor in list(tensors.items())[:4])
    return f"{name}={text_of(value)}".lstrip("=")


def call_row(index: int, call: Call, seen: Observation, target: Any, *, raised: bool = False) -> CallReport:
    """Return a call's row in the call table: its outcome (such as compiled, recompiled, reused or eager) and the failed
    guard.
    """
    now = seen.during(index + 1)
    if raised and call.exceptions:
        outcome, guard = "raised", ""
    elif now.errors and (raised or not any(error.swallowed for error in now.errors)):
        outcome, guard = "compilation failed", ""
    elif now.errors:
        outcome, guard = "eager (error swallowed)", (now.errors[0].message or now.errors[0].error).splitlines()[0]
    elif now.fallbacks:
        outcome, guard = "eager (recompile limit)", now.fallbacks[0].detail
    elif now.recompiles:
        outcome, guard = "recompiled", _guard_text(now.recompiles[0], target)
    elif now.graphs:
        outcome, guard = f"compiled, {len(now.graphs)} graph{'s' if len(now.graphs) != 1 else ''}", ""
    elif not seen.graphs:
        outcome, guard = "not compiled", ""
    else:
        outcome, guard = "reused" if not seen.fallbacks else "reused or eager", ""
    return CallReport(call.label or f"call {index + 1}", shapes_text(call, target), outcome, guard)


def _guard_text(recompile: Recompile, target: Any) -> str:
    """Return the guard that failed, with the name of the function if the guard is about the arguments of a function
    that the target calls.
    """
    place = recompile.location
    if place is None or is_torch(place.file) or _is_in(place, target):
        return recompile.guard
    return f"in {recompile.frame}: {recompile.guard}"


def _is_in(place: Location, target: Any) -> bool:
    """Return whether a line belongs to the target: to its function, or to the decorator that wraps the function."""
    file, first, lines = _source(target)
    if place.file == file and first <= place.line < first + len(lines):
        return True
    code = getattr(called_function(target), "__code__", None)
    return code is not None and (place.file, place.line) == (code.co_filename, code.co_firstlineno)


def device_name(target: Any, call: Call) -> str:
    """Return the name of the device on which a call to the target runs."""
    return str(device_of(target, call.args, call.kwargs))


def rerun_command() -> str:
    """Return the command that reruns the current test or, outside pytest, the current script; empty if unknown."""
    current = os.environ.get("PYTEST_CURRENT_TEST")
    if current:
        file, *names = current.rsplit(" (", 1)[0].split("::")
        test = "::".join([os.path.normpath(os.path.join(settings.current.root, file)), *names])
        return " ".join(["python -m pytest", safe_text.shell(test), *map(shlex.quote, settings.current.rerun_options)])
    return f"python {' '.join(sys.argv)}" if sys.argv and sys.argv[0] not in ("", "-c") else ""
