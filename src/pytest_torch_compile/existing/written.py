"""``--compile-write-tests``: write one test file for each module of the package, with one check for each target."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from .. import settings
from ..disk import write_atomically
from ..events import heard_only_by
from ..findings import CompileCheckFailed, categories_of
from ..observation import file_line
from .checking import Checked
from .undisturbed import undisturbed
from .verdicts import VERDICTS, Row, short_path, verdict_of

_HEAD = '''"""Check that {module} works under torch.compile.

Run these tests with {run}; {backend}.
They require pytest-torch-compile. The following command created this file, and overwrites the file when it
is run again: pytest --compile-existing={given} --compile-write-tests

A test passes if each call compiles to one graph, and outputs and in-place writes (with train=True, also
gradients) are the same as in eager. The calls come from the package's tests. The inputs are random, but
have the same shapes and dtypes as in the package's tests, and similar value ranges.
{notes}"""

{imports}


def tensor(*shape, dtype=torch.float32, device="cpu", low=0, high=1, grad=False):
    """Create a tensor of random values between low and high. Integers are less than high."""
    if dtype.is_floating_point or dtype.is_complex:
        made = low + (high - low) * torch.rand(shape, dtype=torch.float64)
    else:
        made = torch.randint(low, 2 if dtype is torch.bool else max(high, low + 1), shape)
    return made.to(device, dtype).requires_grad_(grad)
'''
# Notes in the head of a file whose tests contain these words.
_NOTES = {
    "max_recompiles=": "max_recompiles is the number of recompiles that torch.compile needs for the sizes in `calls`,\n"
    "plus two if a call is repeated.\n",
    "compile_known_failure(": "The marked tests failed with torch {torch}. A marked test that passes is reported as "
    "failed: remove its mark.\n",
}
_WIDTH = 110


@dataclass
class Written:
    """The result for one target: the source of the target's test, or the reason why there is no test."""

    row: Row
    module: str = ""
    source: str = ""
    left_out: str = ""


def write(rows: Iterable[Row], folder: Path, given: str, fast: bool) -> list[str]:
    """Run each test, and write the test files. Return lines that describe the written files."""
    names: dict[str, set[str]] = {}  # the test names in each module
    written = [_written(row, fast, names) for row in rows if row.checks]
    by_module: dict[str, list[Written]] = {}
    for one in written:
        by_module.setdefault(one.module, []).append(one)
    folder.mkdir(parents=True, exist_ok=True)
    number = 0
    for module, ones in sorted(by_module.items()):
        sources = [one.source for one in ones if one.source]
        if not sources:
            continue
        text = _head(module, sources, given, fast)
        left_out = [f"# {one.row.target} has no test in this file: {one.left_out}" for one in ones if one.left_out]
        notes = "\n\n" + "\n".join(left_out) + "\n" if left_out else ""
        path = folder / f"test_{re.sub(r'[^a-zA-Z0-9]+', '_', module)}.py"
        write_atomically(path, text + "".join(f"\n\n{source}" for source in sources) + notes)
        number += len(sources)
    without = len(written) - number
    return [f"tests written to {folder}: {number}; targets for which no test could be written: {without}"]


def _head(module: str, sources: list[str], given: str, fast: bool) -> str:
    """Return the start of a test file: its docstring, which includes the notes that apply to the tests, and the imports
    that the tests need.
    """
    text = "".join(sources)
    notes = "".join(note.format(torch=torch.__version__.split("+")[0]) for word, note in _NOTES.items() if word in text)
    imports = [f"import {module}", *(["import pytest"] if "@pytest" in text else []), "import torch"]
    if "calls=[" in text:
        imports += ["", "from pytest_torch_compile import call"]
    run = "pytest --compile-fast" if fast else f"pytest --compile-backend={settings.current.check_backend}"
    backend = "this option skips code generation" if fast else "the backend is the same as in the original run"
    return _HEAD.format(module=module, given=given, run=run, backend=backend, notes=notes, imports="\n".join(imports))


