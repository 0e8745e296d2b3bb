"""A device that is first used in the middle of a check: its random stream starts the same in every leg.

Without a GPU, a second generator on the CPU plays the part of ``cuda:0``: it sleeps until something wakes it, and takes
the last seed that it was given in its sleep.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from pytest_torch_compile import CompileCheckFailed, call, check_compile  # noqa: E402
from pytest_torch_compile._torch import sandbox  # noqa: E402

X = torch.ones(4)


class Sleeper:
    def __init__(self):
        self.generator = torch.Generator("cpu")
        self.awake = False
        self.seed = torch.initial_seed()

    def seed_all(self, seed):
        self.seed = seed
        if self.awake:
            self.generator.manual_seed(seed)

    def draw(self, size=4):
        if not self.awake:
            self.generator.manual_seed(self.seed)
            self.awake = True
        return torch.rand(size, generator=self.generator)


DEVICE = Sleeper()


@pytest.fixture(autouse=True)
def sleeper(monkeypatch):
    DEVICE.__init__()
    monkeypatch.setattr(torch.cuda, "manual_seed_all", DEVICE.seed_all)
    # As part of torch, the device is not state of the code under test, which a check would restore.
    monkeypatch.setattr(torch.cuda, "sleeper", DEVICE, raising=False)
    monkeypatch.setattr(sandbox, "accelerator", lambda: SimpleNamespace(manual_seed_all=DEVICE.seed_all))

    def generators():
        return {"cpu": torch.default_generator, **({"cuda:0": DEVICE.generator} if DEVICE.awake else {})}

    monkeypatch.setattr(sandbox, "generators", generators)
    return DEVICE


class Noisy(torch.nn.Module):
    """Its noise comes from the device, drawn before the call so that nothing breaks the graph."""

    def __init__(self):
        super().__init__()
        self.register_buffer("noise", torch.zeros(4))

    def forward(self, x):
        return x.sin() * self.noise


def draws(model):
    model.noise = torch.cuda.sleeper.draw()


def wakes(model):
    torch.cuda.sleeper.draw(0)


@pytest.mark.parametrize("awake", [False, True])
@pytest.mark.parametrize(
    "actions",
    [(draws,), (draws, draws), (None, draws), (None, draws, draws), (wakes, draws), (draws, None, draws)],
    ids=lambda actions: "-".join(action.__name__ if action else "idle" for action in actions),
)
def test_noise_of_a_device_that_wakes_up_is_the_same_in_both_legs(awake, actions):
    if awake:
        DEVICE.draw()
    calls = [call(X) if action is None else call(X).before(action) for action in actions]
    assert check_compile(Noisy(), calls=calls, backend="eager").ok


def test_wrong_result_is_still_found():
    def doubled(gm, inputs):
        return lambda *args: tuple(2 * o for o in gm(*args))

    with pytest.raises(CompileCheckFailed) as failure:
        check_compile(Noisy(), calls=[call(X).before(draws)] * 2, backend=doubled)
    assert {finding.kind for finding in failure.value.findings} == {"numerics"}


def test_callers_stream_is_the_one_of_the_callers_seed():
    for before in (lambda: None, lambda: torch.manual_seed(42), lambda: (torch.manual_seed(42), DEVICE.draw())):
        for attempt in (None, lambda: check_compile(Noisy(), calls=[call(X).before(draws)], backend="eager"),
                        lambda: check_compile(Noisy(), X, backend="eager")):  # fmt: skip
            torch.default_generator.manual_seed(7)
            DEVICE.__init__()
            before()
            if attempt is None:
                expected = DEVICE.draw()
            else:
                attempt()
                assert torch.equal(DEVICE.draw(), expected)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_cuda_that_wakes_up_in_a_check(backend):
    source = f"""
        import torch
        from pytest_torch_compile import call, check_compile

        def noisy(x, far):
            return x * torch.rand(4, device="cuda").cpu() if far else x.sin()

        torch.manual_seed(42)
        assert not torch.cuda.is_initialized()
        check_compile(noisy, calls=[call(torch.ones(4), False), call(torch.ones(4), True)], backend="{backend}",
                      max_recompiles=1)
        assert torch.cuda.is_initialized()
        mine = torch.rand(4, device="cuda")
        torch.manual_seed(42)
        assert torch.equal(mine, torch.rand(4, device="cuda"))
    """
    command = [sys.executable, "-c", textwrap.dedent(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
