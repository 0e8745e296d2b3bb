"""What a target keeps is looked up by the objects that changed, and is still compared completely."""

from __future__ import annotations

import functools

import pytest
import torch
from torch import nn

from pytest_torch_compile import CompileCheckFailed, call, check_compile
from pytest_torch_compile.legs import outcome
from pytest_torch_compile.legs.leg import Leg
from pytest_torch_compile.legs.work import Work

CALLS = [call(torch.ones(2)), call(torch.ones(2) * 2), call(torch.ones(2) * 3)]
OPTIONS = {"backend": "eager", "fullgraph": False, "max_graph_breaks": 9, "max_recompiles": 9, "diagnose": "off"}


class Keeps(nn.Module):
    """A module whose state changes in one of its calls."""

    def __init__(self, change, at):
        super().__init__()
        self.change, self.at = change, at
        self.inner = {"history": [[]], "holder": nn.Identity()}
        self.scaled = functools.partial(torch.mul, other=2)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        if self.calls == self.at and torch.compiler.is_compiling():
            self.change(self)
        return x * 2


def append(module):
    module.inner["history"][0].append(1)


def replace_what_holds_it(module):
    module.inner = {**module.inner, "history": [[1]]}


def set_on_an_inner_module(module):
    module.inner["holder"].flag = True


def change_keywords(module):
    module.scaled.keywords["other"] = 3


def set_on_the_class(module):
    type(module).shared = 1


CHANGES = [append, replace_what_holds_it, set_on_an_inner_module, change_keywords, set_on_the_class]


@pytest.mark.parametrize("at", [1, 2, 3])
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_in_any_call_is_found(change, at):
    with pytest.raises(CompileCheckFailed) as failed:
        check_compile(Keeps(change, at), calls=CALLS, **OPTIONS)
    assert {finding.kind for finding in failed.value.findings} == {"state"}
    assert min(call for finding in failed.value.findings for call in finding.calls) == at


@pytest.mark.parametrize("at", [1, 3])
def test_keywords_of_a_partial_are_restored(at):
    module = Keeps(change_keywords, at)
    with pytest.raises(CompileCheckFailed):
        check_compile(module, calls=CALLS, **OPTIONS)
    assert module.scaled.keywords == {"other": 2}


def test_a_descriptor_that_a_user_defined_is_restored():
    class Offset:
        def __get__(self, instance, owner):
            return 1

    class Model(nn.Module):
        offset = Offset()

        def forward(self, x):
            if torch.compiler.is_compiling():
                Model.offset = 2
            return x + 1

    before = vars(Model)["offset"]
    with pytest.raises(CompileCheckFailed, match=r"class attribute Model\.offset"):
        check_compile(Model(), torch.ones(2), **OPTIONS)
    assert vars(Model)["offset"] is before


def test_a_target_that_changes_nothing_is_visited_once(monkeypatch):
    visits = []
    original = outcome._Walk.all_of
    monkeypatch.setattr(outcome._Walk, "all_of", lambda self, target: visits.append(target) or original(self, target))
    work = Work(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)), [call(torch.ones(4, 2))] * 4)
    first = Leg(work)
    for leg in (first, Leg(work, first.world)):
        for index in range(4):
            leg.run(index)
    assert len(visits) == 1


def test_tensors_of_a_run_are_not_kept_alive():
    class Model(nn.Module):
        def forward(self, x):
            self.last = x * 2
            return self.last + 1

    leg = Leg(Work(Model(), [call(torch.ones(2))] * 2))
    kept = leg.run(0).kept
    assert "attribute last" in kept.nodes
    assert not any("attribute last" in stored.flat.nodes for stored in leg.world.kept._stored)


def test_a_gradient_that_code_sets_on_a_kept_tensor_is_found():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.kept = [torch.zeros(2, requires_grad=True)]

        def forward(self, x):
            if torch.compiler.is_compiling():
                self.kept[0].grad = torch.ones(2)
            return x + 1

    with pytest.raises(CompileCheckFailed) as failed:
        check_compile(Model(), torch.ones(2), **OPTIONS)
    assert "state" in {finding.kind for finding in failed.value.findings}
