"""Advice against graph breaks: the line that breaks, written in another way, is run before anything is said of it."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
import time

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from pytest_torch_compile import CompileCheckFailed, check_compile  # noqa: E402
from pytest_torch_compile.diagnose import rewrites  # noqa: E402
from pytest_torch_compile.observation import Location  # noqa: E402

log = logging.getLogger(__name__)
history = []


def advice(target, *args, **options):
    with pytest.raises(CompileCheckFailed) as failed:
        check_compile(target, *args, diagnose="full", **{"backend": "eager", **options})
    assert "graph-break" in {finding.kind for finding in failed.value.findings}
    return [line for line in failed.value.report.diagnosis if "tried" in line]


def prints(x):
    y = x.sin()
    print("mean", y.shape)
    return y.cos()


def logs(x):
    log.warning("called")
    return x.sin()


def refuses_nan(x):
    if torch.isnan(x).any():
        raise ValueError("not a number")
    return x + 1


def chooses_a_value(x):
    if x.sum() > 0:  # noqa: SIM108
        y = x * 2
    else:
        y = x * 3
    return y + 1


def changes_a_value(x):
    y = x.sin()
    if not y.sum() > 1e9:
        y *= 2
    return y


def returns_early(x):
    if x.sum() > 0 and x.mean() < 100:
        return x * 2
    return x - 1


def chooses_in_an_expression(x):
    return x.sin() if bool(x.any()) else x.cos()


def breaks_by_hand(x):
    x = x.sin()
    torch._dynamo.graph_break()
    return x.cos()


class Scaled(nn.Module):
    def forward(self, x):
        if x.abs().max() > 10:
            x = x / 10
        return x.sin()


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (prints, "remove `print('mean', y.shape)` (test_break_advice.py:"),
        (logs, "remove `log.warning('called')`"),
        (refuses_nan, "remove `if torch.isnan(x).any(): raise ValueError('not a number')`"),
        (chooses_a_value, "write `y = torch.where(x.sum() > 0, x * 2, x * 3)` in place of `if x.sum() > 0: "),
        (changes_a_value, "write `y = torch.where(torch.logical_not(y.sum() > 1000000000.0), y * 2, y)`"),
        (returns_early, "write `return torch.where(torch.logical_and(x.sum() > 0, x.mean() < 100), x * 2, x - 1)`"),
        (chooses_in_an_expression, "write `return torch.where(x.any(), x.sin(), x.cos())`"),
        (breaks_by_hand, "remove `torch._dynamo.graph_break()`"),
        (Scaled(), "write `x = torch.where(x.abs().max() > 10, x / 10, x)`"),
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_what_helps_is_named_with_the_result(target, words):
    (line,) = advice(target, torch.rand(3, 4))
    assert line.startswith("tried: ")
    assert words in line
    assert line.endswith(": 0 graph breaks instead of 1")


def appends(x):
    history.append(print("kept"))
    return x.sin()


def chooses_a_shape(x):
    if x.sum() > 0:  # noqa: SIM108
        y = x[:1]
    else:
        y = x[:2]
    return y + 1


def computes_with_the_host(x):
    return x * len(sys._getframe().f_code.co_name) + x.sum().tolist()


def loops_on_data(x):
    while x.sum() > 1:
        x = x / 2
    return x


def differs_in_type(x):
    if x.sum() < 0:
        return x.to(torch.float64)
    return x


@pytest.mark.parametrize(
    "target", [chooses_a_shape, computes_with_the_host, loops_on_data, differs_in_type], ids=lambda f: f.__name__
)
def test_what_does_not_help_is_not_named(target):
    assert advice(target, torch.rand(3, 4) + 1) == []


def test_breaks_are_taken_one_by_one_and_then_together():
    def both(x):
        y = prints(x)
        if y.sum() > 1e9:
            y = y * 2
        return y

    lines = advice(both, torch.rand(3, 4), backend="aot_eager")
    assert [line.rsplit(": ", 1)[1] for line in lines] == [
        "1 graph break instead of 2",
        "0 graph breaks instead of 2",
        "0 graph breaks instead of 2, and no other findings",
    ]
    assert lines[-1].startswith("tried: all of these changes together: ")


def test_the_function_is_as_it_was_afterwards(capsys):
    code = prints.__code__
    advice(prints, torch.rand(3, 4))
    assert prints.__code__ is code
    capsys.readouterr()
    prints(torch.rand(2))
    assert capsys.readouterr().out.startswith("mean")


def test_a_function_without_source_gets_no_advice():
    names = {}
    exec("def target(x):\n    print(x.shape)\n    return x.sin()\n", names)
    assert advice(names["target"], torch.rand(3)) == []


def test_closed_over_variables_stay_when_their_line_is_left_out():
    prefix = "mean"

    def target(x):
        print(prefix)
        return x.sin()

    (line,) = advice(target, torch.rand(3))
    assert "remove `print(prefix)`" in line


def test_a_line_that_nobody_can_parse_has_no_rewrites(tmp_path):
    broken = tmp_path / "broken.py"
    broken.write_text("def f(:\n")
    assert list(rewrites.rewrites(Location(str(broken), 1), [rewrites.left_out])) == []
    assert list(rewrites.rewrites(Location(str(tmp_path / "none.py"), 1), [rewrites.left_out])) == []


class Speaks(nn.Module):
    """Looks for its loss as transformers does."""

    loss_type = None

    @property
    def loss_function(self):
        if self.loss_type is None:
            print("no loss is named")
        return nn.functional.mse_loss

    def forward(self, x):
        return self.loss_function(x.sin(), x)


def test_naming_the_loss_function_comes_before_changes_of_code():
    line, *_ = advice(Speaks(), torch.rand(3, 4))
    assert line.startswith("tried: set model.loss_type = 'ForCausalLM': 0 graph breaks")


class Quiet(Speaks):
    """Has no loss named and does not mind: the break below is the backend's."""

    @property
    def loss_function(self):
        return nn.functional.mse_loss


