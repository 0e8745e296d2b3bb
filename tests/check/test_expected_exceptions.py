"""Calls that are meant to raise: what passes, what is found, and what follows after them."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch._dynamo.backends.common import aot_autograd  # noqa: E402

from pytest_torch_compile import CompileCheckFailed, CompileUsageError, call, check_compile  # noqa: E402

VERSION = tuple(map(int, torch.__version__.split("+")[0].split(".")[:2]))
EAGER = {"backend": "eager"}


class Missing(KeyError):
    """An exception of the user's own."""


def checked(x, n=0):
    y = x.sin()
    if n > 3:
        raise ValueError("n is too large")
    return y + n


def looked_up(x, table):
    if "a" not in table:
        raise Missing("a")
    return x + table["a"]


def deep(x, n=0):
    return x * positive(n)


def positive(n):
    if n < 0:
        raise ValueError("negative")
    return n + 1


def shaped(x, y):
    return x.sin() @ y


def asserted(x):
    assert x.shape[0] == 3, "three rows"
    return x.sin()


def gathered(x, i):
    return x.sin()[i]


def at_seven(x):
    return x.sin()[7]


def translating(target):
    """A wrapper that raises another exception."""
    compiled = torch.compile(target, backend="eager")

    def run(*args, **kwargs):
        try:
            return compiled(*args, **kwargs)
        except ValueError as error:
            raise KeyError("translated") from error

    return run


def unguarded(x):
    """Does not raise where it is compiled."""
    if x.shape[0] > 3 and not torch.compiler.is_compiling():
        raise ValueError("too many rows")
    return x.sin()


def wrong(x, i):
    return (x.cos() if torch.compiler.is_compiling() else x.sin())[i]


def breaking(x):
    x = x.sin()
    torch._dynamo.graph_break()
    if x.shape[0] > 3:
        raise ValueError("too many rows")
    return x.cos()


def index(*values):
    return torch.tensor(values)


def rows(n):
    return torch.ones(n, 2)


