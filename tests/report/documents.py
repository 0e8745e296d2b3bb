"""Report documents for tests, honest and hostile, made through the code that makes real ones."""

from __future__ import annotations

from typing import Any

from pytest_torch_compile.findings import CallReport, CompileReport, Finding, Location, NumericsReport
from pytest_torch_compile.observation import (
    CompileSeconds,
    Deviation,
    FailedGuard,
    Graph,
    GraphBreak,
    Observation,
    Recompile,
)
from pytest_torch_compile.report import document, results

ENVIRONMENT = {"python": "3.11.7", "platform": "Linux", "torch": "2.13.0", "cuda": None, "device": "cpu"}
KEY = results.environment_key(ENVIRONMENT)
HOSTILE = (
    "<script>document.title='owned'</script>",
    '"><img src=x onerror="document.title=\'owned\'">',
    "a\n::error::owned\r\n::set-output name=x::owned",
    "$(touch owned) `touch owned` ${{ github.token }}",
    "| cell | ``` fence ```` [link](javascript:x) @everyone &lt;",
    "'; DROP -- %0A::warning::owned \u202e\u2028\x00\udc80",
)


def line(number: int = 3, file: str = "src/model.py", source: str = "if y.sum() > 0:") -> Location:
    return Location(file, number, "forward", source)


def finding(kind: Any = "graph-break", message: str = "graph break 1 of 1, 0 allowed", **more: Any) -> Finding:
    return Finding(
        kind, message, **{"location": line(), "evidence": "if y.sum() > 0:", "hint": "use torch.where", **more}
    )


def graph_break(number: int = 3, fingerprint: str = "gb-1") -> GraphBreak:
    return GraphBreak(line(number), "Data-dependent branching", "data-dependent branch", fingerprint, call=1)


def recompile(call: int, text: str = "size mismatch at index 0. expected 2, actual 3") -> Recompile:
    return Recompile("forward", line(1), (FailedGuard("0/0", text, "x", "size"),), call=call, compile_id=f"0/{call}")


def check(*findings: Finding, breaks: int = 0, recompiles: int = 0, text: str = "", **more: Any) -> dict[str, Any]:
    """The entry of one check of four calls."""
    seen = Observation(
        graphs=[Graph("forward", ("sin", "add"), 1, "0/0", guards=31)],
        graph_breaks=[graph_break(3 + number, f"gb-{number}") for number in range(breaks)],
        recompiles=[recompile(2 + number) for number in range(recompiles)],
        compile_seconds=CompileSeconds(2.0, 2.0, 1.5, 1.0, 0.5),
    )
    calls = [CallReport(f"call {n}", f"x f32[{n}, 4]", "compiled" if n == 1 else "reused") for n in range(1, 5)]
    for number in range(recompiles):
        calls[1 + number] = CallReport(f"call {2 + number}", "x f32[3, 4]", "recompiled", "size mismatch" + text)
    report = CompileReport(
        target="Encoder" + text,
        checked_mode="fullgraph",
        backend="inductor",
        torch="2.13.0",
        device="cpu",
        budget={"max_graph_breaks": 0, "max_recompiles": 0},
        calls=calls,
        observation=seen,
        numerics=NumericsReport(leaves=3, worst_ratio=more.pop("ratio", 0.25), worst_leaf="output"),
        findings=list(findings),
        diagnosis=[f"tried: dynamic_dims={{'x': 0}}: 0 recompiles instead of {recompiles}{text}"] if recompiles else [],
        remarks=[f"accepted_breaks: gb-gone matched no graph break in this check{text}"] if breaks or text else [],
        rerun="python -m pytest 'tests/test_a.py::test_a'",
        deviations=more.pop("deviations", []),
    )
    from pathlib import Path

    return results.check_entry(report.to_dict(), Path.cwd())


def caused_by_a_setting() -> dict[str, Any]:
    """A document with one failure that a setting of torch caused."""
    setting = Deviation("torch._dynamo.config.disable", "True", "False", "left by tests/test_b.py::test_b")
    bad = finding(
        "nothing-compiled",
        "no graph that contains an op was compiled, but at least 1 is expected",
        cause=str(setting),
        location=None,
    )
    return made(case("tests/test_a.py::test_a", "failed", check(bad, deviations=[setting])))


