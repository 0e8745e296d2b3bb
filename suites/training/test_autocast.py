"""Practice 9 in docs/coverage.md, first half: autocast inside or around the compiled region.

Both compile to one graph that matches eager. The autocast state around the region is a guard: entering autocast around
code that was compiled without it causes one recompile, but leaving it again causes none.
"""

from functools import partial

import pytest
import torch

from pytest_torch_compile import call

from ..captioning.models import loss_of, tiny_decoder, words


class CastsInside(torch.nn.Module):
    """A model that enters autocast itself."""

    def __init__(self, model, device):
        super().__init__()
        self.model = model
        self.device = device

    def forward(self, **batch):
        with torch.autocast(self.device, torch.bfloat16):
            return self.model(**batch)


@pytest.fixture
def autocast(compile_device):
    return partial(torch.autocast, compile_device.type, torch.bfloat16)


BATCH = call(**words([8, 6]))


def test_around(compile_check, autocast):
    report = compile_check(tiny_decoder(), calls=[BATCH.under(autocast)] * 2, train=loss_of)

    assert len(report.graphs) == 1


def test_inside(compile_check, compile_device):
    report = compile_check(CastsInside(tiny_decoder(), compile_device.type), calls=[BATCH] * 2, train=loss_of)

    assert len(report.graphs) == 1


def test_inside_and_around_in_turn(compile_check, autocast):
    calls = [BATCH, BATCH.under(autocast), BATCH, BATCH.under(autocast)]

    report = compile_check(tiny_decoder(), calls=calls, train=loss_of, max_recompiles=1)

    assert [recompile.call for recompile in report.recompiles] == [2]


def test_another_dtype_costs_one_more(compile_check, compile_device):
    half = partial(torch.autocast, compile_device.type, torch.float16)
    brain = partial(torch.autocast, compile_device.type, torch.bfloat16)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 8))
    given = call(torch.randn(4, 8))

    report = compile_check(model, calls=[given.under(half), given.under(brain), given.under(half)], max_recompiles=1)

    assert [recompile.call for recompile in report.recompiles] == [2]


def test_cache_off_keeps_one_graph(compile_check, compile_device):
    uncached = partial(torch.autocast, compile_device.type, torch.bfloat16, cache_enabled=False)

    compile_check(tiny_decoder(), calls=[BATCH.under(uncached)] * 2, train=loss_of)


@pytest.mark.torch_compile(backend="inductor")
@pytest.mark.parametrize("place", ["around", "inside"])
def test_linear_in_inductor(compile_check, compile_device, autocast, place):
    model, given = torch.nn.Linear(8, 8), call(torch.randn(4, 8))
    if place == "inside":
        model = CastsPositional(model, compile_device.type)
    else:
        given = given.under(autocast)

    compile_check(model, calls=[given], train=True)


class CastsPositional(CastsInside):
    def forward(self, x):
        return super().forward(input=x)