INNOCENTS = {
    "raise": (checked, [call(rows(2)), call(rows(2), n=5).raises(ValueError)], {"max_recompiles": 1}),
    "raise alone": (checked, [call(rows(2), n=5).raises(ValueError)], {}),
    "own exception": (looked_up, [call(rows(2), {}).raises(Missing)], {}),
    "a class above": (looked_up, [call(rows(2), {}).raises(KeyError)], {}),
    "in a helper": (deep, [call(rows(2)), call(rows(2), n=-1).raises(ValueError)], {"max_recompiles": 1}),
    "shapes that do not fit": (shaped, [call(rows(2), rows(4)).raises(RuntimeError)], {}),
    "assert": (asserted, [call(rows(3)), call(rows(2)).raises(AssertionError)], {"max_recompiles": 1}),
    "index": (gathered, [call(rows(2), index(9)).raises(IndexError), call(rows(2), index(1))], {}),
    "one of two": (at_seven, [call(rows(2)).raises(IndexError, RuntimeError)], {}),
    "train": (
        checked, [call(rows(2).requires_grad_()), call(rows(2).requires_grad_(), n=5).raises(ValueError)],
        {"max_recompiles": 1, "train": True},
    ),
    "a module": (torch.nn.Linear(2, 2), [call(rows(3)), call(torch.ones(3, 5)).raises(RuntimeError)], {}),
    "before and under": (
        torch.nn.Linear(2, 2),
        [call(torch.ones(3, 5)).under(torch.no_grad).before(lambda m: m.eval()).raises(RuntimeError), call(rows(3))],
        {"max_recompiles": 1},
    ),
}  # fmt: skip
PLANTED = {
    "returns": (unguarded, [call(rows(5)).raises(ValueError)], {}, "eager raises ValueError, but compiled code returns"),
    "another": (
        checked, [call(rows(2), n=5).raises(ValueError)], {"compile": translating, "backend": None},
        "eager raises ValueError, but compiled code raises KeyError",
    ),
    "fullgraph": (
        checked, [call(rows(2), n=5).raises(ValueError)], {"fullgraph": True},
        "eager raises ValueError, but compiled code raises Unsupported",
    ),
    "in the second of three": (
        unguarded, [call(rows(2)), call(rows(5)).raises(ValueError), call(rows(2))], {"max_recompiles": 1},
        "call 2: eager raises ValueError, but compiled code returns",
    ),
    "index inductor names otherwise": (
        gathered, [call(rows(2), index(9)).raises(IndexError)], {"backend": "inductor"},
        "eager raises IndexError, but compiled code raises RuntimeError",
    ),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _nothing_compiled():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("case", INNOCENTS)
def test_same_exception_passes_and_the_sequence_goes_on(case):
    target, calls, options = INNOCENTS[case]
    report = check_compile(target, calls=calls, **EAGER, **options)
    outcomes = [row.outcome for row in report.calls]
    assert [outcome == "raised" for outcome in outcomes] == [bool(one.exceptions) for one in calls]
    assert "exceptions" not in str(report)


@pytest.mark.parametrize("case", PLANTED)
def test_other_outcome_is_found(case):
    target, calls, options, text = PLANTED[case]
    with pytest.raises(CompileCheckFailed, match=text) as failure:
        check_compile(target, calls=calls, **{**EAGER, **options})
    assert [finding.kind for finding in failure.value.findings] == ["exception"]


def test_index_out_of_range_at_a_constant():
    calls = [call(rows(2)).raises(IndexError)]
    if VERSION >= (2, 13):
        assert check_compile(at_seven, calls=calls, **EAGER).ok
        return
    with pytest.raises(CompileCheckFailed, match="eager raises IndexError, but compiled code raises TorchRuntimeError"):
        check_compile(at_seven, calls=calls, **EAGER)


def test_compilation_that_fails_where_eager_raises_is_found():
    def refusing(module, inputs):
        raise ValueError("this backend compiles nothing")

    with pytest.raises(CompileCheckFailed, match="eager raises IndexError, but compiled code raises") as failure:
        check_compile(gathered, calls=[call(rows(2), index(9)).raises(IndexError)], backend=refusing)
    assert [finding.kind for finding in failure.value.findings] == ["exception"]


def test_what_is_wrong_after_the_exception_is_found():
    calls = [call(rows(2), index(1)), call(rows(2), index(9)).raises(IndexError), call(rows(2), index(0))]
    with pytest.raises(CompileCheckFailed) as failure:
        check_compile(wrong, calls=calls, **EAGER)
    (finding,) = failure.value.findings
    assert finding.kind == "numerics" and finding.calls == (1, 3)


@pytest.mark.parametrize("target", [checked, deep])
def test_function_that_runs_in_eager_after_it_raised_is_found(target):
    bad = call(rows(2), n=5 if target is checked else -1).raises(ValueError)
    with pytest.raises(CompileCheckFailed, match="raised an exception while torch traced it") as failure:
        check_compile(target, calls=[call(rows(2)), bad, call(rows(2))], max_recompiles=1, **EAGER)
    (finding,) = failure.value.findings
    assert finding.kind == "eager-fallback" and finding.calls == (2,)
    # torch before 2.11 names the line that calls the helper, newer torch the one that raises
    assert finding.location.source.startswith(("raise ValueError", "return x * positive"))
    accepted = [finding.evidence.split()[-1]]
    torch._dynamo.reset()
    calls = [call(rows(2)), bad, call(rows(2))]
    assert check_compile(target, calls=calls, max_recompiles=1, accepted_breaks=accepted, **EAGER).ok


def test_break_before_the_exception_counts():
    with pytest.raises(CompileCheckFailed, match="graph break 1 of 1") as failure:
        check_compile(breaking, calls=[call(rows(5)).raises(ValueError)], **EAGER)
    assert failure.value.findings[0].location.source == "torch._dynamo.graph_break()"
    assert {finding.kind for finding in failure.value.findings} == {"graph-break"}


@pytest.mark.parametrize(
    ("item", "text"),
    [
        (call(rows(2)).raises(ValueError), "call 1 is expected to raise ValueError, but eager returns"),
        (
            call(rows(2), n=5).raises(KeyError, TypeError),
            "KeyError or TypeError, but eager raises ValueError: n is too",
        ),
    ],
)
def test_eager_that_does_not_raise_it_is_a_mistake_of_the_test(item, text):
    with pytest.raises(CompileUsageError, match=text):
        check_compile(checked, calls=[item], **EAGER)


def test_exception_that_nobody_expects_is_still_a_mistake_of_the_test():
    with pytest.raises(
        CompileUsageError, match=r"call 1 raises an exception in eager, before torch.compile is involved"
    ):
        check_compile(checked, calls=[call(rows(2), n=5)], **EAGER)


@pytest.mark.parametrize("wrong", [(), ("IndexError",), (ValueError("x"),), (KeyboardInterrupt,), (3,)])
def test_what_is_no_exception_is_refused(wrong):
    with pytest.raises(CompileUsageError, match=r"raises\(\) expects exception classes"):
        call(rows(2)).raises(*wrong)


class Counting(torch.nn.Module):
    def __init__(self, wrong=False):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))
        self.wrong = wrong

    def forward(self, x, i):
        y = x[i].sin()
        self.calls.add_(2 if self.wrong and torch.compiler.is_compiling() else 1)
        return y


