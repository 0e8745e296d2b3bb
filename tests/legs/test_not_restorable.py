"""Objects with state that no leg can restore: results that depend on them are not green, others are."""

from __future__ import annotations

import queue
import socket
import threading

import pytest

torch = pytest.importorskip("torch")

from pytest_torch_compile import (  # noqa: E402
    CompileCheckFailed,
    CompileCheckWarning,
    Tolerances,
    call,
    check_compile,
    factory,
)

X = torch.ones(3)
OPTIONS = {"backend": "eager", "fullgraph": False, "max_graph_breaks": 99, "max_recompiles": 9}


class FromSocket(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.source, self.sender = socket.socketpair()
        self.sender.sendall(bytes(range(1, 200)))

    def forward(self, x):
        return x * self.source.recv(1)[0]


class FromQueue(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.queue = queue.Queue()
        for number in range(1, 50):
            self.queue.put(number)

    def forward(self, x):
        return x * self.queue.get()


class FirstCall(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()

    def forward(self, x):
        return x * (2 if self.lock.acquire(blocking=False) else 3)


class CountsDown(torch.nn.Module):
    def __init__(self, start=3):
        super().__init__()
        self.free = threading.Semaphore(start)

    def forward(self, x):
        self.free.acquire(blocking=False)
        return x * self.free._value


class Signals(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.done = threading.Event()

    def forward(self, x):
        y = x * (2 if self.done.is_set() else 3)
        self.done.set()
        return y


@pytest.fixture(params=[FromSocket, FromQueue, FirstCall, CountsDown, Signals])
def make(request):
    made = []
    yield lambda: made.append(request.param()) or made[-1]
    for module in made:
        for end in (getattr(module, "source", None), getattr(module, "sender", None)):
            if end is not None:
                end.close()


NOT_OBSERVABLE = {
    FromSocket: "attribute source (socket)",
    FromQueue: "attribute queue (Queue)",
    FirstCall: "attribute lock (lock)",
    CountsDown: "attribute free (Semaphore)",
    Signals: "attribute done (Event)",
}


@pytest.mark.filterwarnings("ignore::pytest_torch_compile.CompileCheckWarning")
def test_result_that_depends_on_one_is_not_green_and_the_object_is_named(make):
    with pytest.raises(CompileCheckFailed) as failed:
        check_compile(target := make(), X, **OPTIONS)
    (finding,) = failed.value.findings
    assert finding.kind == "not-observable"
    assert NOT_OBSERVABLE[type(target)] in finding.evidence
    assert "output could not be compared" in finding.message


def test_target_made_for_each_leg_passes(make):
    assert not check_compile(factory(make), X, **OPTIONS).numerics.not_compared


def test_result_that_is_left_out_by_name_is_no_finding(make):
    check_compile(make(), X, tolerances=Tolerances(ignored=["output"]), **OPTIONS)


@pytest.mark.filterwarnings("ignore::pytest_torch_compile.CompileCheckWarning")
def test_one_that_is_an_argument_is_named():
    source, sender = socket.socketpair()
    with source, sender, pytest.raises(CompileCheckFailed) as failed:
        sender.sendall(bytes(range(1, 200)))
        check_compile(lambda x, source: x * source.recv(1)[0], calls=[call(X, source=source)], **OPTIONS)
    assert "argument source (socket)" in failed.value.findings[0].evidence


class Guarded(torch.nn.Module):
    """Holds such objects, and its result does not depend on their state."""

    def __init__(self):
        super().__init__()
        self.lock, self.queue, self.done = threading.Lock(), queue.Queue(), threading.Event()

    def forward(self, x):
        return x.sin()


def test_target_that_only_holds_them_passes():
    check_compile(Guarded(), X, **OPTIONS)


def test_unrepeatable_result_without_such_an_object_is_a_warning():
    with pytest.warns(CompileCheckWarning, match="output could not be compared"):
        check_compile(lambda x: x * torch.empty(3).random_(generator=Fresh()), X, **OPTIONS)


def Fresh():
    generator = torch.Generator()
    generator.seed()
    return generator


@pytest.mark.filterwarnings("ignore::pytest_torch_compile.CompileCheckWarning")
@pytest.mark.parametrize("start", [3, 4, 300], ids=["reference is zero", "reference is small", "less than a percent"])
def test_reference_that_comes_from_another_state_excuses_no_error(start):
    with pytest.raises(CompileCheckFailed, match="attribute free"):
        check_compile(CountsDown(start), X, **OPTIONS)


def test_unstable_sums_stay_compared():
    """Eager is far from float64 here, and repeats itself."""
    x = torch.tensor([1.0, 1e8, -1e8, 1e-3])
    report = check_compile(lambda x: torch.stack([x.sum(), x.flip(0).sum()]), x, backend="eager")
    assert not report.numerics.not_compared
