"""A failure's cause and who has to look: from what a check observed, or a traceback."""

from __future__ import annotations

import pytest

from pytest_torch_compile.triage.failures import Cause, Route, cause_of, route_of, runs_of

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


def test_slower_test_is_a_failure_with_what_got_worse():
    timing = {
        "outcome": "regressed",
        "exact": [{"quantity": "kernels", "worse": True}, {"quantity": "guards", "worse": False}],
        "changes": [{"metric": "device", "effect": 0.2}],
        "summary": "kernels per call 3 -> 4",
    }
    (run,) = runs_of([phase("a", "call", "failed", torch_compile={"checks": [], "timings": [timing]})]).values()
    assert [failure.cause for failure in run.failures] == [Cause("slowdown", "kernels")]
