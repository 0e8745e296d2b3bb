"""What a finding tells its reader to do fits its cause, and never repeats the fault."""

from __future__ import annotations

import re

import pytest

torch = pytest.importorskip("torch")

from pytest_torch_compile import CompileCheckFailed, advice, call, check_compile  # noqa: E402
from pytest_torch_compile._torch.error_text import error_summary  # noqa: E402
from pytest_torch_compile.budget import Budget  # noqa: E402
from pytest_torch_compile.check.break_findings import explanation  # noqa: E402
from pytest_torch_compile.check.describe import target_name  # noqa: E402
from pytest_torch_compile.check.guard_advice import EXPLANATIONS  # noqa: E402
from pytest_torch_compile.check.judge import Conditions, judge  # noqa: E402
from pytest_torch_compile.check.leg_errors import error_findings  # noqa: E402
from pytest_torch_compile.observation import GraphBreak, Location, Observation  # noqa: E402


def found_in(target, *args, **options):
    with pytest.raises(CompileCheckFailed) as failed:
        check_compile(target, *args, **{"backend": "eager", **options})
    return failed.value


def only(failed, kind):
    (finding,) = [found for found in failed.findings if found.kind == kind]
    return finding


# A dimension that is marked dynamic


def fixes_its_size(x):
    return x.sin() if x.size(0) == 3 else x.cos()


@pytest.mark.parametrize("fullgraph", [True, False])
def test_size_that_the_code_fixes_is_told_in_torchs_own_sentence(fullgraph):
    failed = found_in(
        fixes_its_size, torch.ones(3), dynamic_dims={"x": 0}, backend="aot_eager", fullgraph=fullgraph, diagnose="auto"
    )
    finding = only(failed, "compile-error")
    assert "x.size()[0]" in finding.evidence and "constant (3)" in finding.evidence
    assert finding.hint.startswith("torch specializes this dimension to 3")
    assert "do not mark the dimension as dynamic" in finding.hint
    assert failed.report.diagnosis == []


def test_sizes_that_the_code_ties_are_no_constant():
    error = type("ConstraintViolationError", (RuntimeError,), {})(
        "Constraints violated (L['x'].size()[0])!\n  - Not all values of L['x'].size()[0] = L['x'].size()[0] in the "
        "specified range satisfy the generated guard 4 <= L['x'].size()[0].\n\nUser stack: ..."
    )
    (finding,) = error_findings(error)
    assert "satisfy the generated guard 4 <= x.size()[0]." in finding.evidence
    assert finding.hint.startswith("the code requires this size to equal another size or to lie in a range")


def test_error_of_a_backend_is_told_apart_from_errors_of_torchs_stages():
    def broken(x):
        return x.sin()

    failed = found_in(broken, torch.ones(3), backend=refuses)
    assert failed.findings[0].hint.endswith("look for the cause in the backend")


def refuses(graph, inputs):
    raise ValueError("no kernel")


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        ("only this", "E: only this"),
        ("announced:\nand said\nmore", "E: announced:\nand said"),
        ("Constraints violated!\n  - first\n  - second\n\nlong story", "E: Constraints violated!\n- first\n- second"),
        ("said\n\nlong story\n- a point of it", "E: said"),
        ("", "E"),
        (
            "at 60:4:\ndef kernel(\n    x,\n):\n    h = tl.zeros([B], tl.float32)\n    ^",
            "E: at the kernel's line 'h = tl.zeros([B], tl.float32)'",
        ),
        (
            "at 9:0:\ndef kernel(x):\n    tl.static_assert(B > 1)\n    ^\nB must be larger\n- a point of it",
            "E: at the kernel's line 'tl.static_assert(B > 1)': B must be larger\n- a point of it",
        ),
    ],
)
def test_summary_of_an_exception_keeps_the_lines_that_belong_to_its_first(text, summary):
    assert error_summary(type("E", (Exception,), {})(text)) == summary


def test_compilation_that_raised_is_not_told_as_swallowed():
    failed = found_in(fixes_its_size, calls=[call(torch.ones(4)), call(torch.ones(3))], dynamic_dims={"x": 0})
    assert "compilation failed" in [row.outcome for row in failed.report.calls]


# Guards


DOING = re.compile(
    r"[;:,] (?:make|create|use|do not|pass|mark|keep|cast|reshape|move|detach|allow|set|clone|define|check|always|call) ?"
)


