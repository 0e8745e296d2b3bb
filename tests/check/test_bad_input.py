"""Each kind of bad input gets one clear line, and leaves nothing behind."""

from __future__ import annotations

import logging

import pytest

torch = pytest.importorskip("torch")

from pytest_torch_compile import (  # noqa: E402
    Budget,
    CompileSuite,
    CompileUsageError,
    call,
    check_compile,
    compile_guard,
    padded,
    random_lengths,
    sizes,
)
from pytest_torch_compile._torch import support  # noqa: E402

X = torch.ones(4)


def sine(x):
    return x.sin()


def raising(x):
    raise KeyError("no such key")


class Opaque:
    def __eq__(self, other):
        raise TypeError("opaque")

    __hash__ = None


def handlers():
    """Those of the trace log, without torch's own, which takes itself away at the first event."""
    found = logging.getLogger("torch.__trace").handlers
    return [handler for handler in found if type(handler).__name__ != "LazyTraceHandler"]


@pytest.fixture(autouse=True)
def _nothing_left_behind():
    before, config = handlers(), torch._dynamo.config.get_config_copy()
    yield
    assert handlers() == before
    assert torch._dynamo.config.get_config_copy() == config
    assert torch.is_grad_enabled()


CASES = {
    "not callable": (lambda: check_compile(3, X), "the target is 3, which cannot be called"),
    "no call": (lambda: check_compile(sine), "no call was given"),
    "empty calls": (lambda: check_compile(sine, calls=[]), "holds no call"),
    "arguments and calls": (lambda: check_compile(sine, X, calls=[call(X)]), "not both"),
    "other device": (
        lambda: check_compile(torch.nn.Linear(4, 4), torch.ones(4, 4, device="meta")),
        "call 1: .* is on meta, the model on cpu; move one of them",
    ),
    "eager raises": (lambda: check_compile(raising, X), "call 1 raises in eager, before torch.compile .* KeyError"),
    "unknown backend": (lambda: check_compile(sine, X, backend="inductr"), "backend 'inductr' is not known .* inductor"),
    "unknown mode": (lambda: check_compile(sine, X, mode="fast"), "mode 'fast' is not known to torch; .* reduce-overhead"),
    "mode and options": (
        lambda: check_compile(sine, X, mode="default", options={"max_autotune": True}),
        "exclude each other",
    ),
    "compile not callable": (lambda: check_compile(sine, X, compile=True), "give a callable, target -> compiled"),
    "negative breaks": (lambda: check_compile(sine, X, max_graph_breaks=-1), "max_graph_breaks is -1; .* 0 or more"),
    "negative recompiles": (lambda: check_compile(sine, X, max_recompiles=-1), "max_recompiles is -1; .* 0 or more"),
    "budget in words": (lambda: check_compile(sine, X, max_recompiles="two"), "max_recompiles is 'two'"),
    "negative budget": (lambda: Budget(max_graph_breaks=-1), "max_graph_breaks is -1"),
    "bad specifier": (lambda: Budget(max_recompiles={"from 2.8": 1}), "'from 2.8' is not a version specifier"),
    "negative guard": (lambda: compile_guard(max_recompiles=-2).__enter__(), "max_recompiles is -2"),
    "accepted breaks in one string": (
        lambda: check_compile(sine, X, accepted_breaks="gb-1a2b3c4d5e"),
        r"accepted_breaks is 'gb-1a2b3c4d5e', one string; give fingerprints in a list: \['gb-1a2b3c4d5e'\]",
    ),
    "accepted breaks of a guard": (lambda: compile_guard(accepted_breaks="gb-1").__enter__(), "one string"),
    "accepted breaks of a budget": (lambda: Budget(accepted_breaks="gb-1"), "one string"),
    "accepted break that is no string": (lambda: check_compile(sine, X, accepted_breaks=[3]), "accepted_breaks holds 3"),
    "accepted breaks of one number": (lambda: check_compile(sine, X, accepted_breaks=3), "accepted_breaks holds 3"),
    "no steps": (lambda: check_compile(sine, X, train=True, steps=0), "steps=0: at least one step"),
    "nothing to train": (
        lambda: check_compile(sine, X, backend="eager", train=True),
        "train=True, and no output requires a gradient in any call",
    ),
    "dynamic_dims of no argument": (
        lambda: check_compile(sine, X, dynamic_dims={"y": 0}),
        "dynamic_dims names 'y', which is no tensor argument of the call; .*: x",
    ),
    "dynamic_dims of no position": (lambda: check_compile(sine, X, dynamic_dims={3: 0}), "dynamic_dims names 3"),
    "dynamic_dims of no dimension": (
        lambda: check_compile(sine, X, dynamic_dims={"x": 2}),
        "'x' has 1 dimensions, so no dimension 2",
    ),
    "context, not a factory": (lambda: call(X).under(torch.no_grad()), "under.. takes factories"),
    "action, not a function": (lambda: call(X).before("eval"), "before.. takes a function"),
    "sizes of nothing": (lambda: sizes(lambda: X), "needs sizes for at least one dimension"),
    "sizes without a size": (lambda: sizes(lambda batch: X, batch=[]), "needs sizes for batch"),
    "multiple of zero": (lambda: padded([1], multiple=0), "multiple is 1 or more"),
    "empty range": (lambda: random_lengths(3, low=9, high=2), "low <= high"),
    "no model in a suite": (lambda: CompileSuite().make_model(), r"CompileSuite needs make_model\(self\)"),
    "no shapes in a suite": (lambda: CompileSuite().test_compile_inference(), "shapes is empty"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_refused_in_one_line(case):
    attempt, text = CASES[case]
    with pytest.raises(ValueError, match=text) as failure:
        attempt()
    assert len(str(failure.value).splitlines()) == 1


def test_own_error_of_the_target_is_kept_as_the_cause():
    with pytest.raises(CompileUsageError) as failure:
        check_compile(raising, X, backend="eager")
    assert isinstance(failure.value.__cause__, KeyError)


def test_missing_compiler_is_said_to_be_missing(monkeypatch):
    class InvalidCxxCompiler(RuntimeError):
        pass

    def backend(gm, example_inputs):
        raise InvalidCxxCompiler("No working C++ compiler found in (None, 'g++')")

    with pytest.raises(CompileUsageError, match=r"found no working C\+\+ compiler: install one .* backend='aot_eager'"):
        check_compile(sine, X, backend=backend)


def test_unsupported_torch_is_refused(monkeypatch):
    monkeypatch.setattr(support, "torch_version", lambda: "2.5.1")
    for attempt in (lambda: check_compile(sine, X), lambda: compile_guard().__enter__()):
        with pytest.raises(CompileUsageError, match=r"torch 2\.5\.1 is not supported: .* Install torch>=2\.6"):
            attempt()


def test_prerelease_of_the_oldest_torch_is_accepted(monkeypatch):
    monkeypatch.setattr(support, "torch_version", lambda: "2.6.0a0")
    support.require_supported_torch()


def test_torch_newer_than_any_checked_is_remarked(monkeypatch):
    monkeypatch.setattr(support, "torch_version", lambda: "2.99.0")
    assert any("2.99" in what for what in check_compile(sine, X, backend="eager").not_observable)


def test_output_that_cannot_be_compared_is_named():
    with pytest.raises(CompileUsageError, match=r"output\[1\] is an? Opaque, which cannot be compared") as failure:
        check_compile(lambda x: (x.sin(), Opaque()), X, backend="eager", fullgraph=False, max_graph_breaks=5)
    assert len(str(failure.value).splitlines()) == 1
