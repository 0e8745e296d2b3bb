"""Every cause of a recompile is counted and named, in the same words on every torch."""

from __future__ import annotations

import contextlib
import dataclasses

import pytest

torch = pytest.importorskip("torch")

from pytest_torch_compile import CompileCheckFailed, call, check_compile  # noqa: E402
from pytest_torch_compile._torch.guards import classify, parse_guard, parse_recompile_reasons  # noqa: E402
from pytest_torch_compile.check.guard_advice import EXPLANATIONS  # noqa: E402

MODE = "mean"


def sine(x):
    return x.sin()


def scaled(x, n):
    return x * n


def repeated(x, name):
    return x * len(name)


def choose(x, flag):
    return x.sin() if flag else x.cos()


def masked(x, mask=None):
    return x.sin() if mask is None else x * mask


def total(xs):
    return sum(xs.values() if isinstance(xs, dict) else xs).sin()


def beside(x, xs):
    return x.sin() if not xs else x.cos()


def squared(x):
    return x @ x


def cast(x, dtype):
    return x.to(dtype).sin()


def applied(x, function):
    return function(x)


def configured(x, config):
    return x * config.scale


def reads_global(x):
    return x * len(MODE)


def two_sums(x, y):
    return x.sin().sum() + y.cos().sum()


def halves(x):
    return x.view(-1, 2).sin() if x.shape[0] % 2 == 0 else x.cos()


def change_global(target):
    global MODE
    MODE = "sum of all"


def closing(factor):
    def by_factor(x):
        return x * factor

    return by_factor


def counting():
    factor = 1

    def by_factor(x):
        return x * factor

    return by_factor


@dataclasses.dataclass
class Config:
    scale: int


def same(function):
    return function


def decorated(factor):
    @same
    def by_factor(x):
        return x * factor

    return by_factor


def beside_a_closure():
    factor = 1

    def other(x):
        return x * factor

    def by_argument(x, factor):
        return x * factor

    return by_argument if other else other


def of_a_config():
    config = Config(1)

    def by_config(x):
        return x * config.scale

    return by_config


def next_scale(target):
    target.__closure__[0].cell_contents.scale += 1


def made_in_inference_mode():
    with torch.inference_mode():
        return torch.ones(4)


def next_factor(target):
    target.__closure__[0].cell_contents += 1


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.act = "relu"
        self.steps = 0
        self.dropout = torch.nn.Dropout(0.0)

    def forward(self, x):
        return self.dropout(x.relu() if self.act == "relu" else x.sin())


class Counting(Model):
    def forward(self, x):
        self.steps += 1
        return x * self.steps


def autocast():
    return torch.autocast("cpu", torch.bfloat16)


@contextlib.contextmanager
def deterministic():
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


