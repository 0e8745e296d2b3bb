"""Generate a script that reproduces a finding: its header, the code that creates the target and its calls, and the
assertion for the kind of finding.
"""

from __future__ import annotations

import ast
import platform
import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from .._torch.process_settings import ProcessSettings
from .._torch.process_state import ProcessState
from .._torch.support import IMPORTS_OF_TORCH, newer_arguments
from ..findings import CompileReport, Finding
from ..legs.check_record import Check
from ..legs.compiling import Compiling
from ..legs.snapshot import Snapshot
from ..legs.targets import argument_names, mark_dynamic
from ..legs.work import Work
from ..report.failure_text import headline
from .definitions import Unwritable
from .writer import Writer, listed

TEMPLATES = Path(__file__).with_name("templates")
TEMPLATE_OF = {
    **dict.fromkeys(("numerics", "gradient", "mutation", "state", "aliasing", "metadata"), "values"),
    **dict.fromkeys(("exception", "compile-error"), "raises"),
    **dict.fromkeys(("recompile", "eager-fallback", "nothing-compiled"), "counts"),
}
IMPORTS = ("import contextlib", *IMPORTS_OF_TORCH)
# torch.compile options that affect the number of compilations
_COUNTED = ("dynamic", "recompile_limit", "isolate_recompiles")
_NO_MATTER = ("compile_threads", "force_disable_caches")  # settings that do not affect results


@dataclass(frozen=True)
class Script:
    """A script: its text, the values that the script loads, and the packages that it needs in addition to torch."""

    text: str
    stored: list[Any]
    needs: tuple[str, ...]


class Renamed:
    """New names for the script's variables and functions whose names also occur in the user's code. The user's code is
    copied unchanged.
    """

    def __init__(self, taken: Collection[str], names: Iterable[str], templates: Iterable[str]) -> None:
        self._new = {name: self._free(name, taken) for name in (*names, *_defined(templates)) if name in taken}

    @staticmethod
    def _free(name: str, taken: Collection[str]) -> str:
        while name in taken:
            name += "_"
        return name

    def applied(self, text: str) -> str:
        """Return the text with the names replaced, including names in f-strings, but not attributes."""
        for name, new in self._new.items():
            text = re.sub(rf"(?<![\w.]){name}(?!\w)", new, text)
        return text


def _defined(templates: Iterable[str]) -> Iterator[str]:
    """Yield the names that the templates define or assign at top level."""
    for statement in (one for text in templates for one in ast.parse(text).body):
        if isinstance(statement, ast.FunctionDef):
            yield statement.name
        for node in ast.walk(statement) if isinstance(statement, (ast.Assign, ast.For, ast.If)) else ():
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id


def script(finding: Finding, report: CompileReport, check: Check, *, exact: bool) -> Script:
    """Return the script for one finding of ``report``; ``exact`` keeps the original tensor values.

    Raises:
        Unwritable: If the target, its inputs or its options cannot be written as source.
    """
    work = check.work
    if any(call.exceptions for call in work.calls):
        raise Unwritable("a call is expected to raise an exception")
    writer = Writer(exact=exact)
    writer.definitions.imports.update(dict.fromkeys(IMPORTS))
    settings = _settings(writer)
    target = writer.expression(work.target, "target")
    with _marked(work):
        calls = [writer.call(one) for one in work.calls]
    constants = _constants(writer, finding, check)
    templates = [
        (TEMPLATES / f"{name}.txt").read_text(encoding="utf-8") for name in ("run", _judge(finding, check.compiling))
    ]
    own = Renamed(writer.definitions.taken, [*constants, "make", "MODES"], templates)
    body = [f"global {', '.join(writer.state)}"] if writer.state else []
    body += ["torch.manual_seed(0)", *writer.body, f"return {target}, {listed(calls, '    ')}"]
    sections = [
        _head(finding, report, writer),
        writer.definitions.text,
        *writer.helpers,
        'values = torch.load(__file__[:-2] + "pt", weights_only=False)' if writer.stored else "",
        own.applied(settings),
        "\n".join(f"{own.applied(name)} = {value}" for name, value in constants.items()),
        own.applied("def make():\n") + "\n".join(f"    {line}" for text in body for line in text.splitlines()),
        *map(own.applied, templates),
    ]
    text = "\n\n".join(section.strip("\n") for section in sections if section.strip())
    return Script(text + "\n", writer.stored, tuple(sorted(writer.definitions.needs)))


def _judge(finding: Finding, compiling: Compiling) -> str:
    """Return the name of the template that contains the assertion. With ``fullgraph=True``, a break raises an
    exception; otherwise, breaks are counted.
    """
    return TEMPLATE_OF.get(finding.kind) or ("raises" if compiling.fullgraph else "counts")


