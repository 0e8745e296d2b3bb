"""What torch 2.6 to 2.15 really says of guards and breaks is understood alike; what it may say one day is shown as it is.

``data/`` is written by ``collect_texts.py`` on each torch.
"""

from __future__ import annotations

import json
import re
import textwrap
from importlib.util import find_spec
from pathlib import Path

import pytest

pytest.importorskip("torch")

from pytest_torch_compile._torch import breaks
from pytest_torch_compile._torch.breaks import OTHER, categorise, parse_break
from pytest_torch_compile._torch.guards import OTHER as OTHER_GUARD
from pytest_torch_compile._torch.guards import parse_guard
from pytest_torch_compile.budget import Budget
from pytest_torch_compile.check.guard_advice import EXPLANATIONS
from pytest_torch_compile.check.judge import Conditions, judge
from pytest_torch_compile.observation import Location, Observation, Recompile
from tests._torch import collect_texts, test_guards

FILES = sorted(collect_texts.DATA.glob("torch-*.json"))
STORED = {file.stem.removeprefix("torch-"): json.loads(file.read_text()) for file in FILES}
CATEGORIES = {function.__name__: name for name, functions in collect_texts.BREAKS.items() for function in functions}
HERE = [Location("/repo/model.py", 3, "forward", "x = f(x)")]
INVENTED = "Words of a torch to come: the [moon](x) is full #3\n  Because: `L['x']` rose  early\n  Do: wait"


def texts(kind: str) -> list[object]:
    return [
        pytest.param(case, text, id=f"{version} {case} {number}")
        for version, stored in STORED.items()
        for case, heard in stored[kind].items()
        for number, text in enumerate(heard)
    ]


def test_there_are_texts_of_every_version():
    assert list(STORED) == ["2.11", "2.13", "2.15", "2.6", "2.8"]
    for stored in STORED.values():
        assert stored["guards"].keys() == test_guards.CASES.keys() | collect_texts.MORE_GUARDS.keys()
        assert stored["breaks"].keys() == CATEGORIES.keys()
        assert sum(map(bool, stored["guards"].values())) >= 55
        assert sum(map(bool, stored["breaks"].values())) >= 45


# The text alone does not say it: the frame or the mode does.
OF_CONTEXT = ("closure of the target", "closure of a decorated function", "inference mode alone")


@pytest.mark.parametrize(("case", "text"), texts("guards"))
def test_a_real_guard_has_a_cause_and_a_name(case, text):
    for name, value in collect_texts.SINGLETONS.items():
        text = text.replace(name, str(id(value)))
    guard = parse_guard(text)
    assert guard.cause in EXPLANATIONS and guard.cause != OTHER_GUARD
    assert guard.names or case in ("torch function mode",)
    assert guard.entry or "GLOBAL_STATE" in text
    assert not [part for part in ("L['", "140000000000000", "User stack trace") if part in guard.text]
    if case in test_guards.CASES and case != "int" and case not in OF_CONTEXT:
        assert guard.cause == test_guards.CASES[case][2]


@pytest.mark.parametrize(("case", "text"), texts("breaks"))
def test_a_real_break_has_its_category_or_is_shown_whole(case, text):
    found = parse_break(text, stack=HERE)
    expected = {CATEGORIES[case], *collect_texts.ALSO.get(case, ())}
    assert found.category in expected
    assert found.reason and not found.reason.startswith(("Encountered graph break", "Unsupported:"))
    if found.category == OTHER:
        assert found.reason in evidence(Observation(graph_breaks=[found]))


def evidence(seen: Observation) -> str:
    return judge(seen, Budget(), Conditions(compile_failed=True, torch_limit=8))[0].evidence


def test_an_invented_break_is_shown_as_it_is():
    found = parse_break(f"Graph break in user code at /repo/a.py:3\nReason: {INVENTED}\n")
    assert found.category == OTHER
    assert f"torch says: {INVENTED}\n" in evidence(Observation(graph_breaks=[found]))


