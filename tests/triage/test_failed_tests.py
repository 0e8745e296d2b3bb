"""A failure's cause and who has to look: from what a check observed, or a traceback."""

from __future__ import annotations

import pytest

from pytest_torch_compile.triage.failed_tests import Cause, Route, cause_of, route_of, runs_of

PLACE = {"file": "/env/lib/python3.12/site-packages/models/vit.py", "line": 7, "function": "forward"}


def finding(kind, evidence="", location=PLACE, message="what is wrong"):
    return {
        "kind": kind,
        "message": message,
        "evidence": evidence,
        "location": location,
        "hint": "",
        "calls": [],
        "ranks": [],
    }


def check(*findings, **observed):
    empty = {"graph_breaks": [], "recompiles": [], "fallbacks": [], "diagnosis": [], "rerun": "pytest 'test_a.py'"}
    return {**empty, "findings": list(findings), **observed}


def test_compile_error_without_a_place_is_of_the_compiler_and_one_at_own_code_is_not():
    evidence = "PackageError: ID_MATCH guard cannot be serialized."
    assert route_of(finding("compile-error", evidence, location=None), check()) is Route.DYNAMO
    assert route_of(finding("compile-error", evidence), check()) is Route.OWN_CODE
    inside = f"{evidence} at torch/_inductor/codecache.py"
    assert route_of(finding("compile-error", inside, location=None), check()) is Route.INDUCTOR


@pytest.mark.parametrize("folder", ["/home/me/.cache/env-1/lib/python3.12", ".nox/tests/lib/python3.12", "C:/env/Lib"])
def test_text_of_a_failure_names_no_folder_of_this_machine(folder):
    found = finding("graph-break", f'called from {folder}/site-packages/models/vit.py:3 in run: run("a/b")')
    seen = {"checks": [check(found)], "timings": []}
    told = runs_of([phase("a", "call", "failed", torch_compile=seen)])["a"].failures[0]
    assert told.text == 'called from models/vit.py:3 in run: run("a/b")'


def test_reproduction_belongs_to_the_finding_that_it_shows():
    findings = [finding("graph-break"), finding("numerics")]
    observed = {"reproduction": {"path": "repro/it.py", "needs": [], "finding": 1}}
    seen = {"checks": [check(*findings, **observed)], "timings": []}
    runs = runs_of([phase("a", "call", "failed", torch_compile=seen)])
    assert [failure.reproduction for failure in runs["a"].failures] == ["", "repro/it.py"]


@pytest.mark.parametrize(
    ("kind", "evidence", "observed", "cause", "route"),
    [
        (
            "graph-break",
            "torch says: one thing on one torch, another on the next",
            {"graph_breaks": [{"location": PLACE, "category": "call to print or a logger"}]},
            Cause("graph-break", "call to print or a logger", "models/vit.py in forward"),
            Route.DYNAMO,
        ),
        (
            "recompile",
            "",
            {"recompiles": [{"location": PLACE, "guards": [{"cause": "size"}, {"cause": "dtype"}]}]},
            Cause("recompile", "size", "models/vit.py in forward"),
            Route.DYNAMO,
        ),
        (
            "eager-fallback",
            "",
            {"fallbacks": [{"location": PLACE, "why": "recompile-limit", "cause": "size", "detail": ""}]},
            Cause("eager-fallback", "recompile-limit, size", "models/vit.py in forward"),
            Route.DYNAMO,
        ),
        (
            "numerics",
            "worst element 0.5",
            {"fault": {"stage": "inductor", "module": "layers.3", "module_type": "Attention"}},
            Cause("numerics", "inductor", "Attention"),
            Route.INDUCTOR,
        ),
        ("gradient", "", {}, Cause("gradient", "unknown stage"), Route.NUMERICS),
        ("metadata", "other strides", {}, Cause("metadata", "unknown stage"), Route.NUMERICS),
        (
            "compile-error",
            "LoweringException: no kernel for 0x7f12ab of size 128\nsecond line",
            {"fault": {"stage": "aot_eager", "module": "", "module_type": ""}},
            Cause("compile-error", "LoweringException: no kernel for ADDRESS of size N", "models/vit.py in forward"),
            Route.AOT_AUTOGRAD,
        ),
        (
            "compile-error",
            'RuntimeError: x\n  File "/env/torch/_inductor/lowering.py", line 3',
            {},
            Cause("compile-error", "RuntimeError: x", "models/vit.py in forward"),
            Route.INDUCTOR,
        ),
        (
            "custom-op",
            "ns::op has a wrong fake",
            {},
            Cause("custom-op", "ns::op has a wrong fake", "models/vit.py in forward"),
            Route.CUSTOM_OP,
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and " " not in value else "",
)
def test_cause_and_route_of_a_finding(kind, evidence, observed, cause, route):
    found = finding(kind, evidence)
    observed = check(found, **observed)
    assert cause_of(found, observed) == cause
    assert route_of(found, observed) is route


def phase(test, when, outcome="passed", duration=0.5, **more):
    return {"nodeid": test, "when": when, "outcome": outcome, "duration": duration, "longrepr": None, **more}


def raised(message, *files):
    entries = [{"data": {"lines": [f"E   {message}"], "reprfileloc": {"path": file, "lineno": 3}}} for file in files]
    return {"reprcrash": {"message": message}, "reprtraceback": {"reprentries": entries}}


def test_runs_have_outcome_seconds_and_failures_of_all_phases():
    found = finding("graph-break")
    runs = runs_of(
        [
            phase("a", "setup"),
            phase("a", "call"),
            phase("a", "teardown"),
            phase("b", "setup", "skipped"),
            phase("b", "teardown"),
            phase("c", "call", "failed", torch_compile={"checks": [check(found)], "timings": []}),
            phase("d", "call", "failed", longrepr=raised("ValueError: bad 12", "test_d.py", "/x/torch/_dynamo/a.py")),
            phase("d", "teardown", "failed", longrepr="E   OSError: gone"),
        ]
    )
    assert {test: (run.outcome, run.seconds) for test, run in runs.items()} == {
        "a": ("passed", 1.5),
        "b": ("skipped", 1.0),
        "c": ("failed", 0.5),
        "d": ("failed", 1.0),
    }
    assert [failure.rerun for failure in runs["c"].failures] == ["pytest 'test_a.py'"]
    first, second = runs["d"].failures
    assert (first.cause, first.route) == (Cause("ValueError", "bad N", "/x/torch/_dynamo/a.py"), Route.DYNAMO)
    assert (second.cause, second.route) == (Cause("OSError", "gone"), Route.OWN_CODE)


def test_file_that_cannot_be_collected_is_a_failure():
    report = {"nodeid": "test_a.py", "outcome": "failed", "longrepr": "ImportError while importing\nE   No module x"}
    assert [failure.message for failure in runs_of([report])["test_a.py"].failures] == ["No module x"]


def kind_of(longrepr):
    return runs_of([phase("t.py::test", "call", "failed", longrepr=longrepr)])["t.py::test"].failures[0].cause


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        ("assert tensor(-0.0123) < 1", Cause("AssertionError", "assert tensor(N) < N", "test_a.py")),
        ("AssertionError: a.b: c\nassert 1 == 2", Cause("AssertionError", "a.b: c", "test_a.py")),
        ("torch._dynamo.exc.Unsupported: call", Cause("Unsupported", "call", "test_a.py")),
        ("ValueError", Cause("ValueError", "", "test_a.py")),
        ("two words: and more", Cause("error", "two words: and more", "test_a.py")),
    ],
    ids=["assert", "assertion", "module", "no-message", "no-type"],
)
def test_cause_of_an_exception_is_its_type_and_its_words(message, cause):
    assert kind_of(raised(message, "test_a.py")) == cause


