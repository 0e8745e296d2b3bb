"""Targets that torch.compile was applied to already, in all the ways in which code does this."""

import functools

import pytest
import torch
from packaging.version import Version
from torch import nn

from pytest_torch_compile import CompileCheckFailed, call, check_compile

BEFORE_2_14 = Version(Version(torch.__version__).base_version) < Version("2.14")
X = torch.linspace(-1, 1, 6).reshape(2, 3)


def tripled(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args) * 3

    return wrapper


class Decorated(nn.Module):
    scale = 2.0

    def __init__(self, wrong=False):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.wrong = wrong

    @torch.compile(backend="eager")
    def step(self, x):
        y = self.linear(x)
        return y * 1.1 if self.wrong and torch.compiler.is_compiling() else y

    @tripled
    @torch.compile(backend="eager")
    def decorated_twice(self, x):
        return self.step(x)

    @classmethod
    @torch.compile(backend="eager")
    def of_class(cls, x):
        return x.sin() * cls.scale

    @staticmethod
    @torch.compile(backend="eager")
    def static(x):
        return x.sin()

    @torch.compile(backend="eager")
    def forward(self, x):
        return self.step(x)


@pytest.mark.parametrize("name", ["step", "decorated_twice", "of_class", "static", "forward"])
def test_decorated_methods_are_checked_with_their_object(name):
    report = check_compile(getattr(Decorated(), name), calls=[call(X), call(X)], backend="eager")
    assert len(report.graphs) == 1
    assert report.target == f"Decorated.{name}"


@pytest.mark.parametrize("name", ["step", "decorated_twice", "forward"])
def test_wrong_decorated_methods_are_found(name):
    with pytest.raises(CompileCheckFailed) as failed:
        check_compile(getattr(Decorated(wrong=True), name), X, backend="eager")
    assert {finding.kind for finding in failed.value.findings} == {"numerics"}


def test_decorated_method_is_trained_with_the_parameters_of_its_object():
    model = Decorated()
    report = check_compile(model.step, X, backend="eager", train=True)
    assert report.numerics.leaves > 2
    assert model.linear.weight.grad is None


class PassesOn:
    """A callable that passes on the attributes of the function that it calls, as many wrappers do."""

    def __init__(self, inner, factor):
        self.inner, self.factor = inner, factor

    def __getattr__(self, name):
        return getattr(self.__dict__["inner"], name)

    def __call__(self, x):
        return self.inner(x) * (3 * self.factor if torch.compiler.is_compiling() else 3)


class ModulePassesOn(nn.Module):
    def __init__(self, module, factor):
        super().__init__()
        self.module, self.factor = module, factor

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("module"), name)

    def forward(self, x):
        return self.module(x) * (3 * self.factor if torch.compiler.is_compiling() else 3)


def wrapper_of(kind, factor):
    if kind == "compiled function":
        return PassesOn(torch.compile(torch.sin, backend="eager"), factor)
    if kind == "decorated method":
        return PassesOn(Decorated().step, factor)
    module = Decorated() if kind == "decorated module" else torch.compile(nn.Linear(3, 3), backend="eager")
    return ModulePassesOn(module, factor)


KINDS = ["compiled function", "decorated method", "decorated module", "compiled module"]


@pytest.mark.parametrize("kind", KINDS)
def test_wrapper_that_passes_on_attributes_is_checked_itself(kind):
    # Before 2.14, torch.compile is confused by the attributes, too: it compiles only the function or module inside the
    # wrapper, or raises an exception. So the findings are not the same on all versions.
    with pytest.raises(CompileCheckFailed) as failed:
        check_compile(wrapper_of(kind, 1.1), X, backend="eager", fullgraph=False)
    if not BEFORE_2_14:
        assert {finding.kind for finding in failed.value.findings} == {"numerics"}


@pytest.mark.parametrize("kind", ["decorated module", "compiled module"])
def test_right_wrapper_that_passes_on_attributes_passes(kind):
    if kind == "compiled module" and BEFORE_2_14:
        pytest.skip("torch.compile cannot compile this wrapper on this torch version")
    check_compile(wrapper_of(kind, 1.0), X, backend="eager", fullgraph=False)