@pytest.mark.parametrize("text", [INVENTED, "???", "a b  # c"])
def test_an_invented_guard_is_shown_as_it_is(text):
    guard = parse_guard(f"0/1: {text}")
    assert (guard.cause, guard.text, guard.entry) == (OTHER_GUARD, text, "0/1")
    assert text in evidence(Observation(recompiles=[Recompile("forward", None, (guard,))]))


def registered() -> list[object]:
    """Every kind of break that the torch at hand can name: none before 2.8."""
    file = Path(find_spec("torch").submodule_search_locations[0], "_dynamo", "graph_break_registry.json")
    entries = json.loads(file.read_text()).values() if file.exists() else ()
    return [pytest.param(entry, id=entry["Gb_type"]) for versions in entries for entry in versions[:1]]


def message(entry: dict) -> str:
    """As torch puts a message together."""
    hints = "\n".join("  Hint: " + textwrap.indent(hint, "    ").lstrip() for hint in entry["Hints"])
    explanation = textwrap.indent(entry["Explanation"], "    ").lstrip()
    return (
        f"{entry['Gb_type']}\n  Explanation: {explanation}\n{hints}\n\n  Developer debug context: {entry['Context']}\n"
    )


KNOWN = {
    "Data-dependent branching": "data-dependent branch",
    "Data-dependent assertion failed (cannot compile partial graph)": "data-dependent branch",
    "Unsupported Tensor.item() call with capture_scalar_outputs=False": "scalar from a tensor",
    "Tensor.tolist() with non-integer tensor": "scalar from a tensor",
    "Call to `torch._dynamo.graph_break()`": "explicit graph break",
    "Skip calling `torch.compiler.disable()`d function": "disabled function",
    "Skip inlining `torch.compiler.disable()`d function": "disabled function",
    "Dynamic shape operator": "dynamic output shape",
    "Dynamic shape operator (no meta kernel)": "dynamic output shape",
    "Data dependent operator": "dynamic output shape",
    "logging.Logger method not supported for non-export cases": "call to print or a logger",
    "Attempted to call function marked as skipped": "function that dynamo skips",
    "Attempted to inline function marked as skipped": "function that dynamo skips",
}


@pytest.mark.parametrize("entry", registered())
def test_a_registered_break_has_a_category_and_its_own_words(entry):
    found = parse_break(f"Graph break in user code at /repo/a.py:3\nGraph Break Reason: {message(entry)}", stack=HERE)
    assert found.reason == entry["Gb_type"].strip()
    assert found.category in {OTHER, *(name for name, _ in breaks._CATEGORIES)}
    assert found.category == KNOWN.get(entry["Gb_type"], found.category)
    shown = evidence(Observation(graph_breaks=[found]))
    if found.category == OTHER:
        assert found.reason in shown
    assert " ".join(entry["Explanation"].split()) in shown


@pytest.mark.parametrize(
    "reason",
    [
        "Failed to trace builtin operator\n  Explanation: Dynamo does not know how to trace builtin operator `open`\n"
        "  Hint: If you are attempting to call a logging function (e.g. `print`), you can try adding it to\n"
        "    `torch._dynamo.config.reorderable_logging_functions`, or torch.compiler.disable it.\n",
        "Unsupported method call\n  Explanation: words\n\nStack variable source attribution:\n    my.logger.graph_break()",
        "call_function UserDefinedClassVariable(<class 'models.DatalogLogger'>) [] {}",
    ],
)
def test_advice_and_names_of_the_user_make_no_category(reason):
    assert categorise(reason) == OTHER


def test_the_reference_names_the_categories():
    page = (Path(__file__).parents[2] / "docs" / "reference" / "observation.md").read_text()
    assert {name for name, _ in breaks._CATEGORIES} | {OTHER} <= set(re.findall("`([^`]+)`", page))