class CountingFirst(Counting):
    def forward(self, x, i):
        self.calls.add_(1)
        return x[i].sin()


@pytest.mark.parametrize("wrong", [False, True])
def test_writes_before_an_exception_are_compared(wrong):
    bad = call(torch.ones(4), torch.tensor([9])).raises(IndexError)
    check_compile(Counting(), bad, backend="aot_eager")
    model = Counting(wrong=True) if wrong else CountingFirst()
    with pytest.raises(CompileCheckFailed) as caught:
        check_compile(model, calls=[call(torch.ones(4), torch.tensor([1])), bad], backend="aot_eager", max_recompiles=1)
    found = [finding for finding in caught.value.findings if finding.kind == "mutation"]
    assert [(finding.subject, finding.calls) for finding in found] == [
        ("buffer calls", (number,)) for number in ((1, 2) if wrong else (2,))
    ]


@torch.compiler.disable
def looked_up_in_table(x):
    return x.sin()


def rows_of_table(x, i, flag):
    if flag:
        return looked_up_in_table(x)[i]
    return x.cos()


def test_disabled_function_on_the_line_that_raises_is_a_graph_break():
    calls = [call(rows(2), index(0), False), call(rows(2), index(9), True).raises(IndexError)]
    with pytest.raises(CompileCheckFailed) as failure:
        check_compile(rows_of_table, calls=calls, max_recompiles=1, **EAGER)
    (finding,) = failure.value.findings
    assert finding.kind == "graph-break" and "disabled function" in finding.message


def test_swallowed_compile_error_of_a_call_that_raises_is_found():
    def refusing(module, inputs):
        raise ValueError("this backend compiles nothing")

    calls = [call(rows(2), index(9)).raises(IndexError), call(rows(2), index(0))]
    with torch._dynamo.config.patch(suppress_errors=True), pytest.raises(CompileCheckFailed) as failure:
        check_compile(gathered, calls=calls, backend=refusing)
    assert "eager-fallback" in [finding.kind for finding in failure.value.findings]


@pytest.mark.parametrize("case", ["shapes that do not fit", "a module"])
def test_exception_passes_where_torch_swallows_compile_errors(case):
    target, calls, options = INNOCENTS[case]
    with torch._dynamo.config.patch(suppress_errors=True):
        assert check_compile(target, calls=calls, **EAGER, **options).ok


class RaisesInBackward(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))
        self.weight.register_hook(self.refuse)

    def forward(self, x):
        return (self.weight * x).sin()

    @staticmethod
    def refuse(grad):
        raise RuntimeError("no gradient for this weight")


def compiles_no_backward(graph, inputs):
    def fail(graph, inputs):
        raise RuntimeError("not supported")

    compiler = aot_autograd(fw_compiler=lambda graph, inputs: graph, bw_compiler=fail)
    return compiler(graph, inputs)


def test_exception_of_the_backward_passes():
    calls = [call(torch.ones(3)).raises(RuntimeError)]
    assert check_compile(RaisesInBackward(), calls=calls, train=True, backend="aot_eager").ok


def test_compilation_of_the_backward_that_fails_where_eager_raises_is_found():
    calls = [call(torch.ones(3)).raises(RuntimeError)]
    with pytest.raises(CompileCheckFailed, match="the compilation of forward raised RuntimeError") as failed:
        check_compile(RaisesInBackward(), calls=calls, train=True, backend=compiles_no_backward)
    assert [finding.kind for finding in failed.value.findings] == ["compile-error"]
