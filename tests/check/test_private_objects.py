"""Checks with objects that raise an exception, whatever is asked of them, in all places where a check meets objects."""

import contextlib
import functools

import pytest
import torch
from torch import nn

from pytest_torch_compile import CompileCheckFailed, CompileUsageError, call, check_compile, factory

ASKED = []
X = torch.linspace(-1, 1, 6).reshape(2, 3)
METHODS = "len eq ne bool repr str iter contains format copy deepcopy reduce reduce_ex sizeof dir lt index float int array hash"


def refusing(name):
    def refuse(self, *args):
        ASKED.append(name)
        raise RuntimeError(f"{name} is private")

    return refuse


def add_refusals(kind, names):
    for name in names.split():
        setattr(kind, f"__{name}__", refusing(name))
    return kind


class Private:
    """An object with one readable attribute. All its other methods and attributes raise an exception."""

    width = property(refusing("width"))
    __getattr__ = refusing("getattr")


add_refusals(Private, METHODS)


class Model(nn.Module):
    def __init__(self, factor=1.0):
        super().__init__()
        self.linear, self.factor = nn.Linear(3, 3), factor

    def forward(self, x):
        y = self.linear(x)
        return y * self.factor if torch.compiler.is_compiling() else y


class Silent(Model):
    __repr__ = __str__ = extra_repr = refusing("repr")


class Owner(Model):
    def __init__(self, factor=1.0):
        super().__init__(factor)
        self.private, self.table = Private(), {"a": [Private()]}


def called(result):
    """Return a private object that returns ``result(argument)`` when it is called."""
    return type("Called", (Private,), {"__call__": lambda self, *args: result(*args)})()


def function(factor):
    return lambda x, *rest, **more: x.sin() * (factor if torch.compiler.is_compiling() else 1.0)


Tuple = add_refusals(type("Tuple", (tuple,), {}), "len eq repr bool hash iter contains")
Dict = add_refusals(type("Dict", (dict,), {}), "len eq repr bool iter contains")
Text = add_refusals(type("Text", (str,), {}), "len eq repr bool str format")
Number = add_refusals(type("Number", (int,), {}), "eq repr bool str format")
Text.__hash__, Number.__hash__ = str.__hash__, int.__hash__

# Each entry returns the target, its call and the options of a check, for compiled code that differs by a factor.
PLACES = {
    "argument": lambda factor: (function(factor), call(X, Private()), {}),
    "keyword": lambda factor: (function(factor), call(X, option=Private()), {}),
    "item of an argument": lambda factor: (function(factor), call(X, [Private(), ({"a": Private()},)]), {}),
    "default": lambda factor: (with_default(Private(), function(factor)), call(X), {}),
    "closure": lambda factor: (closed_over(Private(), function(factor)), call(X), {}),
    "argument of a partial": lambda factor: (functools.partial(second(function(factor)), Private()), call(X), {}),
    "output": lambda factor: (with_output(Private(), function(factor)), call(X), {}),
    "attribute": lambda factor: (Owner(factor), call(X), {"train": True}),
    "module": lambda factor: (Silent(factor), call(X), {"train": True}),
    "loss": lambda factor: (Model(factor), call(X), {"train": called(lambda output: output.sum())}),
    "optimizer": lambda factor: (Model(factor), call(X), {"optimizer": called(sgd)}),
    "compile function": lambda factor: (Model(factor), call(X), {"compile": called(compiled), "backend": None}),
    "context": lambda factor: (Model(factor), call(X).under(called(contextlib.nullcontext)), {}),
    "action": lambda factor: (Model(factor), call(X).before(called(lambda model: model.eval())), {}),
    "factory": lambda factor: (factory(called(lambda: Model(factor))), call(X), {}),
    "tuple": lambda factor: (function(factor), call(X, Tuple((1, X))), {}),
    "dict": lambda factor: (function(factor), call(X, Dict(a=X)), {}),
    "text": lambda factor: (function(factor), call(X, Text("a")), {}),
    "number": lambda factor: (function(factor), call(X, Number(3)), {}),
}


def closed_over(private, run):
    return lambda x: (private, run(x))[1]


def with_default(private, run):
    def target(x, option=private):
        return run(x)

    return target


def second(run):
    return lambda private, x: run(x)


def with_output(private, run):
    return lambda x: (private, run(x))


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.1)


def compiled(target):
    return torch.compile(target, backend="eager")


def checked(target, one, options, **more):
    ASKED.clear()
    return check_compile(target, calls=[one], **{"backend": "eager", "fullgraph": False, **options}, **more)


@pytest.mark.parametrize("place", PLACES)
def test_private_objects_are_not_asked(place):
    target, one, options = PLACES[place](1.0)
    checked(target, one, options)
    assert ASKED == []


@pytest.mark.parametrize("place", PLACES)
def test_failure_beside_private_objects_is_reported(place):
    target, one, options = PLACES[place](1.1)
    with pytest.raises(CompileCheckFailed) as failed:
        checked(target, one, options, diagnose="full")
    assert "numerics" in {finding.kind for finding in failed.value.findings}
    assert str(failed.value)
    assert ASKED == []


def test_object_that_cannot_be_compared_is_named_with_the_cause():
    with pytest.raises(
        CompileUsageError, match=r"output\[0\] has type Private, .* because its __eq__ raises an exception"
    ):
        checked(lambda x: (Private(), x.sin()), call(X), {})


class SilentError(Exception):
    __repr__ = __str__ = refusing("str of an exception")


def raises(x):
    if x.sum() < 1e9:
        raise SilentError
    return x


def test_expected_exception_without_text_passes():
    checked(raises, call(X).raises(SilentError), {}, max_graph_breaks=1)


def test_exception_without_text_is_reported():
    with pytest.raises(CompileCheckFailed, match="compiled code raises SilentError"):
        checked(lambda x: raises(x) if torch.compiler.is_compiling() else x * 2, call(X), {}, max_graph_breaks=9)
    with pytest.raises(CompileUsageError, match=r"raises an exception in eager.*SilentError"):
        checked(raises, call(X), {}, max_graph_breaks=9)


def test_custom_backend_that_is_false_is_used():
    class Backend(list):  # an empty list is false
        def __call__(self, graph, inputs):
            self.append(graph)
            return graph.forward

    backend = Backend()
    check_compile(lambda x: x.sin(), X, backend=backend)
    assert len(backend) == 1
