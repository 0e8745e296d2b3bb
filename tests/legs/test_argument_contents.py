"""Objects among the arguments: what compiled code leaves in them is compared with what eager leaves."""

from __future__ import annotations

import array
import functools
import io
import logging
import random
import types

import numpy
import pytest
import torch
from torch import nn

from pytest_torch_compile import CompileCheckFailed, check_compile

KINDS = {
    "set": (lambda: {1}, lambda held: held.add(2)),
    "bytearray": (lambda: bytearray(b"a"), lambda held: held.extend(b"b")),
    "array of numbers": (lambda: array.array("f", [1]), lambda held: held.append(2)),
    "array": (lambda: numpy.zeros(2), lambda held: held.__setitem__(0, 1)),
    "array of strings": (lambda: numpy.array(["a"]), lambda held: held.__setitem__(0, "b")),
    "namespace": (lambda: types.SimpleNamespace(n=1), lambda held: setattr(held, "n", 2)),
    "argument of a partial": (lambda: functools.partial(print, [1]), lambda held: held.args[0].append(2)),
    "buffer of text": (io.StringIO, lambda held: held.write("a")),
    "random numbers": (lambda: random.Random(0), lambda held: held.random()),
    "random numbers of numpy": (lambda: numpy.random.default_rng(0), lambda held: held.random()),
    "random numbers of torch": (torch.Generator, lambda held: held.manual_seed(3)),
    "level of a logger": (lambda: logging.getLogger(__name__), lambda held: held.setLevel(7)),
    "mode of a module": (nn.Dropout, lambda held: held.eval()),
    "submodules": (lambda: nn.Sequential(nn.ReLU()), lambda held: held.append(nn.ReLU())),
    "hook of a module": (lambda: nn.Linear(2, 2), lambda held: held.register_forward_hook(print)),
    "attribute of a tensor": (lambda: torch.ones(2), lambda held: setattr(held, "note", 1)),
    "attribute of a function": (lambda: lambda: 0, lambda held: setattr(held, "calls", 1)),
}


def doubled(x, held):
    return x * 2


def wrapped(change):
    """A wrapper of torch.compile whose function changes the second argument after each call."""

    def wrap(target):
        compiled = torch.compile(lambda x: x * 2, backend="eager")

        def run(x, held):
            result = compiled(x)
            change(held)
            return result

        return run

    return wrap


@pytest.mark.parametrize("kind", KINDS)
def test_argument_that_only_compiled_code_changes_is_found(kind):
    make, change = KINDS[kind]
    with pytest.raises(CompileCheckFailed) as caught:
        check_compile(doubled, torch.ones(2), make(), compile=wrapped(change))
    assert {finding.kind for finding in caught.value.findings} <= {"mutation", "metadata"}
    assert all(finding.subject.startswith("argument held") for finding in caught.value.findings)


@pytest.mark.parametrize("kind", KINDS)
def test_argument_that_both_change_is_no_finding(kind):
    make, change = KINDS[kind]

    def changing(x, held):
        change(held)
        return x * 2

    check_compile(changing, torch.ones(2), make(), compile=wrapped(change))


def test_strided_nested_argument_is_described():
    nested = torch.nested.nested_tensor([torch.zeros(1), torch.zeros(2)], layout=torch.strided)
    report = check_compile(doubled, torch.ones(2), nested, compile=wrapped(lambda held: None))
    assert report.calls[0].shapes == "x f32[2], held f32[nested]"


def test_code_that_only_the_compile_function_runs_is_compiled_in_each_check():
    for _ in range(4):
        assert len(check_compile(doubled, torch.ones(2), None, compile=wrapped(lambda held: None)).graphs) == 1


def test_setting_that_torch_changes_when_it_traces_a_step_is_no_finding_and_another_one_is():
    optimizer = torch.optim.AdamW([nn.Parameter(torch.ones(2))])
    check_compile(doubled, torch.ones(2), optimizer, compile=wrapped(setting(capturable=True)))
    with pytest.raises(CompileCheckFailed, match="'lr'"):
        check_compile(doubled, torch.ones(2), optimizer, compile=wrapped(setting(lr=1.0)))


def setting(**options):
    return lambda optimizer: optimizer.param_groups[0].update(options)