def breaking_backend(graph, inputs):
    from torch._subclasses.fake_tensor import DataDependentOutputException

    raise DataDependentOutputException(torch.ops.aten._local_scalar_dense.default)


@pytest.mark.parametrize("kind", [Quiet, Speaks])
def test_a_break_that_the_backend_makes_is_not_credited_to_a_change_of_code(kind):
    lines = advice(kind(), torch.rand(3, 4), backend=breaking_backend)
    assert not [line for line in lines if "0 graph breaks" in line and kind is Quiet]


def seeds_itself(x):
    torch.manual_seed(0)
    print(x.shape)
    return x + torch.rand_like(x)


def test_a_line_that_seeds_the_random_state_is_not_left_out():
    lines = advice(seeds_itself, torch.rand(3))
    assert not [line for line in lines if "manual_seed" in line]


SCALE = 2.0
lock = threading.Lock()


class Timer(contextlib.AbstractContextManager):
    def __enter__(self):
        self.started = time.perf_counter()
        return self

    def __exit__(self, *_):
        self.seconds = time.perf_counter() - self.started


class Scaling(Timer):
    """Its body gives something else without it."""

    def __enter__(self):
        global SCALE
        SCALE = 3.0
        return super().__enter__()

    def __exit__(self, *_):
        global SCALE
        SCALE = 2.0


def timed(x):
    with Timer():
        y = x.sin()
    return y * SCALE


def locked(x):
    with lock:
        y = x.sin()
    return y * SCALE


def scaled_inside(x):
    with Scaling():
        y = x.sin() * SCALE
    return y.cos()


def asks_for_the_process(x):
    return x.sin() * (2 if os.getpid() else 3)


def waits_for_a_size(x):
    return x.sin() * (os.cpu_count() > 0) + len(os.fsencode(str(x.ndim)))


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (timed, "move `with Timer():` (test_break_advice.py:"),
        (locked, "move `with lock:` (test_break_advice.py:"),
        (asks_for_the_process, "move `os.getpid()` (test_break_advice.py:"),
    ],
)
def test_what_can_be_done_outside_is_named(target, words):
    lines = advice(target, torch.rand(3, 4))
    assert [line for line in lines if words in line and line.endswith(": 0 graph breaks instead of 1")]


def test_a_context_that_changes_the_result_is_not_moved_out():
    assert not [line for line in advice(scaled_inside, torch.rand(3, 4)) if "Scaling" in line]


def test_a_value_that_needs_a_variable_of_the_function_is_not_computed_outside():
    assert not [line for line in advice(waits_for_a_size, torch.rand(3, 4)) if "fsencode" in line and "compute" in line]


@torch.compiler.disable
def doubled(x):
    return x * 2


@torch.compiler.disable
def doubled_and_printed(x):
    print("doubled", x.shape)
    return x * 2


class Doubling(nn.Module):
    @torch.compiler.disable
    def doubled(self, x):
        return x * 2

    def forward(self, x):
        return self.doubled(x.sin()).cos()


class DoublingByAFunction(nn.Module):
    def forward(self, x):
        return doubled(x.sin()).cos()


@pytest.mark.parametrize(
    ("target", "name"),
    [(Doubling(), "Doubling.doubled"), (DoublingByAFunction(), "doubled")],
    ids=["method", "function"],
)
def test_a_disabled_function_that_can_be_traced_is_named(target, name):
    (line,) = advice(target, torch.rand(3, 4))
    assert f"remove torch.compiler.disable from {name}: 0 graph breaks instead of 1" in line
    assert doubled._torchdynamo_disable
    assert not hasattr(doubled, "_torchdynamo_inline")


def test_a_disabled_function_that_would_break_is_not_named():
    def target(x):
        return doubled_and_printed(x.sin()).cos()

    assert not [line for line in advice(target, torch.rand(3)) if "disable from" in line]