def speed(outcome: str = "pass", effect: float = 0.004, compiled: float = 0.001) -> dict[str, Any]:
    """The entry of one speed test, twice as fast as eager."""
    pair = {"eager": 0.002, "compiled": compiled, "log_ratio": -0.69, "half_width": 0.001}
    change = {"metric": "wall", "effect": effect, "floor": 0.02, "p_value": 0.2, "outcome": outcome, "note": ""}
    memory = {"eager": 2e8, "compiled": 1e8, "log_ratio": -0.69, "half_width": 0.0}
    sample = {
        "wall": pair,
        "device": pair,
        "memory": memory,
        "kernels": (9, 2),
        "python_calls": (849, 303),
        "start": (12.0, 3.0),
        "raw": {"a": [1]},
    }
    return results.speed_entry(
        {
            "test": "unused",
            "environment": "cpu_torch-2.13",
            "outcome": outcome,
            "summary": "wall time +9.0%" if outcome == "regressed" else "",
            "stored_runs": 8,
            "changes": [change],
            "exact": [
                {"quantity": "kernels", "title": "kernels per call", "before": 46, "after": 56, "worse": True},
                {"quantity": "memory", "title": "peak memory", "before": 9_000_000, "after": 8_000_000, "worse": False},
            ]
            if outcome == "regressed"
            else [],
            "sample": sample,
        }
    )


def case(name: str = "tests/test_a.py::test_a", outcome: str = "passed", *checks: Any, **more: Any) -> dict[str, Any]:
    return {
        "id": name,
        "file": "tests/test_a.py",
        "line": 7,
        "environment": KEY,
        "outcome": outcome,
        "duration": 1.5,
        "message": "",
        "checks": list(checks),
        "speed": [],
        **more,
    }


def made(*tests: dict[str, Any], **more: Any) -> document.Document:
    options: dict[str, Any] = {"created": "2026-01-02T03:04:05+00:00", "version": "0.1.0", "commit": "c" * 40}
    return document.new(tests, {KEY: ENVIRONMENT}, **{**options, **more})


def typical(history: int = 5) -> document.Document:
    """A run with one of everything, after some earlier ones."""
    points: list[Any] = []
    for day in range(1, history + 1):
        earlier = made(*_tests(day), created=f"2026-01-{day:02}T00:00:00+00:00", commit=f"{day:040}", history=points)
        points = earlier["history"]
    return made(*_tests(6), exit_status=1, history=points)


def _tests(day: int) -> list[dict[str, Any]]:
    return [
        case("tests/test_encoder.py::test_branch", "failed", check(finding(), breaks=1)),
        case(
            "tests/test_encoder.py::test_lengths[bf16]",
            "failed",
            check(finding("recompile", "3 recompiles, 1 allowed", hint="mark it as dynamic"), recompiles=3),
        ),
        case("tests/test_encoder.py::test_attention", "passed", check(ratio=0.4)),
        case("tests/test_speed.py::test_forward", "passed", speed=[speed("pass", 0.004, 0.001 + day * 1e-5)]),
        case("tests/test_speed.py::test_step", "failed", speed=[speed("regressed", 0.09)], message="wall time +9.0%"),
        case("tests/test_old.py::test_known", "xfailed", check(finding(), breaks=1), message="reason: issue 12"),
        case("tests/test_old.py::test_gpu", "skipped", message="needs a GPU"),
    ]


def hostile() -> document.Document:
    """A run in which everything that comes from outside tries to get out."""
    tests = []
    for number, text in enumerate(HOSTILE):
        bad = finding("numerics", text, location=line(3, text, text), evidence=text, hint=text)
        tests.append(case(f"tests/test_{number}.py::test[{text}]", "failed", check(bad, recompiles=1, text=text)))
        tests.append(case(f"tests/test_{number}.py::test_error[{text}]", "error", message=text, file=text))
    return made(*tests, exit_status=1)
