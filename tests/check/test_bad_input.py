"""Each kind of bad input gets one clear line, and leaves nothing behind."""

from __future__ import annotations

import logging
import traceback

import pytest

torch = pytest.importorskip("torch")

from pytest_torch_compile import (  # noqa: E402
    Budget,
    CompileSuite,
    CompileUsageError,
    Tolerance,
    call,
    check_artifact,
    check_compile,
    check_invariance,
    compile_guard,
    factory,
    padded,
    random_lengths,
    sizes,
)
from pytest_torch_compile._torch import support  # noqa: E402

X = torch.ones(4)
LINEAR = torch.nn.Linear(4, 4)


def sine(x):
    return x.sin()


def raising(x):
    raise KeyError("no such key")


class Raising(torch.nn.Module):
    def forward(self, x):
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


class ReadOnce(CompileSuite):
    shapes = (size for size in [(1,), (2,)])


CASES = {
    "not callable": (lambda: check_compile(3, X), "the target is 3, which is not callable"),
    "no call": (lambda: check_compile(sine), "no call was passed"),
    "empty calls": (lambda: check_compile(sine, calls=[]), "is empty"),
    "arguments and calls": (lambda: check_compile(sine, X, calls=[call(X)]), "not both"),
    "other device": (
        lambda: check_compile(torch.nn.Linear(4, 4), torch.ones(4, 4, device="meta")),
        "call 1: .* is on meta, but the model is on cpu; move the input or the model",
    ),
    "eager raises": (lambda: check_compile(raising, X), "call 1 raises an exception in eager, before torch.compile .* KeyError"),
    "unknown backend": (lambda: check_compile(sine, X, backend="inductr"), "backend 'inductr' is unknown .* inductor"),
    "unknown mode": (lambda: check_compile(sine, X, mode="fast"), "mode 'fast' is unknown to torch; .* reduce-overhead"),
    "mode and options": (
        lambda: check_compile(sine, X, mode="default", options={"max_autotune": True}),
        "accepts either mode or options, but not both",
    ),
    "compile not callable": (lambda: check_compile(sine, X, compile=True), "pass a function that returns the compiled target"),
    "compile in place": (
        lambda: check_compile(torch.nn.Linear(4, 4), X, compile=lambda model: model.compile(backend="eager")),
        r"the function passed as compile= returned None, but .* \(module.compile\(\) compiles in place and returns None\)",
    ),
    "negative breaks": (lambda: check_compile(sine, X, max_graph_breaks=-1), "max_graph_breaks is -1; .* non-negative"),
    "negative recompiles": (lambda: check_compile(sine, X, max_recompiles=-1), "max_recompiles is -1; .* non-negative"),
    "budget in words": (lambda: check_compile(sine, X, max_recompiles="two"), "max_recompiles is 'two'"),
    "negative budget": (lambda: Budget(max_graph_breaks=-1), "max_graph_breaks is -1"),
    "bad specifier": (lambda: Budget(max_recompiles={"from 2.8": 1}), "'from 2.8' is not a version specifier"),
    "negative guard": (lambda: compile_guard(max_recompiles=-2).__enter__(), "max_recompiles is -2"),
    "accepted breaks in one string": (
        lambda: check_compile(sine, X, accepted_breaks="gb-1a2b3c4d5e"),
        r"accepted_breaks is 'gb-1a2b3c4d5e', a single string; pass a list of fingerprints: \['gb-1a2b3c4d5e'\]",
    ),
    "accepted breaks of a guard": (lambda: compile_guard(accepted_breaks="gb-1").__enter__(), "a single string"),
    "accepted breaks of a budget": (lambda: Budget(accepted_breaks="gb-1"), "a single string"),
    "accepted break that is no string": (lambda: check_compile(sine, X, accepted_breaks=[3]), "accepted_breaks contains 3"),
    "accepted breaks of one number": (lambda: check_compile(sine, X, accepted_breaks=3), "accepted_breaks contains 3"),
    "no steps": (lambda: check_compile(sine, X, train=True, steps=0), "steps is 0; it must be a positive integer"),
    "steps in words": (lambda: check_compile(LINEAR, X, train=True, steps="2"), "steps is '2'; it must be a positive integer"),
    "train by a word": (lambda: check_compile(LINEAR, X, train="yes"), "train is an instance of str; pass True, or a function"),
    "loss, not a function": (
        lambda: check_compile(LINEAR, X, train=LINEAR(X)),
        "train is an instance of Tensor; pass True, or a function that computes the loss",
    ),
    "nothing to train": (
        lambda: check_compile(sine, X, backend="eager", train=True),
        "train=True, but no call has an output that requires grad",
    ),
    "dynamic_dims of no argument": (
        lambda: check_compile(sine, X, dynamic_dims={"y": 0}),
        "dynamic_dims contains 'y', which is not a tensor argument of the call; .*: x",
    ),
    "dynamic_dims of no position": (lambda: check_compile(sine, X, dynamic_dims={3: 0}), "dynamic_dims contains 3"),
    "dynamic_dims of no dimension": (
        lambda: check_compile(sine, X, dynamic_dims={"x": 2}),
        "'x' has 1 dimension, so dimension 2 does not exist",
    ),
    "dynamic_dims of one name": (
        lambda: check_compile(sine, X, dynamic_dims="x"),
        "dynamic_dims is 'x', but it must be a dict that maps argument names or positions to dimensions: "
        "dynamic_dims={'x': 0}",
    ),
    "dynamic_dims of one number": (lambda: check_compile(sine, X, dynamic_dims=0), "dynamic_dims is 0, but it must be a dict"),
    "dynamic_dims of an artifact in a list": (
        lambda: check_artifact(LINEAR, X, dynamic_dims=[0], via="export"),
        r"dynamic_dims is \[0\], but it must be a dict",
    ),
    "dynamic_dims of no number": (
        lambda: check_compile(sine, X, dynamic_dims={"x": "batch"}),
        "dynamic_dims: 'batch' is not a dimension of 'x'; pass the dimension's index, from 0",
    ),
    "tolerances of one number": (
        lambda: check_compile(sine, X, tolerances=1e-3),
        r"tolerances is 0.001; use tolerances=Tolerances\(rtol=0.001, atol=0.001\)",
    ),
    "one tolerance for all": (
        lambda: check_compile(sine, X, tolerances=Tolerance(rtol=1e-2, atol=0)),
        r"use tolerances=Tolerances\(rtol=0.01, atol=0\)",
    ),
    "tolerance of one number": (
        lambda: check_invariance(sine, X, tolerance=1e-3),
        r"use tolerance=Tolerance\(rtol=0.001, atol=0.001\)",
    ),
    "tolerances of an artifact": (
        lambda: check_artifact(torch.nn.Linear(4, 4), X, tolerances=1e-3),
        "tolerances is 0.001; use tolerances=Tolerances",
    ),
    "optimizer, not a factory": (
        lambda: check_compile(LINEAR, X, optimizer=torch.optim.Adam(LINEAR.parameters())),
        r"optimizer is an instance of Adam; pass a function that creates the optimizer, .* optimizer=lambda params: torch.optim.Adam\(params",
    ),
    "optimizer that raises": (
        lambda: check_compile(sine, X, optimizer=lambda params: torch.optim.SGD(params, lr=0.1)),
        "the function passed as optimizer= raises ValueError: optimizer got an empty parameter list",
    ),
    "factory that raises": (
        lambda: check_compile(factory(lambda: 1 / 0), X),
        r"the function passed to factory\(\) raises ZeroDivisionError: division by zero \(at ",
    ),
    "name of an optimizer": (lambda: check_compile(LINEAR, X, optimizer="SGD"), "optimizer is an instance of str; pass a function"),
    "optimizer that is not returned": (
        lambda: check_compile(LINEAR, X, optimizer=lambda params: None),
        "the function passed as optimizer= returned None, but it must return the optimizer",
    ),
    "snapshots somewhere else": (lambda: check_compile(sine, X, snapshots="disk"), "must be \"device\" or \"host\""),
    "calls of a dict": (lambda: check_compile(sine, calls={"x": X}), r"calls is a single dict, but it must be a list of calls"),
    "calls of a tensor": (lambda: check_compile(sine, calls=torch.ones(2, 4)), r"calls is a single tensor, .* check_compile\(model, x\)"),
    "calls of one call": (lambda: check_compile(sine, calls=call(X)), r"calls is a single call\(...\), but it must be a list"),
    "calls of a number": (lambda: check_compile(sine, calls=3), "calls is a single int, but it must be a list"),
    "calls of an array": (lambda: check_artifact(LINEAR, calls=X.numpy()), "calls is a single array, but it must be a list"),
    "model and input on meta": (
        lambda: check_compile(torch.nn.Linear(4, 4, device="meta"), torch.ones(4, 4, device="meta")),
        "are on the meta device, where tensors have no values to compare",
    ),
    "function of an input on meta": (lambda: check_compile(sine, X.to("meta")), "on the meta device"),
    "artifact on meta": (
        lambda: check_artifact(torch.nn.Linear(4, 4, device="meta"), torch.ones(4, 4, device="meta")),
        "on the meta device",
    ),
    "invariance on meta": (lambda: check_invariance(sine, torch.ones(4, 4, device="meta")), "on the meta device"),
    "invariance over a number": (lambda: check_invariance(sine, X, over=3), "over=3 is unknown; choose one of: batch"),
    "breaks by version and package": (
        lambda: check_compile(sine, X, max_graph_breaks={"<2.8": 2, "mypackage": 0}),
        "max_graph_breaks mixes torch versions .'<2.8'. and packages .'mypackage'.; use only versions or only packages",
    ),
    "breaks by package and version in a guard": (
        lambda: compile_guard(max_graph_breaks={"*": 3, ">=2.8": 0}).__enter__(),
        "mixes torch versions",
    ),
    "recompiles by package": (
        lambda: check_compile(sine, X, max_recompiles={"mypackage": 0}),
        "max_recompiles: 'mypackage' is not a version specifier",
    ),
    "breaks by something else": (
        lambda: check_compile(sine, X, max_graph_breaks={"my-package": 0}),
        "'my-package' is not a version specifier or a package; write '>=2.8', 'mypackage' or",
    ),
    "context, not a factory": (lambda: call(X).under(torch.no_grad()), "under.. expects factories"),
    "action, not a function": (lambda: call(X).before("eval"), "before.. expects a function"),
    "sizes of nothing": (lambda: sizes(lambda: X), "needs sizes for at least one dimension"),
    "sizes without a size": (lambda: sizes(lambda batch: X, batch=[]), "needs sizes for batch"),
    "multiple of zero": (lambda: padded([1], multiple=0), "must be 1 or more"),
    "empty range": (lambda: random_lengths(3, low=9, high=2), "low must not exceed high"),
    "no model in a suite": (lambda: CompileSuite().make_model(), r"CompileSuite must define make_model\(self\)"),
    "shapes of a suite that can be read once": (lambda: ReadOnce().test_compile_shapes(), "shapes is a generator; use a list"),
    "no shapes in a suite": (lambda: CompileSuite().test_compile_inference(), "shapes is empty"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_refused_in_one_line(case):
    attempt, text = CASES[case]
    with pytest.raises(ValueError, match=text) as failure:
        attempt()
    assert len(str(failure.value).splitlines()) == 1


def test_own_error_of_the_target_is_named_with_its_line_and_shown_once():
    with pytest.raises(
        CompileUsageError, match=r"KeyError: 'no such key' \(at .*test_bad_input.py:\d+ in raising\)"
    ) as failure:
        check_compile(raising, X, backend="eager")
    shown = "".join(traceback.format_exception(failure.value))
    assert "Traceback" in shown
    assert shown.count("Traceback") == 1
    assert isinstance(failure.value.__context__, KeyError)


@pytest.mark.parametrize(
    "attempt",
    [
        lambda: check_compile(raising, calls=[call(X).raises(IndexError)], backend="eager"),
        lambda: check_invariance(raising, torch.ones(2, 2), backend="eager"),
        lambda: check_artifact(Raising(), X),
    ],
)
def test_usage_error_has_no_other_traceback_above_it(attempt):
    with pytest.raises(CompileUsageError, match="KeyError") as failure:
        attempt()
    assert "".join(traceback.format_exception(failure.value)).count("Traceback") == 1


@pytest.mark.parametrize(
    "calls",
    [[{"x": X}], ({"x": X},), [X], [(X,)], (call(X) for _ in range(2)), {1: call(X)}.values(), [[X, X]]],
)
def test_every_list_of_calls_is_taken(calls):
    def target(x):
        return x.sin() if isinstance(x, torch.Tensor) else x[0].sin()

    assert check_compile(target, calls=calls, backend="eager").ok


def test_tensor_on_meta_beside_values_is_compared():
    shape = torch.ones(3, device="meta")
    report = check_compile(lambda x, like: x.sin() + like.shape[0], X, shape, backend="eager")
    assert report.numerics.leaves


def test_missing_compiler_is_said_to_be_missing(monkeypatch):
    class InvalidCxxCompiler(RuntimeError):
        pass

    def backend(gm, example_inputs):
        raise InvalidCxxCompiler("No working C++ compiler found in (None, 'g++')")

    with pytest.raises(
        CompileUsageError, match=r"found no working C\+\+ compiler: install a compiler .* backend='aot_eager'"
    ):
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
    with pytest.raises(CompileUsageError, match=r"output\[1\] has type Opaque, which cannot be compared") as failure:
        check_compile(lambda x: (x.sin(), Opaque()), X, backend="eager", fullgraph=False, max_graph_breaks=5)
    assert len(str(failure.value).splitlines()) == 1
