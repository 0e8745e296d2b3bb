"""One crash is one finding, and only what torch swallowed is called swallowed."""

from __future__ import annotations

import types

import pytest

torch = pytest.importorskip("torch")

from torch._dynamo.guards import CheckFunctionManager  # noqa: E402

from pytest_torch_compile import CompileCheckFailed, check_compile, compile_guard  # noqa: E402

X = torch.ones(3)


def refusing(graph, inputs):
    raise IndexError("planted")


def sine(x):
    return x.sin()


def sine_or_cosine(x):
    """Catches whatever compiling a part of it raises."""
    try:
        return torch.compile(sine, backend=refusing)(x)
    except Exception:
        return x.sin()


def findings(attempt):
    with pytest.raises(CompileCheckFailed) as failure:
        attempt()
    return [(finding.kind, finding.message) for finding in failure.value.findings]


@pytest.mark.parametrize("fullgraph", [True, False])
def test_error_of_a_backend_is_one_finding(fullgraph):
    """From torch 2.13 on it reaches the caller as it was raised, before that in an exception of dynamo's."""
    ((kind, message),) = findings(lambda: check_compile(sine, X, backend=refusing, fullgraph=fullgraph, diagnose="off"))
    assert kind == "compile-error"
    assert "raised IndexError" in message


def test_error_of_a_backend_is_found_with_its_line_and_its_row():
    with pytest.raises(CompileCheckFailed) as failure:
        check_compile(sine, calls=[(X,), (X + 1,)], backend=refusing, fullgraph=False, diagnose="off")
    (finding,) = failure.value.findings
    assert finding.location.function == "sine"
    assert "IndexError: planted" in finding.evidence
    assert [row.outcome for row in failure.value.report.calls] == ["compilation failed"]


@pytest.mark.parametrize("fullgraph", [True, False])
def test_error_while_guards_are_built_is_one_finding(monkeypatch, fullgraph):
    """The graph is complete by then: torch 2.13 fails so on layer_norm of a nested tensor that is made inside."""
    build = CheckFunctionManager.__init__

    def refuse(manager, *args, **options):
        # Torch 2.6 does not pass the code.
        if args[0] is sine.__code__ or not isinstance(args[0], types.CodeType):
            raise IndexError("planted")
        build(manager, *args, **options)

    monkeypatch.setattr(CheckFunctionManager, "__init__", refuse)
    with pytest.raises(CompileCheckFailed) as failure:
        check_compile(sine, X, backend="eager", fullgraph=fullgraph, diagnose="off")
    (finding,) = failure.value.findings
    assert (finding.kind, finding.location.function) == ("compile-error", "sine")
    assert "IndexError: planted" in finding.evidence and "swallowed" not in str(failure.value)


def test_error_that_torch_swallows_is_said_to_be_swallowed():
    with torch._dynamo.config.patch(suppress_errors=True):
        ((kind, message),) = findings(lambda: check_compile(sine, X, backend=refusing, fullgraph=False, diagnose="off"))
    assert kind == "eager-fallback"
    assert "the error was swallowed" in message


def test_error_that_the_code_itself_catches_is_not_called_swallowed():
    def guarded():
        with compile_guard():
            assert sine_or_cosine(X).allclose(X.sin())

    kinds = findings(guarded)
    assert ("compile-error", "the compilation of sine raised IndexError") in [
        (kind, message.replace("BackendCompilerFailed", "IndexError")) for kind, message in kinds
    ]
    assert not [message for _, message in kinds if "swallowed" in message]


def test_exception_of_the_compiled_code_itself_stays_one():
    def at_run_time(graph, inputs):
        def run(*args):
            raise IndexError("planted")

        return run

    ((kind, message),) = findings(lambda: check_compile(sine, X, backend=at_run_time, diagnose="off"))
    assert (kind, message) == ("exception", "compiled code raises IndexError, but eager does not")
