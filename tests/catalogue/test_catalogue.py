"""The catalogue: every planted defect is caught with its kind and line, and no innocent is accused.

`python -m pytest tests/catalogue/test_catalogue.py` prints the table. A file in planted/ says what it expects in EXPECT, pairs
of a finding's kind and a text it must hold; `"state|mutation"` is for what may have either name. ALSO names the kinds that
may come with it, in an innocent too: what cannot be put back may be said to be not observable. Findings with a place are
expected at the lines marked `# HERE`, in order. SINCE and BEFORE are the torch versions between which a file is true.
"""

from __future__ import annotations

import importlib.util
import io
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import pytest

torch = pytest.importorskip("torch")

from pytest_torch_compile import CompileCheckFailed, Finding  # noqa: E402
from pytest_torch_compile.report.failure_text import headline  # noqa: E402

HERE = Path(__file__).parent
PLANTED = sorted((HERE / "planted").glob("*.py"))
INNOCENTS = sorted((HERE / "innocents").glob("*.py"))
KINDS_IN_SCOPE = {
    "graph-break",
    "recompile",
    "eager-fallback",
    "nothing-compiled",
    "compile-error",
    "numerics",
    "gradient",
    "mutation",
    "state",
    "aliasing",
    "metadata",
    "exception",
}


@dataclass
class Case:
    """One file of the catalogue, and what checking it found."""

    path: Path
    expect: list[tuple[str, str]] = field(default_factory=list)
    also: set[str] = field(default_factory=set)
    lines: list[int] = field(default_factory=list)
    findings: tuple[Finding, ...] = ()
    outcome: str = "not run"

    @property
    def found(self) -> str:
        counted = Counter(finding.kind for finding in self.findings)
        return ", ".join(kind if times == 1 else f"{kind} x{times}" for kind, times in counted.items()) or "nothing"

    @property
    def found_lines(self) -> list[int]:
        located = [f.location for f in self.findings if f.location is not None and f.kind in kinds(self.expect)]
        lines = [place.line if Path(place.file) == self.path else 0 for place in located]
        return list(dict.fromkeys(lines))  # a helper's line is in one finding for each of its calls


def kinds(expect: list[tuple[str, str]]) -> set[str]:
    return {kind for names, _ in expect for kind in names.split("|")}


def load(path: Path) -> ModuleType:
    name = f"catalogue_{path.parent.name}_{path.stem}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


def run(path: Path) -> Case:
    module = load(path)
    if not getattr(module, "SINCE", (0,)) <= torch.__version__ < getattr(module, "BEFORE", (9,)):
        pytest.skip("the defect or look-alike does not exist on this torch version (see SINCE and BEFORE in its file)")
    marked = [number for number, line in enumerate(path.read_text().splitlines(), 1) if line.endswith("# HERE")]
    case = Case(path, getattr(module, "EXPECT", []), getattr(module, "ALSO", set()), marked)
    torch.manual_seed(0)
    try:
        module.check()
    except CompileCheckFailed as failure:
        case.findings = failure.findings
    return case


def complaints(case: Case) -> list[str]:
    """What is wrong with the findings of a planted case: nothing, if the check is right."""
    wrong = []
    for names, text in case.expect:
        named = [finding for finding in case.findings if finding.kind in names.split("|")]
        if not any(text.lower() in whole_text(finding) for finding in named):
            wrong.append(f"no {names.replace('|', ' or ')} finding that says {text!r}")
    allowed = kinds(case.expect) | case.also
    wrong += [f"a {kind} finding too many" for kind in {f.kind for f in case.findings} - allowed]
    if case.lines and case.found_lines != case.lines:
        wrong.append(f"located at {case.found_lines} instead of {case.lines}")
    return wrong


def whole_text(finding: Finding) -> str:
    return f"{headline(finding)}\n{finding.evidence}\n{finding.cause}\n{finding.hint}\n{finding.location or ''}".lower()


@pytest.fixture(scope="module")
def results(request):
    """The cases run so far; the table is printed when the last of the module has run."""
    cases: list[Case] = []
    yield cases
    reporter = request.config.pluginmanager.getplugin("terminalreporter")
    asked_for = any(Path(str(argument).split("::")[0]).name == Path(__file__).name for argument in request.config.args)
    if reporter is not None and asked_for:
        with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
            print(f"\n\n{table(cases)}")


def table(cases: list[Case]) -> str:
    from rich.console import Console
    from rich.table import Table

    grid = Table(
        "defect", "expected", "found", "line", "verdict", title=f"Catalogue on torch {torch.__version__}", box=None
    )
    for case in cases:
        expected = ", ".join(kind for kind, _ in case.expect) or "nothing"
        lines = ", ".join(map(str, case.found_lines)) if case.lines else ""
        grid.add_row(f"{case.path.parent.name}/{case.path.stem}", expected, case.found, lines, case.outcome)
    buffer = io.StringIO()
    Console(file=buffer, width=160).print(grid)
    totals = Counter((case.path.parent.name, case.outcome) for case in cases)
    summary = "; ".join(f"{folder}: {number} {outcome}" for (folder, outcome), number in sorted(totals.items()))
    return f"{buffer.getvalue()}{summary}"


def cases(paths: list[Path]) -> list[object]:
    return [pytest.param(path, id=path.stem) for path in paths]


@pytest.mark.parametrize("path", cases(PLANTED))
def test_planted_defect_is_caught(path, results):
    case = run(path)
    results.append(case)
    wrong = complaints(case)
    case.outcome = "missed" if wrong else "caught"
    assert not wrong, "\n".join([*wrong, *map(str, case.findings)])


@pytest.mark.parametrize("path", cases(INNOCENTS))
def test_innocent_is_not_accused(path, results):
    case = run(path)
    results.append(case)
    accused = [finding for finding in case.findings if finding.kind not in case.also]
    case.outcome = "accused" if accused else "clear"
    assert not accused, "\n".join(map(str, case.findings))


def needs_a_line(path: Path) -> bool:
    return bool(kinds(load(path).EXPECT) & {"graph-break", "recompile"})


def test_catalogue_covers_every_kind_twice():
    counted = Counter(kind for path in PLANTED for kind in kinds(load(path).EXPECT))
    assert {kind for kind in KINDS_IN_SCOPE if counted[kind] < 2} == set()
    assert [path.stem for path in PLANTED if needs_a_line(path) and "# HERE" not in path.read_text()] == []
    assert len(PLANTED) >= 48
    assert len(INNOCENTS) >= 24