@contextlib.contextmanager
def other_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(before + 1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def double():
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


def of_autocast(x, autocast):
    return x * len(autocast)


def of_s0(x, s0):
    return x * s0


@dataclasses.dataclass
class Flags:
    requires_grad: bool


def by_flag(x, flags):
    return x.sin() if flags.requires_grad else x.cos()


def ones(*shape, **options):
    return torch.ones(*shape, **options)


X = ones(4)
DYNAMIC = {"dynamic": True}
CASES = {
    "int": (scaled, [call(X, 2), call(X, 3)], "python-number", "n"),
    "float": (scaled, [call(X, 2.5), call(X, 3.5)], "python-number", "n"),
    "bool": (choose, [call(X, True), call(X, False)], "python-bool", "flag"),
    "string": (repeated, [call(X, "a"), call(X, "bc")], "python-string", "name"),
    "dtype argument": (cast, [call(X, torch.float64), call(X, torch.float16)], "python-value", "dtype"),
    "config": (configured, [call(X, Config(1)), call(X, Config(2))], "python-number", "config.scale"),
    "list length": (total, [call([X, X + 1]), call([X, X + 1, X + 2])], "length", "xs"),
    "dict length": (total, [call({"a": X}), call({"a": X, "b": X + 1})], "length", "xs"),
    "dict keys": (total, [call({"a": X}), call({"b": X})], "length", "xs"),
    "empty dict": (beside, [call(X, {}), call(X, {"a": X})], "length", "xs"),
    "optional tensor": (masked, [call(X.clone(), mask=X), call(X)], "type", "mask"),
    "dtype": (sine, [call(X), call(X.double())], "dtype", "x"),
    "rank": (sine, [call(ones(3, 4)), call(ones(3))], "rank", "x"),
    "stride": (sine, [call(ones(3, 4)), call(ones(4, 3).t())], "stride", "x"),
    "memory format": (
        sine,
        [call(ones(2, 3, 4, 4)), call(ones(2, 3, 4, 4).to(memory_format=torch.channels_last))],
        "stride",
        "x",
    ),
    "requires_grad": (sine, [call(X), call(ones(4, requires_grad=True))], "requires-grad", "x"),
    "grad mode": (sine, [call(X), call(X).under(torch.no_grad)], "grad-mode", "grad_mode"),
    "inference mode alone": (
        sine,
        [call(X).under(torch.no_grad), call(X).under(torch.inference_mode)],
        "inference-mode",
        "x",
    ),
    "made in inference mode": (sine, [call(X), call(made_in_inference_mode())], "dispatch-keys", "x"),
    # Inference mode switches grad mode off, which is the guard that fails first.
    "inference mode": (sine, [call(X), call(X).under(torch.inference_mode)], "grad-mode", "grad_mode"),
    "autocast": (squared, [call(ones(3, 3)), call(ones(3, 3)).under(autocast)], "autocast", None),
    "deterministic": (sine, [call(X), call(X).under(deterministic)], "deterministic", "deterministic_algorithms"),
    "train and eval": (Model(), [call(X), call(X).before(lambda m: m.eval())], "train-or-eval", "self.dropout.training"),
    "module attribute": (Model(), [call(X), call(X).before(lambda m: setattr(m, "act", ""))], "python-string", "self.act"),
    "module counter": (Counting(), [call(X), call(X)], "python-number", "self.steps"),
    "global": (reads_global, [call(X), call(X).before(change_global)], "global", "global MODE"),
    "closure of the target": (counting(), [call(X), call(X).before(next_factor)], "closure", "factor"),
    "closure of a decorated function": (decorated(2), [call(X), call(X).before(next_factor)], "closure", "factor"),
    "argument named like a closed-over variable": (beside_a_closure(), [call(X, 2), call(X, 3)], "python-number", "factor"),
    "attribute of a closed-over object": (of_a_config(), [call(X), call(X).before(next_scale)], "python-number", None),
    "closure of an argument": (applied, [call(X, closing(1)), call(X, closing(2))], "closure", None),
    "new function": (applied, [call(X, torch.sin), call(X, torch.cos)], "new-object", "function"),
    "new lambda": (applied, [call(X, lambda x: x.sin()), call(X, lambda x: x.cos())], "new-object", "function"),
    "size": (sine, [call(ones(4)), call(ones(5))], "size", "x"),
    "divisibility": (halves, [call(ones(4)), call(ones(5))], "size", "x", DYNAMIC),
    "size 0": (sine, [call(ones(4)), call(ones(0))], "size-0-or-1", "x"),
    "size 1": (sine, [call(ones(4)), call(ones(1))], "size-0-or-1", "x"),
    "size 1 first": (sine, [call(ones(1)), call(ones(4))], "size-0-or-1", "x"),
    "size 1 in spite of dynamic": (sine, [call(ones(4)), call(ones(1))], "size-0-or-1", "x", DYNAMIC),
    "duck shaping of two arguments": (two_sums, [call(ones(8), ones(8)), call(ones(8), ones(9))], "duck-shape", "y", DYNAMIC),
    "duck shaping within one": (sine, [call(ones(8, 8)), call(ones(8, 9))], "duck-shape", "x", DYNAMIC),
}  # fmt: skip


# Each state of its own, and names that people give which read like a guard.
NAMED = {
    "threads": (sine, [call(X), call(X).under(other_threads)], "threads", "num_threads"),
    "default dtype": (sine, [call(X), call(X).under(double)], "default-dtype", "default_dtype"),
    "string like a symbol": (repeated, [call(X, "s0"), call(X, "s1000")], "python-string", "name"),
    "string like a state": (repeated, [call(X, "autocast"), call(X, "grad_mode")], "python-string", "name"),
    "argument named like a state": (of_autocast, [call(X, "a"), call(X, "bc")], "python-string", "autocast"),
    "argument named like a symbol": (of_s0, [call(X, 2.5), call(X, 3.5)], "python-number", "s0"),
    "attribute named like a state": (by_flag, [call(X, Flags(True)), call(X, Flags(False))], "python-bool", None),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _same_global():
    yield
    global MODE
    MODE = "mean"


@pytest.mark.parametrize("case", {**CASES, **NAMED})
def test_cause_is_counted_and_named(case):
    target, calls, cause, names, *options = {**CASES, **NAMED}[case]
    report = check_compile(target, calls=calls, backend="eager", max_recompiles=1, **(options[0] if options else {}))
    assert [(found.call, found.guards[0].cause) for found in report.recompiles] == [(2, cause)]
    assert names in (None, report.recompiles[0].guards[0].names)
    assert report.recompiles[0].guard


def test_budget_of_zero_names_cause_and_argument():
    with pytest.raises(CompileCheckFailed, match=r"1 recompile, 0 allowed") as failure:
        check_compile(scaled, calls=[call(X, 2), call(X, 3)], backend="eager")
    (finding,) = failure.value.findings
    assert finding.kind == "recompile"
    assert "n == 2" in finding.evidence
    assert EXPLANATIONS["python-number"] in finding.hint


def test_each_recompile_holds_the_guard_of_every_cache_entry():
    calls = [call(X, "a"), call(X, "bc"), call(X, "def")]
    report = check_compile(repeated, calls=calls, backend="eager", max_recompiles=2)
    assert [len(found.guards) for found in report.recompiles] == [1, 2]
    assert [guard.text for guard in report.recompiles[1].guards] == ["name == 'bc'", "name == 'a'"]


def test_flag_is_blamed_although_the_newest_graph_was_made_for_another_size():
    calls = [call(ones(4), "a"), call(ones(1), "a"), call(ones(4), "bc")]
    report = check_compile(repeated, calls=calls, backend="eager", max_recompiles=2)
    assert report.recompiles[1].guards[0].cause == "python-string"


def test_recompile_limit_is_named():
    calls = [call(X, f"name{i}" * (i + 1)) for i in range(10)]
    with pytest.raises(CompileCheckFailed, match="call 9: repeated hit the recompile limit of 8") as failure:
        check_compile(repeated, calls=calls, backend="eager", fullgraph=False, max_recompiles=20)
    assert [finding.kind for finding in failure.value.findings] == ["eager-fallback"]
    assert "name ==" in failure.value.findings[0].evidence


def test_recompile_limit_is_named_under_fullgraph():
    calls = [call(X, f"name{i}" * (i + 1)) for i in range(10)]
    with pytest.raises(CompileCheckFailed, match="recompile limit of 8") as failure:
        check_compile(repeated, calls=calls, backend="eager", fullgraph=True, max_recompiles=20)
    assert {finding.kind for finding in failure.value.findings} == {"eager-fallback"}


def test_new_code_object_for_one_line_is_a_recompile():
    def fresh(x):
        scope = {}
        exec("def inner(x):\n    return x.sin()\n", scope)
        return torch.compile(scope["inner"], backend="eager")(x)

    report = check_compile(fresh, calls=[call(X), call(X)], compile=lambda target: target, max_recompiles=1)
    # torch 2.6 compiles such code through a helper of its own, where it fails a guard on the function.
    assert [found.guards[0].cause in ("new-code", "new-object") for found in report.recompiles] == [True]


def test_every_cause_has_an_explanation():
    causes = {case[2] for case in (*CASES.values(), *NAMED.values())} | {"new-code", "other"}
    assert causes <= EXPLANATIONS.keys()


@pytest.mark.parametrize(
    ("reason", "cause", "names"),
    [
        ("0/0: L['n'] == 2                                     # return x * n  # t.py:3 in f", "python-number", "n"),
        ("0/1: n == 2  # return x * n  # t.py:3 in f", "python-number", "n"),
        ("0/0: tensor 'L['x']' size mismatch at index 0. expected 4, actual 5", "size", "x"),
        ("0/0: 2 <= L['x'].size()[0] <= 6", "size", "x"),
        ("0/0: 2 <= L['x'].size()[0]", "size-0-or-1", "x"),
        ("0/0: ___check_obj_id(L['self']._modules['act'], 94)", "new-object", "self.act"),
        ("0/0: Cache line invalidated because L['self'].noise got deallocated", "new-object", "self.noise"),
        pytest.param(f"0/0: ___check_obj_id(L['flag'], {id(True)})", "python-bool", "flag", id="id of True"),
        ("0/0: G['MODE'] == 'mean'", "global", "global MODE"),
        ("0/0: L['name'] == 's0'", "python-string", "name"),
        ("0/0: name == 's0'", "python-string", "name"),
        ("0/0: L['mode'] == 'requires_grad mismatch'", "python-string", "mode"),
        ("0/0: L['config']['autocast'] == 'on'", "python-string", None),
        ("0/0: ___dict_contains('autocast', options)", "length", "options"),
        ("0/0: not ___dict_contains('step', self.__dict__)", "attribute", None),
        ("0/0: (q.size()[0] / 8) == 2.625", "constant-size", "q"),
        ("0/0: (q.size()[0] // 8) == 2", "size", "q"),
        ("0/0: q.size()[0] == 16", "size", "q"),
        ("0/0: not L['self'].state   # state = self.state  # t.py:3 in f", "length", "self.state"),
        ("0/0: not args[0].state", "length", "args[0].state"),
        ("0/0: not L['n'] == 2", "python-number", "n"),
        ("0/0: tensor 'L['ndim']' dtype mismatch. expected Float, actual Double", "dtype", "ndim"),
        ("0/0: Eq(s0, 4)", "size", None),
        ("0/0: L['x'].size()[0]*s1 < 2147483648", "size", None),
        ("0/0: self._modules['dropout'].training == True", "train-or-eval", "self.dropout.training"),
        ("0/0: GLOBAL_STATE changed: num_threads ", "threads", "num_threads"),
        ("0/0: something that no version of torch says", "other", None),
    ],
)
def test_guard_text_of_any_version_is_read(reason, cause, names):
    guard = parse_guard(reason)
    assert guard.cause == cause
    assert names in (None, guard.names)
    assert "L[" not in guard.text
    assert "#" not in guard.text


@pytest.mark.parametrize("payload", ['["0/1: a", "0/0: b"]', "['0/1: a', '0/0: b']"])
def test_list_of_reasons_is_read_in_both_notations(payload):
    assert parse_recompile_reasons(payload) == ["0/1: a", "0/0: b"]


def test_single_reason_is_read():
    assert parse_recompile_reasons("0/0: a") == ["0/0: a"]


@pytest.mark.parametrize("text", ["type(n) is <class 'int'>", "type(config) is <class 'm.C'>", "type(x) is the same"])
def test_guard_on_a_class_is_no_guard_on_an_object(text):
    assert classify(text) == "type"