@pytest.mark.parametrize("cause", sorted(EXPLANATIONS))
def test_every_kind_of_guard_comes_with_something_to_do(cause):
    assert DOING.search(EXPLANATIONS[cause])
    assert "one graph for each" not in EXPLANATIONS[cause]


@pytest.mark.parametrize("fullgraph", [True, False])
def test_fallback_behind_a_string_guard_is_not_answered_with_padding(fullgraph):
    def named(x, name):
        return x.sin() if name else x.cos()

    calls = [call(torch.ones(4), f"name {i}") for i in range(10)]
    hint = only(found_in(named, calls=calls, fullgraph=fullgraph, max_recompiles=20), "eager-fallback").hint
    assert hint.startswith("python-string: ")
    assert "pad" not in hint and "dynamic" not in hint


@pytest.mark.parametrize(
    ("cause", "setter"),
    [
        ("threads", "torch.set_num_threads"),
        ("deterministic", "torch.use_deterministic_algorithms"),
        ("default-dtype", "torch.set_default_dtype"),
    ],
)
def test_fix_for_a_global_state_names_that_state_alone(cause, setter):
    assert re.findall(r"torch\.\w+", EXPLANATIONS[cause]) == [setter]


def test_fallback_behind_a_size_guard_is():
    calls = [call(torch.ones(i, 3)) for i in range(2, 13)]
    failed = found_in(lambda x: x.sin(), calls=calls, dynamic=False, fullgraph=False, max_recompiles=20)
    assert "dynamic_dims" in only(failed, "eager-fallback").hint


def test_limit_that_torch_raises_is_answered_by_its_last_reason():
    error = type("FailOnRecompileLimitHit", (RuntimeError,), {})(
        "recompile_limit reached with fullgraph=True.\nRecompile limit hit: 8\nlast reason: 0/7: name == 'name 7'"
    )
    (finding,) = error_findings(error)
    assert finding.kind == "eager-fallback" and finding.hint.startswith("python-string: ")


# Ops whose output shape depends on data


@pytest.mark.parametrize(
    ("target", "advice"),
    [
        (lambda x: torch.where(x == 1)[0] + 1, "torch.where(c, a, b) with three arguments"),
        (lambda x: torch.nonzero(x) + 1, "torch.nonzero_static"),
        (lambda x: x[x > 1] + 1, "multiply by the mask"),
        (lambda x: torch.masked_select(x, x > 1) + 1, "torch.where(mask, x, fill)"),
        (lambda x: torch.unique(x) + 1, "call it outside"),
        (lambda x: torch.repeat_interleave(x, x) + 1, "output_size=n"),
        (lambda x: torch.bincount(x) + 1, "scatter_add"),
    ],
)
def test_op_of_dynamic_output_shape_is_answered_with_another_form(target, advice):
    finding = only(found_in(target, torch.arange(4), fullgraph=False), "graph-break")
    assert "dynamic output shape" in finding.message
    assert advice in finding.hint


def test_form_that_is_advised_for_one_argument_where_holds():
    check_compile(lambda x: torch.where(x == 1, x, 0), torch.arange(4), backend="eager", fullgraph=False)
    check_compile(lambda x: torch.nonzero_static(x, size=4), torch.arange(4), backend="eager", fullgraph=False)


# Numbers


def off_by(amount):
    def backend(graph, inputs):
        return lambda *args: tuple(out + amount for out in graph(*args))

    return backend


@pytest.mark.parametrize(("amount", "looser"), [(3e-6, True), (1e-4, True), (0.5, False)])
def test_loosening_is_advised_only_where_the_difference_is_small(amount, looser):
    finding = only(found_in(lambda x: x.sin(), torch.linspace(0, 1, 8), backend=off_by(amount)), "numerics")
    assert ("set a tolerance for this value" in finding.hint) is looser
    assert ("the stage at fault" in finding.hint) is (amount > 1e-5)


def test_integers_that_differ_are_a_defect():
    finding = only(found_in(lambda x: x + 1, torch.arange(4), backend=off_by(1)), "numerics")
    assert "look for a bug" in finding.hint


# Names


@pytest.mark.parametrize(
    ("target", "name"),
    [
        (torch.sin, "torch.sin"),
        (torch.linalg.norm, "torch.linalg.norm"),
        (torch.nn.functional.gelu, "torch.nn.functional.gelu"),
        (torch.nn.functional.max_pool2d, "torch.nn.functional.max_pool2d"),
        (torch.Tensor.sin, "Tensor.sin"),
        (torch.ones(2).sin, "Tensor.sin"),
        (found_in, "found_in"),
        (torch.nn.Linear(1, 1), "Linear"),
        (len, "len"),
    ],
)
def test_target_has_its_public_name(target, name):
    assert target_name(target) == name


