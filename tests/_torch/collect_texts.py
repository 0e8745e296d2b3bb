"""Writes ``data/torch-X.Y.json``: the words with which this torch names failed guards and graph breaks.

Run once in an environment of each torch, from the root of the repository::

    python -m tests._torch.collect_texts

A text is stored as our parsers get it, without what differs from run to run: paths, addresses, ids of objects.
"""

from __future__ import annotations

import json
import logging
import re
import time
import warnings
from collections import OrderedDict, defaultdict
from contextlib import contextmanager
from enum import Enum
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode

from pytest_torch_compile import CompileCheckFailed, call, check_compile
from pytest_torch_compile._torch import breaks, guards
from tests._torch import test_guards

DATA = Path(__file__).parent / "data"
X = torch.ones(4)
BRANCH, SCALAR, PRINT = "data-dependent branch", "scalar from a tensor", "call to print or a logger"
EXPLICIT, DISABLED, SHAPE = "explicit graph break", "disabled function", "dynamic output shape"
SKIPPED, OTHER = "function that dynamo skips", "unsupported code"
SINGLETONS = {"ID-OF-TRUE": True, "ID-OF-FALSE": False, "ID-OF-NONE": None}
LOG = logging.getLogger(__name__)


@torch.compiler.disable
def disabled(x):
    return x + 1


