"""Targets that break the graph by code that dynamo leaves alone: marked, skipped, or not known to it."""

from __future__ import annotations

import contextlib
import copy
import os
import threading
import time
import zlib

import numpy as np
import torch
from torch import nn

from tests.diagnose.failing.breaks import X, logger, sine
from tests.diagnose.failing.record import Check, failing, since, target


@failing("graph-break", cause="explicit graph break", fixes={"graph_break": target(sine)})
def explicit():
    def breaking(x):
        y = x.sin()
        torch._dynamo.graph_break()
        return y * 2

    return Check(breaking, [(X,)])


@torch.compiler.disable
def disabled(x):
    return x * 2


@failing("graph-break", cause="disabled function", fixes={"disable": target(sine)})
def disabled_function():
    return Check(lambda x: disabled(x.sin()), [(X,)])


@failing("graph-break", cause="function that dynamo skips", fixes={"time": target(lambda x: (x.sin() * 2, True))})
def clock():
    def timed(x):
        started = time.time()
        return x.sin() * 2, started > 0

    return Check(timed, [(X,)])


SEVEN = zlib.crc32(b"a sum") % 7


@failing("graph-break", cause="function that dynamo skips", fixes={"crc32": target(lambda x: x.sin() * SEVEN)})
def c_extension():
    def checked(x):
        y = x.sin()
        return y * (zlib.crc32(b"a sum") % 7)

    return Check(checked, [(X,)])


@failing("graph-break", cause="unsupported code", innocent=True)
def numpy_function():
    def interpolated(x):
        y = np.interp(x.sin().numpy(), np.arange(3.0), np.arange(3.0))
        return torch.from_numpy(y) * 2

    return Check(interpolated, [(X,)])


@failing("graph-break", cause="unsupported code", innocent=True)
def reads_a_file():
    def reading(x):
        y = x.sin()
        with open(__file__) as file:
            line = file.readline()
        return y * len(line)

    return Check(reading, [(X,)])


@failing("graph-break", cause=("function that dynamo skips", "unsupported code"), innocent=True)
def deep_copy():
    def restored(x, state):
        (saved,) = copy.deepcopy(state)
        return x.sin() * saved

    return Check(restored, [(X, [torch.ones(4)])])


@failing("graph-break", cause=("function that dynamo skips", "unsupported code"), innocent=True)
def seeded():
    """Without the seed it is another function, even if each run of a check starts from that seed."""

    def noisy(x):
        torch.manual_seed(0)
        return x.sin() + torch.rand(4)

    return Check(noisy, [(X,)])


class Timer(contextlib.AbstractContextManager):
    def __enter__(self):
        self.started = time.perf_counter()
        return self

    def __exit__(self, *_):
        self.seconds = time.perf_counter() - self.started


@failing(
    "graph-break",
    cause=("function that dynamo skips", "unsupported code"),
    also=frozenset({"nothing-compiled"}),
    fixes={"with Timer": target(sine)},
)
def context_manager_with_a_clock():
    def timed(x):
        with Timer():
            y = x.sin()
        return y * 2

    return Check(timed, [(X,)])


@failing("graph-break", cause="unsupported code", innocent=True)
def backward_in_forward():
    def penalised(x):
        x = x.detach().requires_grad_()
        x.sin().sum().backward()
        return x.grad * 2

    return Check(penalised, [(X,)])


def pieces(x):
    try:
        yield x.sin()
        yield x.cos()
    finally:
        logger.debug("closed")


def silent_pieces(x):
    try:
        yield x.sin()
        yield x.cos()
    finally:
        pass


def total_of(parts):
    def total(x):
        return sum(parts(x))

    return total


def first_of(parts):
    def first(x):
        generator = parts(x)
        y = next(generator)
        generator.close()
        return y * 2

    return first


LOGS_AT_LAST = {
    "cause": "call to print or a logger",
    "also": frozenset({"nothing-compiled"}),
}


# Torch 2.6 cannot close a generator, and 2.8 skips the function without a word.
@failing(
    "graph-break",
    **LOGS_AT_LAST,
    fixes=since("2.11", {"logg": target(first_of(silent_pieces))}),
    torch="!=2.8.*",
)
def generator_that_is_left_early():
    return Check(first_of(pieces), [(X,)])


@failing("graph-break", **LOGS_AT_LAST, fixes={"logg": target(total_of(silent_pieces))})
def generator_with_finally():
    return Check(total_of(pieces), [(X,)])


lock = threading.Lock()


@failing(
    "graph-break", cause="unsupported code", also=frozenset({"nothing-compiled"}), fixes={"with lock": target(sine)}
)
def holds_a_lock():
    def locked(x):
        with lock:
            y = x.sin()
        return y * 2

    return Check(locked, [(X,)])


class Layer(nn.Module):
    @torch.compiler.disable
    def scale(self, x):
        return x * 2

    def forward(self, x):
        return self.scale(x.sin())


class TracedLayer(Layer):
    def scale(self, x):
        return x * 2


@failing("graph-break", cause="disabled function", fixes={"disable": target(TracedLayer())})
def disabled_method():
    return Check(Layer(), [(X,)])


@failing("graph-break", cause=("function that dynamo skips", "unsupported code"), fixes={"getpid": target(sine)})
def number_of_the_process():
    def scaled(x):
        y = x.sin()
        scale = 2 if os.getpid() else 3
        return y * scale

    return Check(scaled, [(X,)])