def test_value_that_varies_does_not_change_the_cause():
    one, other = (kind_of(raised(f"assert tensor([{value}, 2.5e-07]) == x1", "t.py")) for value in ("-0.3", "nan"))
    assert one == other != kind_of(raised("assert tensor([0.3, 1.]) == x2", "t.py"))


def test_tests_that_end_their_process_are_crashes():
    assert kind_of("worker 'gw0' crashed while running 't.py::test'").kind == "crash"


def test_missing_fixture_is_named():
    shown = "file t.py, line 3\n  def test(nope):\nE       fixture 'nope' not found\n>       available: a\n\nt.py:3"
    assert kind_of(shown) == Cause("error", "fixture 'nope' not found")


def test_check_that_failed_as_expected_is_not_the_cause_of_another_failure():
    observed = {"checks": [check(finding("graph-break"))], "timings": []}
    for message, kind in (("ValueError: other", "ValueError"), ("x.CompileCheckFailed: model", "graph-break")):
        report = phase("a", "call", "failed", torch_compile=observed, longrepr=raised(message, "t.py"))
        assert [failure.cause.kind for failure in runs_of([report])["a"].failures] == [kind]


@pytest.mark.parametrize("passes", ["[XPASS(strict)] reason", "known failure no longer fails, remove its marker: x"])
def test_expected_failure_is_a_failure_until_it_passes(passes):
    fails = phase("a", "call", "skipped", wasxfail="reason: x", longrepr=raised("ValueError: x", "t.py"))
    (failure,) = runs_of([fails])["a"].failures
    assert failure.expected and failure.cause.kind == "ValueError"
    assert runs_of([phase("a", "call", "failed", longrepr=passes)])["a"].outcome == "passed"


def test_two_breaks_in_one_place_have_a_cause_each():
    breaks = [{"location": PLACE, "category": category} for category in ("print", "item")]
    found = [
        finding("graph-break", message=f"graph break {n} of 2: {category}")
        for n, category in ((1, "print"), (2, "item"))
    ]
    assert [cause_of(one, check(*found, graph_breaks=breaks)).what for one in found] == ["print", "item"]


def test_slower_test_is_a_failure_with_what_got_worse():
    timing = {
        "outcome": "regressed",
        "exact": [{"quantity": "kernels", "worse": True}, {"quantity": "guards", "worse": False}],
        "changes": [{"metric": "device", "effect": 0.2}],
        "summary": "kernels per call 3 -> 4",
    }
    (run,) = runs_of([phase("a", "call", "failed", torch_compile={"checks": [], "timings": [timing]})]).values()
    assert [failure.cause for failure in run.failures] == [Cause("slowdown", "kernels")]
