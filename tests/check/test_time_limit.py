"""--compile-timeout: a check that hangs fails with where it hangs, and what comes after it goes on."""

from __future__ import annotations

import signal
import sys
import threading
import time
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")

from pytest_torch_compile import CompileCheckFailed, check_compile, compile_guard, settings  # noqa: E402
from pytest_torch_compile.check import pipeline, time_limit  # noqa: E402
from tests.plugin.projects import HEAD, other_process  # noqa: E402

X = torch.ones(4)
LIMIT = 2.0


def sine(x):
    return x.sin()


def breaking(x):
    torch._dynamo.graph_break()
    return x.sin()


def sleeping(graph, inputs):
    time.sleep(600)


def endless(x):
    while True:
        x = x.sin()


def catching(x):
    try:
        time.sleep(600)
    except Exception:
        return x
    return x


@pytest.fixture(autouse=True)
def limited(monkeypatch):
    torch._dynamo.reset()
    check_compile(sine, X, backend="eager")  # what torch loads with the first check is not counted
    monkeypatch.setattr(settings, "current", replace(settings.current, timeout=LIMIT))


def timeout_of(check):
    """The one finding of a check, which has to end soon after its limit."""
    handler, start = signal.getsignal(time_limit.SIGNAL), time.monotonic()
    with pytest.raises(CompileCheckFailed, match=r"timeout: did not finish within 2 s") as failed:
        check()
    assert time.monotonic() - start < LIMIT + 5
    assert signal.getsignal(time_limit.SIGNAL) is handler
    (finding,) = failed.value.findings
    return finding


def test_a_diagnosis_that_hangs_is_noted_and_the_finding_stays(monkeypatch):
    monkeypatch.setattr(pipeline, "diagnosis", lambda *_: time.sleep(600))
    with pytest.raises(CompileCheckFailed, match="graph-break") as failed:
        check_compile(breaking, X, backend="eager")
    assert failed.value.report.remarks == ["the diagnosis did not finish within 2 s"]


@pytest.mark.parametrize(
    ("target", "backend", "function", "source"),
    [
        (sine, sleeping, "sleeping", "time.sleep(600)"),
        (endless, "eager", "endless", "x = x.sin()"),
        (catching, "eager", "catching", "time.sleep(600)"),
    ],
    ids=["sleeps in C", "loops", "catches exceptions"],
)
def test_hang_is_a_finding_with_the_users_line_first(target, backend, function, source):
    finding = timeout_of(lambda: check_compile(target, X, backend=backend, diagnose="full"))
    assert finding.location.file == __file__ and finding.location.function == function
    assert function in finding.evidence.splitlines()[1]
    assert finding.limit == LIMIT and "--compile-timeout" in finding.hint
    if source != "x = x.sin()":
        assert finding.location.source == source
    assert check_compile(sine, X, backend="eager").ok


def test_guarded_region_has_a_limit():
    def check():
        with compile_guard(name="sampling"):
            time.sleep(600)

    assert timeout_of(check).location.function == "check"


def test_failure_of_a_region_does_not_mention_the_exception_that_ended_it():
    with settings.replaced(replace(settings.current, timeout=0.5)), pytest.raises(CompileCheckFailed) as failed:
        with compile_guard():
            time.sleep(600)
    assert failed.value.__suppress_context__


def test_check_in_a_guard_has_the_time_of_the_guard():
    def check():
        with compile_guard():
            check_compile(endless, X, backend="eager")

    assert timeout_of(check).location.function == "endless"


def test_check_in_a_thread_is_ended_too():
    findings = []
    worker = threading.Thread(
        target=lambda: findings.append(timeout_of(lambda: check_compile(endless, X, backend="eager")))
    )
    worker.start()
    worker.join(60)
    assert [finding.kind for finding in findings] == ["timeout"]


def test_hang_in_c_is_said(capfd, monkeypatch):
    monkeypatch.setattr(time_limit, "AGAIN_SECONDS", 0.3)
    monkeypatch.setattr(sys, "__stderr__", sys.stderr)
    limit = time_limit.TimeLimit(0.2)
    monkeypatch.setattr(limit, "_interrupt", lambda: None)  # as where Python runs no code
    watch = threading.Thread(target=limit.watch)
    watch.start()
    time.sleep(1)
    limit.end()
    watch.join()
    text = capfd.readouterr().err
    assert (
        "exceeded its limit of 0.2 s at " in text
        and "test_time_limit.py" in text
        and "use --compile-isolate to terminate a test that hangs" in text
    )


class _Slow:
    """A context that takes a while to enter and to leave, such as one of torch's modes on a busy machine."""

    def __init__(self, seconds):
        self.seconds, self.is_entered, self.is_left = seconds, False, False

    def __enter__(self):
        time.sleep(self.seconds)
        self.is_entered = True

    def __exit__(self, *error):
        time.sleep(self.seconds)
        self.is_left = True


def test_context_that_is_being_entered_or_left_is_not_interrupted():
    slow = _Slow(0.4)
    with time_limit.time_limit(0.1) as limit, slow:
        time.sleep(5)
    assert limit.findings and slow.is_entered and slow.is_left
    leaving = _Slow(0.4)
    leaving.__enter__()
    with time_limit.time_limit(0.1) as limit:
        leaving.__exit__(None, None, None)
        time.sleep(5)
    assert limit.findings and leaving.is_left


def test_context_that_is_never_left_is_interrupted(monkeypatch):
    monkeypatch.setattr(time_limit, "_MOST_POSTPONED", 3)
    start = time.monotonic()
    with time_limit.time_limit(0.1) as limit, _Slow(20):
        pass
    assert limit.findings and time.monotonic() - start < 10


def test_quick_check_is_not_interrupted_and_leaves_no_thread():
    before = threading.active_count()
    for _ in range(3):
        check_compile(sine, X, backend="eager")
    time.sleep(0.2)
    assert threading.active_count() == before


def test_exception_of_a_guarded_region_passes():
    with pytest.raises(KeyError):
        with compile_guard():
            raise KeyError("of the body")


@pytest.mark.parametrize("ini", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_session_goes_on_after_a_hang(tmp_path, ini):
    (tmp_path / "pytest.ini").write_text("[pytest]\ncompile_backend = eager\n" + "compile_timeout = 10\n" * ini)
    (tmp_path / "test_a.py").write_text(
        HEAD
        + """
import time

def hanging(x):
    time.sleep(600)

def test_hangs(compile_check):
    compile_check(hanging, torch.ones(2))

def test_next(compile_check):
    compile_check(changing, torch.ones(2), 2)
"""
    )
    result = other_process(tmp_path, *([] if ini else ["--compile-timeout=10"]), "--compile-report=out")
    assert "1 failed, 1 passed" in result.stdout, result.stdout + result.stderr
    assert "timeout: did not finish within 10 s" in result.stdout and "in hanging" in result.stdout


@pytest.mark.parametrize("text", ["soon", "-1", "inf", "nan"])
def test_limit_that_is_no_time_is_refused(tmp_path, text):
    (tmp_path / "test_a.py").write_text("def test_a():\n    pass\n")
    result = other_process(tmp_path, f"--compile-timeout={text}")
    assert result.returncode == 4 and "must be a number of seconds" in result.stderr