def breaks_by_value(x):
    n = int(x.sum().tolist())
    return x * n


def by_number(x, n):
    return x * n


def test_recompiles_of_what_comes_after_a_break_name_the_break():
    calls = [call(torch.full((2,), value)) for value in (1.0, 2.0)]
    options = {"backend": "eager", "fullgraph": False, "max_graph_breaks": 9, "dynamic": False, "diagnose": "off"}
    failed = found_in(breaks_by_value, calls=calls, **options)
    (finding,) = [finding for finding in failed.report.findings if finding.kind == "recompile"]
    place = failed.report.graph_breaks[0].location
    assert f"breaks_by_value after the graph break at line {place.line}" in finding.evidence
    assert finding.hint.startswith(
        f"the graph breaks at {place.shown()}, so the code after each break is compiled separately"
    )


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(x).sin()


class Layers(torch.nn.Module):
    """Its forward is skipped because of the break in its loop, so each layer is compiled separately."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([Layer(), Layer()])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
            if x.sum() > 1e6:
                x = x / 2
        return x


def test_recompiles_of_functions_that_a_skipped_function_calls_name_it():
    failed = found_in(Layers(), torch.ones(2, 4), max_graph_breaks=9, diagnose="off")
    assert only(failed, "recompile").hint.startswith("torch skipped forward because of a graph break, so it")


@pytest.mark.parametrize(
    ("library", "fix"),
    [
        (Location("torch/optim/optimizer.py", 78, "_use_grad"), advice.CALLS_GRAPH_BREAK),
        (None, "remove the graph_break() call"),
    ],
)
def test_graph_break_that_other_code_calls_is_not_told_to_be_removed(library, fix):
    place = Location("train.py", 10, "step", library=library)
    found = GraphBreak(place, "Call to `torch._dynamo.graph_break()`", "explicit graph break", "gb-1")
    assert advice.for_break(found) == fix


def test_setting_that_torch_names_incorrectly_is_corrected():
    hints = ("Set torch._dynamo.trace_autograd_ops=True",)
    found = GraphBreak(Location("a.py", 1), "Unsupported Tensor.backward() call", "unsupported code", "gb", hints=hints)
    assert advice.for_break(found) == "Set torch._dynamo.config.trace_autograd_ops=True"


def test_headings_without_text_are_not_shown():
    said = "Backward hooks need compiled autograd.\n  Explanation: \n  Hint: Enable it.\n  Developer debug context: \n"
    found = GraphBreak(Location("a.py", 1), said, "unsupported code", "gb-1")
    assert explanation(found) == "Backward hooks need compiled autograd.\n  Hint: Enable it."


def test_recompiles_after_many_breaks_name_three_of_them():
    places = [f"model.py:{line} in forward" for line in (3, 5, 7, 9, 11)]
    hint = advice.after_breaks(places)
    assert hint.startswith(
        "the graph breaks at model.py:3 in forward, model.py:5 in forward, model.py:7 in forward and 2 more lines, so"
    )


def test_recompiles_without_a_break_name_none():
    failed = found_in(by_number, calls=[call(torch.ones(2), 2), call(torch.ones(2), 3)], diagnose="off")
    assert "break" not in failed.report.findings[0].hint + failed.report.findings[0].evidence


@pytest.mark.parametrize(
    ("hints", "fix"),
    [
        (("Your code may result in an error when running in eager. Please double check.", "Do this."), "Do this."),
        (("Your code may result in an error when running in eager.",), advice.REWRITE),
        (("Write it in another way.",), "Write it in another way."),
    ],
)
def test_fix_does_not_doubt_that_eager_runs(hints, fix):
    found = GraphBreak(Location("a.py", 1), "odd", "unsupported code", "gb-1", hints=hints)
    assert advice.for_break(found).startswith(fix)


@pytest.mark.parametrize(("others", "fix"), [(True, advice.FOLLOWS), (False, "Remove it from the return statement.")])
def test_a_break_that_may_follow_from_another_says_so_where_there_is_one(others, fix):
    torchs = "This graph break may have been caused by an earlier graph break. Resolving it may resolve this one."
    hints = ("Remove it from the return statement.", torchs)
    found = GraphBreak(Location("a.py", 1), "Reconstruction failure", "unsupported code", "gb-1", hints=hints)
    assert advice.for_break(found, [found, found] if others else [found]) == fix
    other = GraphBreak(Location("a.py", 2), "odd", "data-dependent branch", "gb-2")
    seen = Observation(graph_breaks=[found, *[other] * others])
    first, *_ = judge(seen, Budget(), Conditions(torch_limit=8))
    assert first.hint == fix


@pytest.mark.parametrize("what", ["type", "shape", "dtype", "device", "layout", "requires_grad", "strides"])
def test_every_part_of_a_tensor_that_differs_has_a_fix(what):
    assert advice.METADATA[what]


def test_order_of_keys_that_differs_comes_with_a_fix():
    def other(x):
        return {"a": x, "b": x + 1} if torch.compiler.is_compiling() else {"b": x + 1, "a": x}

    finding = only(found_in(other, torch.ones(2), diagnose="off"), "metadata")
    assert "in the order b, a in eager" in finding.message
    assert "keys and their order" in finding.hint


def test_shape_and_dtype_that_differ_come_with_a_fix():
    def other(x):
        return x.double() if torch.compiler.is_compiling() else x

    failed = found_in(other, torch.ones(2), diagnose="off")
    assert failed.report.findings[0].hint.startswith("set the dtype explicitly where the value is created")


class Resized(torch.nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, x):
        return torch.nn.functional.interpolate(x, scale_factor=self.scale)


def test_numpy_number_that_breaks_the_graph_is_named():
    np = pytest.importorskip("numpy")
    finding = only(found_in(Resized(np.float64(0.5)), torch.ones(1, 1, 4), diagnose="off"), "graph-break")
    assert finding.hint.startswith("self.scale: torch traces a NumPy scalar as a tensor")
    assert "running in eager" not in finding.evidence + finding.hint
    assert check_compile(Resized(0.5), torch.ones(1, 1, 4), backend="eager").ok


@pytest.mark.parametrize("by_name", [False, True])
def test_numpy_number_that_is_an_argument_is_named(by_name):
    np = pytest.importorskip("numpy")

    def resized(x, scale):
        return torch.nn.functional.interpolate(x, scale_factor=scale)

    image, scale = torch.ones(1, 1, 4), np.float64(0.5)
    one = call(image, scale=scale) if by_name else call(image, scale)
    finding = only(found_in(resized, calls=[one], diagnose="off"), "graph-break")
    assert finding.hint.startswith("scale: torch traces a NumPy scalar as a tensor")


def only_prints(x):
    print("nothing to compile")
    return x


def whole_function_in_eager(x):
    for _ in range(2):
        torch._dynamo.graph_break()
        x = x.sin()
    return x


def test_break_of_an_unknown_kind_is_explained_if_nothing_is_compiled():
    lstm, x = torch.nn.LSTM(4, 4), torch.ones(2, 3, 4)
    failed = found_in(lambda x: lstm(x), x, fullgraph=False, max_graph_breaks=9, diagnose="off")
    evidence = only(failed, "nothing-compiled").evidence
    assert "(unsupported code)" in evidence and "\ntorch says: " in evidence and "LSTM" in evidence


@pytest.mark.parametrize(
    ("target", "why"),
    [
        (only_prints, "and no tensor op is left to compile"),
        (whole_function_in_eager, "so all of whole_function_in_eager runs eagerly"),
    ],
)
def test_nothing_is_compiled_because_of_a_break(target, why):
    failed = found_in(target, torch.ones(3), fullgraph=False, max_graph_breaks=9, diagnose="off")
    finding, line = only(failed, "nothing-compiled"), failed.report.graph_breaks[0].location.line
    assert f"test_hints.py:{line} in {target.__name__} (" in finding.evidence
    assert finding.evidence.endswith(f"), {why}")
    assert finding.hint.startswith("remove the graph breaks, so that")


def test_nothing_is_compiled_without_a_break():
    finding = only(found_in(lambda x: x, torch.ones(3), fullgraph=False, diagnose="off"), "nothing-compiled")
    assert "break" not in finding.evidence + finding.hint


def test_numpy_number_elsewhere_is_not_blamed_for_a_break():
    np = pytest.importorskip("numpy")
    factor = np.float64(0.5)

    def both(x):
        x = x * factor
        print("here")
        return x

    assert both.__closure__
    finding = only(found_in(both, torch.ones(3), diagnose="off"), "graph-break")
    assert "NumPy" not in finding.hint