def _head(finding: Finding, report: CompileReport, writer: Writer) -> str:
    lines = [
        f"{finding.kind}: {headline(finding)}",
        "",
        f"torch {torch.__version__}, Python {platform.python_version()}, {platform.system()}, {report.device}.",
        f"This script needs {', '.join(('torch', *sorted(writer.definitions.needs)))}.",
        *(["The script loads values from the .pt file next to it."] if writer.stored else []),
    ]
    quoted = "\n".join(lines).replace("\\", "\\\\").replace('"""', "'''")
    return f'"""{quoted}\n"""'


@contextmanager
def _marked(work: Work) -> Iterator[None]:
    """Inside the ``with`` block, mark the dimensions in ``work.dynamic_dims`` as dynamic."""
    if not work.dynamic_dims:
        yield
        return
    snapshot = Snapshot((call.args, call.kwargs) for call in work.calls)
    with snapshot.in_force(snapshot.new_leg()):
        for call in work.calls:
            mark_dynamic(call, work.dynamic_dims, argument_names(work.target), work.calls)
        yield


def _constants(writer: Writer, finding: Finding, check: Check) -> dict[str, str]:
    work, compiling = check.work, check.compiling
    chosen: dict[str, Any] = {"fullgraph": compiling.fullgraph, "backend": compiling.backend, "mode": compiling.mode}
    chosen |= {"options": compiling.options, "dynamic": compiling.dynamic, **newer_arguments(compiling.more)}
    written = {name: writer.expression(value, name) for name, value in chosen.items() if value is not None}
    # A script shows only the arguments that differ from the defaults of ``torch.compile``.
    usual = {"fullgraph": "False", "backend": "'inductor'"}
    options = {name: value for name, value in written.items() if value != usual.get(name)}
    constants = {
        "KIND": repr(finding.kind),
        "OPTIONS": _mapping(options),
        "SEED": repr(work.seed),
        "TRAIN": writer.expression(work.train, "loss") if callable(work.train) else repr(work.trains),
        "OPTIMIZER": writer.expression(work.optimizer, "optimizer"),
        "STEPS": repr(work.steps),
        "STATE": repr(list(writer.state)),
    }
    judge = _judge(finding, compiling)
    if judge == "values":
        given = check.tolerances.given_for(finding.subject, torch.float32)
        tolerance = (given.rtol, given.atol) if given else None
        constants["SUBJECT"] = repr("state" if finding.kind == "state" else finding.subject or "random stream")
        constants["NAMES"] = repr(argument_names(work.target))
        constants["TOLERANCE"] = f"{tolerance}  # (rtol, atol) if the check sets them, otherwise None"
    elif judge == "counts":
        accepted = len(frozenset(check.budget.accepted_breaks)) if finding.kind == "graph-break" else 0
        constants["COUNTED"] = _mapping({name: options[name] for name in _COUNTED if name in options})
        constants["LIMIT"] = repr(int(finding.limit or 0) + accepted)
    return constants


def _mapping(options: dict[str, str]) -> str:
    return "{" + ", ".join(f"{name!r}: {value}" for name, value in options.items()) + "}"


def _settings(writer: Writer) -> str:
    """Return source that sets the non-default torch settings, except those whose values cannot be written as source."""
    settings = ProcessSettings.now()
    state, (dtype, device) = settings.state, (settings.state.defaults.dtype, settings.state.defaults.device)
    lines = [f"torch.set_default_dtype({dtype})"] if dtype is not torch.float32 else []
    lines += ["torch.use_deterministic_algorithms(True)"] if state.deterministic.algorithms else []
    if state.precision not in ("", "highest"):
        lines.append(f"torch.set_float32_matmul_precision({state.precision!r})")
    lines += [f"torch.set_default_device({str(device)!r})"] if device else []
    if modes := _modes(state):
        lines += ["MODES = contextlib.ExitStack()", *(f"MODES.enter_context({mode})" for mode in modes)]
    for (module, name), value in settings.config.items():
        if name not in _NO_MATTER and isinstance(value, (bool, int, float, str, type(None))):
            writer.definitions.imports[f"import {module}"] = None
            lines.append(f"{module}.{name} = {value!r}")
    return "\n".join(lines)


def _modes(state: ProcessState) -> list[str]:
    """Return, as source, the global torch modes in which the check runs."""
    modes = [
        f"torch.autocast({device!r}, {dtype}, cache_enabled={state.autocast_cache})"
        for device, enabled, dtype in state.autocast
        if enabled
    ]
    if state.inference:
        modes.append("torch.inference_mode()")
    elif not state.grad:
        modes.append("torch.no_grad()")
    return modes