def _written(row: Row, fast: bool, names: dict[str, set[str]]) -> Written:
    """Write a target's test from one of its checks: the worst check that can be written as source, or, if several
    checks are equally bad, the check with the most calls.
    """
    checked = [one for one in row.results if one.report is not None]
    module = next((one.module for one in checked if one.module), row.target.rpartition(".")[0])
    name = _name(row.target, module, names.setdefault(module, set()))
    why = "none of its calls can be written as source"
    for one in sorted(checked, key=_rank, reverse=True):
        if not one.calls:
            why = one.unwritten or why
            continue
        body = _body(row, one, name)
        try:
            kinds, reason = _tried(module, row, body, fast)
        except Exception as error:
            why = f"its call raises {type(error).__name__} with generated inputs"
            continue
        names[module].add(name.replace("_", ""))
        return Written(row, module, f"{_marker(kinds, reason)}{body}")
    return Written(row, module, left_out=why)


def _rank(one: Checked) -> tuple[int, int]:
    assert one.report is not None
    return VERDICTS.index(verdict_of(one.report)), len(one.calls)


def _name(target: str, module: str, taken: set[str]) -> str:
    """Return the name of a target's test. A class and a function with similar names, such as ``ToRgb`` and ``to_rgb``,
    get clearly different test names. ``taken`` contains the names of other tests, without underscores.
    """
    own = target.removeprefix(f"{module}.")
    words = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[0-9])(?=[A-Z][a-z])", "_", own).lower()
    name = plain = f"test_{re.sub(r'[^a-z0-9_]+', '_', words)}"
    if name.replace("_", "") in taken:
        name = plain = f"{plain}_{'function' if own.islower() else 'class'}"
    number = 2
    while name.replace("_", "") in taken:
        name, number = f"{plain}_{number}", number + 1
    return name


def _body(row: Row, one: Checked, name: str) -> str:
    options = [f"max_recompiles={one.max_recompiles}"] if one.max_recompiles else []
    options += ["train=True"] if one.train else []
    first, *others = one.calls
    plain = not others and not first.needs_call
    inputs = ", ".join(first.args) if plain else f"calls=[{', '.join(map(str, one.calls))}]"
    lines = [f"def {name}(compile_check):"]
    draws = one.made != row.target or "tensor(" in inputs
    lines += ["    torch.manual_seed(0)"] if draws else []
    call = f"    compile_check({', '.join([one.made, inputs, *options])})"
    if len(call) > _WIDTH:
        items = [f"            {each}," for each in one.calls]
        listed = [f"        {inputs},"]
        if plain:
            listed = [f"        {each}," for each in first.args]
        elif len(inputs) >= _WIDTH - 8:
            listed = ["        calls=[", *items, "        ],"]
        options = [f"        {option}," for option in options]
        call = "\n".join(["    compile_check(", f"        {one.made},", *listed, *options, "    )"])
    return "\n".join([*lines, call, ""])


def _tried(module: str, row: Row, body: str, fast: bool) -> tuple[list[str], str]:
    """Run the test with generated inputs. Return the kinds of the test's findings, and a short form of the first
    finding.

    Raises:
        Exception: If eager cannot run with these inputs.
    """
    from ..check.check_compile import check_compile

    names: dict[str, Any] = {}
    exec(compile(f"{_head(module, [body], '', fast)}\n{body}", "<written>", "exec"), names)
    test = next(value for name, value in names.items() if name.startswith("test_"))
    chosen = settings.Settings(backend=settings.current.backend, fast=fast, diagnose="off", timeout=120.0)
    with undisturbed(), heard_only_by(lambda report: None), settings.replaced(chosen):
        try:
            test(check_compile)
        except CompileCheckFailed as failed:
            first = failed.findings[0]
            where = ""
            if place := first.location:
                # The path starts at the target's package, because the package may be installed anywhere.
                path = short_path(place.file, row.target.partition(".")[0])
                where = f" at {file_line(path if path != place.file else Path(path).name, place.line)}"
            # The message about a graph break contains counts, which would not stay the same.
            categories = categories_of(first, failed.report.graph_breaks if failed.report else ())
            reason = categories[0] if categories else first.message.splitlines()[0]
            return sorted({one.kind for one in failed.findings}), f"{reason}{where}"
    return [], ""


def _marker(kinds: list[str], reason: str) -> str:
    if not kinds:
        return ""
    kind = f'"{kinds[0]}"' if len(kinds) == 1 else str(kinds).replace("'", '"')
    line = f"@pytest.mark.compile_known_failure({_quoted(reason)}, kind={kind})\n"
    if len(line) <= _WIDTH:
        return line
    return f"@pytest.mark.compile_known_failure(\n    {_quoted(reason)},\n    kind={kind},\n)\n"


def _quoted(text: str) -> str:
    escaped = text[:160].replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