class NotTraced(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        print("forward")
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


class WithGetattribute:
    def __getattribute__(self, name):
        return 2.0


class Context:
    def __enter__(self):
        print("enter")

    def __exit__(self, *_):
        return False


def branch(x):
    return x.sin() if x.sum() > 0 else x.cos()


def loop_while(x):
    while x.sum() < 100:
        x = x + 10
    return x


def truth(x):
    if x.any():
        return x + 1
    return x - 1


def bool_of(x):
    return x.sin() * (2 if bool(x.sum()) else 3)


def both(x):
    return x.sin() if x.sum() > 0 and x.amax() > 0 else x.cos()


def negated(x):
    return x.sin() if not x.any() else x.cos()


def assertion(x):
    x = x.sin()
    assert x.sum() > 0, f"sum {x.shape}"
    return x.cos()


def item(x):
    return x.sin() * x.sum().item()


def to_float(x):
    return x.sin() * float(x.sum())


def to_int(x):
    return x.sin() * int(x.sum())


def tolist(x):
    return x.sin() * x.tolist()[0]


def item_in_range(x):
    for _ in range(int(x[0].item())):
        x = x.sin()
    return x


def printed(x):
    x = x.sin()
    print("value", x)
    return x.cos()


def printed_in_helper(x):
    return printed(x.cos())


def warned(x):
    x = x.sin()
    warnings.warn("a warning", stacklevel=1)
    return x.cos()


def logged(x):
    x = x.sin()
    LOG.info("shape %s", x.shape)
    return x.cos()


def logged_by_the_root(x):
    x = x.sin()
    logging.info("shape %s", x.shape)
    return x.cos()


def explicit(x):
    x = x.sin()
    torch._dynamo.graph_break()
    return x.cos()


def calls_disabled(x):
    return disabled(x.sin()).cos()


def nonzero(x):
    return torch.nonzero(x.sin()).sum()


def masked(x):
    return x[x > 0].sin()


def unique(x):
    return torch.unique(x).sin()


def masked_select(x):
    return torch.masked_select(x, x > 0).sin()


def repeat_interleave(x):
    return torch.repeat_interleave(x, (x + 1).long()).sin()


def bincount(x):
    return torch.bincount(x.long()).float().sin()


def where_one_argument(x):
    return torch.where(x > 0)[0].sum()


def opens_a_file(x):
    x = x.sin()
    with open("/dev/null") as file:
        file.read()
    return x.cos()


def asks_the_time(x):
    x = x.sin()
    time.sleep(0)
    return x.cos()


def monotonic(x):
    x = x.sin()
    time.perf_counter()
    return x.cos()


def python_c_function(x):
    x = x.sin()
    sum(map(ord, json.dumps({"a": 1})))
    return x.cos()


def exec_code(x):
    x = x.sin()
    exec("y = 1")
    return x.cos()


def data_ptr(x):
    return x.sin() * (x.data_ptr() % 2)


def save(x):
    x = x.sin()
    torch.save(x, "/dev/null")
    return x.cos()


def backward_inside(x):
    y = (x.clone().requires_grad_() * 2).sum()
    y.backward()
    return x.sin()


def requires_grad_inside(x):
    y = x.sin()
    y.requires_grad_()
    return y * 2


def resizes(x):
    y = x.sin().clone()
    y.resize_(2)
    return y * 2


def random_in_place(x):
    return x.sin().random_(0, 3)


def typed_storage(x):
    return x.sin().storage().size() * x


def own_getattribute(x):
    return x.sin() * WithGetattribute().scale


def in_own_context(x):
    with Context():
        x = x.sin()
    return x.cos()


def own_function(x):
    return NotTraced.apply(x.clone().requires_grad_()).sin()


def raises_and_catches(x):
    try:
        x = x.sin()
        raise ValueError(x)
    except ValueError:
        print("caught")
        return x.cos()


def formatted(x):
    x = x.sin()
    str(x)
    return x.cos()


def sparse(x):
    return x.to_sparse().to_dense().sin()


def set_threads(x):
    x = x.sin()
    torch.set_num_threads(torch.get_num_threads())
    return x.cos()


def manual_seed(x):
    x = x.sin()
    torch.manual_seed(0)
    return x.cos()


def rng_state(x):
    x = x.sin()
    torch.set_rng_state(torch.get_rng_state())
    return x.cos()


BREAKS = {
    BRANCH: [branch, loop_while, truth, both, negated, assertion],
    SCALAR: [item, to_float, to_int, bool_of, tolist, item_in_range],
    PRINT: [
        printed,
        printed_in_helper,
        warned,
        logged,
        logged_by_the_root,
        own_function,
        in_own_context,
        raises_and_catches,
    ],
    EXPLICIT: [explicit],
    DISABLED: [calls_disabled],
    SHAPE: [nonzero, masked, unique, masked_select, repeat_interleave, bincount, where_one_argument],
    SKIPPED: [asks_the_time, monotonic, set_threads, manual_seed, rng_state, save],
    OTHER: [
        *(python_c_function, data_ptr, backward_inside, requires_grad_inside, resizes, random_in_place),
        *(own_getattribute, formatted, sparse, typed_storage, exec_code, opens_a_file),
    ],
}


class Other:
    scale = 2


class Kind(Enum):
    ONE = 1
    TWO = 2


class NoMode(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


@contextmanager
def default_dtype():
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


@contextmanager
def threads():
    before = torch.get_num_threads()
    torch.set_num_threads(before + 1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def has_key(x, names):
    return x.sin() if "a" in names else x.cos()


def sum_of(x, numbers):
    return x * sum(numbers)


def by_kind(x, kind):
    return x.sin() if kind is Kind.ONE else x.cos()


def has_scale(x, config):
    return x * config.scale if hasattr(config, "scale") else x


def is_config(x, config):
    return x.sin() if isinstance(config, test_guards.Config) else x.cos()


def sliced(x, part):
    return x[part].sin()


def optional_number(x, n):
    return x.sin() if n is None else x * n


def without_scale():
    return SimpleNamespace(other=1)


def inference_tensor():
    with torch.inference_mode():
        return torch.ones(4)


def marked():
    x = torch.ones(4)
    torch._dynamo.mark_dynamic(x, 0)
    return x


sine, applied = test_guards.sine, test_guards.applied
# Beside the cases of test_guards; which of them are recompiles, and with what guard, differs from torch to torch.
MORE_GUARDS: dict[str, tuple[Any, list[Any]]] = {
    "key in a dict": (has_key, [call(X, {"a": 1}), call(X, {"b": 1})]),
    "name in a list": (has_key, [call(X, ["a"]), call(X, ["b"])]),
    "name in a set": (has_key, [call(X, {"a"}), call(X, {"b"})]),
    "tuple length": (sum_of, [call(X, (1, 2)), call(X, (1, 2, 3))]),
    "tuple value": (sum_of, [call(X, (1, 2)), call(X, (1, 3))]),
    "range": (sum_of, [call(X, range(3)), call(X, range(4))]),
    "nan": (test_guards.scaled, [call(X, float("nan")), call(X, 2.0)]),
    "infinity": (test_guards.scaled, [call(X, float("inf")), call(X, 2.0)]),
    "None to a number": (optional_number, [call(X, None), call(X, 2)]),
    "number to None": (optional_number, [call(X, 2), call(X, None)]),
    "enum": (by_kind, [call(X, Kind.ONE), call(X, Kind.TWO)]),
    "parameter": (sine, [call(X), call(torch.nn.Parameter(torch.ones(4)))]),
    "default dtype": (sine, [call(X), call(X).under(default_dtype)]),
    "threads": (sine, [call(X), call(X).under(threads)]),
    "another module": (applied, [call(X, torch.nn.ReLU()), call(X, torch.nn.Tanh())]),
    "attribute gone": (has_scale, [call(X, test_guards.Config(2)), call(X, without_scale())]),
    "another class": (is_config, [call(X, test_guards.Config(2)), call(X, Other())]),
    "slice": (sliced, [call(X, slice(0, 2)), call(X, slice(0, 3))]),
    "meta device": (sine, [call(X), call(torch.ones(4, device="meta"))]),
    "inference tensor": (sine, [call(X), call(inference_tensor())]),
    "partial": (applied, [call(X, partial(torch.add, other=1)), call(X, partial(torch.add, other=2))]),
    "bound method": (applied, [call(X, torch.nn.ReLU().forward), call(X, torch.nn.Tanh().forward)]),
    "ordered dict": (test_guards.total, [call(OrderedDict(a=X)), call(OrderedDict(b=X))]),
    "defaultdict": (test_guards.total, [call(defaultdict(int, a=X)), call(defaultdict(int, a=X, b=X))]),
    "dynamic mark": (sine, [call(X), call(marked())]),
    "torch function mode": (sine, [call(X), call(X).under(NoMode)]),
    "numpy": (torch.as_tensor, [call(X.numpy()), call(X.double().numpy())]),
    "device argument": (lambda x, device: x.to(device).sin(), [call(X, torch.device("cpu")), call(X, "cpu")]),
    "string to None": (lambda x, name: x if name is None else x * len(name), [call(X, "ab"), call(X, None)]),
    "many sizes": (test_guards.repeated, [call(X, "a"), call(X, "bc"), call(X, "def")]),
}

# What a case breaks on beside what it is there for, or is called on one torch only.
ALSO = {
    "own_function": {OTHER},
    "in_own_context": {OTHER},
    "set_threads": {OTHER},
    "python_c_function": {SKIPPED},
    "typed_storage": {SKIPPED},
}


def guard_texts() -> dict[str, list[str]]:
    """What torch says of each case of test_guards, and the reasons of a second and third cache entry."""
    texts = {}
    cases = {name: (case[0], case[1], *case[4:]) for name, case in test_guards.CASES.items()} | MORE_GUARDS
    for name, (target, calls, *options) in cases.items():
        heard: list[str] = []
        with mock.patch.object(guards, "parse_guard", _hearing(guards.parse_guard, heard)):
            check(target, calls=calls, **(options[0] if options else {}))
        test_guards.MODE = "mean"
        texts[name] = unique_texts(heard)
    return texts


def break_texts() -> dict[str, list[str]]:
    texts = {}
    for target in (function for functions in BREAKS.values() for function in functions):
        heard: list[str] = []
        with (
            mock.patch.object(breaks, "parse_break", _hearing(breaks.parse_break, heard)),
            mock.patch.object(torch._dynamo.config, "verbose", False),
        ):
            check(target, calls=[call(X)])
        texts[target.__name__] = unique_texts(heard)
    return texts


def check(target: Any, **options: Any) -> None:
    budget = {"max_graph_breaks": 99, "max_recompiles": 99, "fullgraph": False}
    try:
        check_compile(target, backend="eager", diagnose="off", **budget, **options)
    except (CompileCheckFailed, ValueError) as failure:
        print(f"{target}: {str(failure).splitlines()[0]}")


def _hearing(parse: Any, heard: list[str]) -> Any:
    def parsed(text: str, *rest: Any) -> Any:
        heard.append(text)
        return parse(text, *rest)

    return parsed


def unique_texts(texts: list[str]) -> list[str]:
    return list(dict.fromkeys(map(stable, texts)))


def stable(text: str) -> str:
    """Of the stack only the user's line."""
    head, mark, stack = text.split("\nTraceback (most recent")[0].partition("User code traceback:\n")
    frames = re.findall(r"^  File .*\n    .*", stack, re.M)
    text = head + mark + "".join(f"{frame}\n" for frame in frames[-1:])
    for name, value in SINGLETONS.items():
        text = text.replace(str(id(value)), name)
    text = re.sub(r"[^\s'\"]*/(site-packages|tests/_torch|python3\.\d+)/", r"/env/lib/\1/", text)
    text = re.sub(r"0x[0-9a-f]{6,}", "0x7f0000000000", text)
    return re.sub(r"\b\d{12,}\b", "140000000000000", text)


if __name__ == "__main__":
    DATA.mkdir(exist_ok=True)
    minor = ".".join(torch.__version__.split(".")[:2])
    written = {"torch": torch.__version__.split("+")[0], "guards": guard_texts(), "breaks": break_texts()}
    (DATA / f"torch-{minor}.json").write_text(json.dumps(written, indent=1) + "\n")
