"""Options that newer torch has: handed on where they are there, one clear line where they are not."""

from __future__ import annotations

import inspect

import pytest

torch = pytest.importorskip("torch")

from pytest_torch_compile import CompileCheckFailed, CompileUsageError, Tolerances, call, check_compile, compile_guard  # noqa: E402
from pytest_torch_compile.legs.compiling import Compiling  # noqa: E402

VERSION = tuple(map(int, torch.__version__.split("+")[0].split(".")[:2]))
HAS_LIMIT = "recompile_limit" in inspect.signature(torch.compile).parameters
HAS_SHARED = "shape_id" in inspect.signature(torch._dynamo.decorators.mark_unbacked).parameters
EAGER = {"backend": "eager"}
without = pytest.mark.skipif(HAS_LIMIT, reason="torch 2.13 and newer support these options")
needs_limit = pytest.mark.skipif(not HAS_LIMIT, reason="these options of torch.compile are new in torch 2.13")


def curve(x, n=1):
    return x.sin() * n


def added(x, y):
    return x.sin() + y


def only_four(x):
    return x.sin() if x.shape[0] == 4 else x.cos()


def rows(size):
    return torch.ones(size, 2)


@pytest.fixture(autouse=True)
def _nothing_compiled():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@without
@pytest.mark.parametrize(
    "options", [{"recompile_limit": 2}, {"isolate_recompiles": True}, {"dynamic_shapes": object()}]
)
def test_what_this_torch_does_not_have_is_said_with_the_torch_that_has_it(options):
    with pytest.raises(
        CompileUsageError, match=rf"{next(iter(options))}: torch 2\.\d+\.\d+ does not support it \(requires torch 2\.13"
    ):
        check_compile(curve, rows(4), **EAGER, **options)


@needs_limit
def test_recompile_limit_is_handed_on():
    calls = [call(rows(4), n=n) for n in (1, 2, 3, 4)]
    with pytest.raises(CompileCheckFailed, match=r"the recompile limit of 2\b") as failure:
        check_compile(curve, calls=calls, recompile_limit=2, max_recompiles=3, dynamic=False, fullgraph=False, **EAGER)
    assert {finding.kind for finding in failure.value.findings} == {"eager-fallback"}
    assert check_compile(curve, calls=calls, recompile_limit=5, max_recompiles=3, dynamic=False, **EAGER).ok


@needs_limit
def test_graphs_of_one_compile_are_kept_apart():
    assert check_compile(curve, rows(4), isolate_recompiles=True, **EAGER).ok


@needs_limit
@pytest.mark.parametrize("sizes", [[4, 5, 9], [1, 4], [0, 3]])
def test_unbacked_sizes_in_torchs_own_form(sizes):
    from torch.fx.experimental import dynamic_spec

    batch = dynamic_spec.ShapeVar("batch")
    spec = dynamic_spec.ParamsSpec({"x": dynamic_spec.TensorSpec([batch, None])})
    report = check_compile(curve, calls=[rows(size) for size in sizes], dynamic_shapes=spec, **EAGER)
    assert len(report.graphs) == 1


@pytest.mark.parametrize("option", ["recompile_limit", "isolate_recompiles", "dynamic_shapes"])
def test_they_are_refused_beside_a_function_that_compiles(option):
    with pytest.raises(CompileUsageError, match=f"{option} is an option of torch.compile"):
        check_compile(curve, rows(4), compile=lambda target: torch.compile(target, backend="eager"), **{option: 3})


@pytest.mark.parametrize(
    ("name", "newest"), [("numerics", (2, 15)), ("batch_invariant", (2, 13)), ("deterministic", (2, 11))]
)
def test_modes_of_inductor_are_handed_on_or_said_to_be_newer(name, newest):
    options = {name: "strict" if name == "numerics" else True}
    if newest <= VERSION:
        assert check_compile(curve, rows(4), options=options).ok
        return
    with pytest.raises(
        CompileUsageError, match=rf"torch 2\.\d+\.\d+ does not support it \(requires torch {newest[0]}.{newest[1]}"
    ):
        check_compile(curve, rows(4), options=options)


@pytest.mark.parametrize(
    ("name", "meant"), [("max_autotun", "max_autotune"), ("triton.cudagraph", "triton.cudagraphs")]
)
def test_misspelt_option_of_inductor_is_named(name, meant):
    with pytest.raises(CompileUsageError, match=f"did you mean {meant}"):
        check_compile(curve, rows(4), options={name: True})


def test_options_of_the_caller_stay_as_they_are():
    options = {"guard_filter_fn": lambda guards: [True] * len(guards)}
    compiling = Compiling("inductor", options=options)
    if VERSION >= (2, 8):
        compiling(curve)
    assert list(options) == ["guard_filter_fn"]


@pytest.mark.skipif(VERSION < (2, 15), reason="the option numerics is new in torch 2.15")
def test_strict_numerics_are_judged_bit_by_bit():
    def slightly_off(x):
        return x.sin() + (1e-7 if torch.compiler.is_compiling() else 0.0)

    assert Compiling("inductor", options={"numerics": "strict"}).is_strict
    assert not Compiling("inductor", options={"numerics": "strict_pointwise"}).is_strict
    x = torch.linspace(0.1, 1, 64)
    assert check_compile(slightly_off, x).ok
    with pytest.raises(CompileCheckFailed, match="output differs from eager"):
        check_compile(slightly_off, x, options={"numerics": "strict"})
    assert check_compile(slightly_off, x, options={"numerics": "strict"}, tolerances=Tolerances()).ok
    with torch._inductor.config.patch(numerics="strict"):
        assert Compiling("inductor").is_strict and not Compiling("eager").is_strict


@pytest.mark.parametrize("sizes", [[4, 5, 300], [1, 7], [4, 1]])
def test_unbacked_dimension_takes_every_size_in_one_graph(sizes):
    calls = [rows(size) for size in sizes]
    assert len(check_compile(curve, calls=calls, dynamic_dims={"x": {0: "batch"}}, **EAGER).graphs) == 1


def test_code_that_depends_on_an_unbacked_size_is_found():
    with pytest.raises(CompileCheckFailed) as failure:
        check_compile(only_four, rows(4), dynamic_dims={"x": {0: "batch"}}, diagnose="off", **EAGER)
    assert {finding.kind for finding in failure.value.findings} <= {"graph-break", "compile-error"}


def test_shared_sizes():
    dims = {"x": {0: "batch"}, "y": {0: "batch"}}
    calls = [call(rows(4), rows(4)), call(rows(7), rows(7))]
    if HAS_SHARED:
        assert len(check_compile(added, calls=calls, dynamic_dims=dims, **EAGER).graphs) == 1
        return
    with pytest.raises(CompileUsageError, match="share the name 'batch'"):
        check_compile(added, calls=calls, dynamic_dims=dims, **EAGER)


@needs_limit
@pytest.mark.parametrize(("sizes", "recompiles"), [((4,), 0), ((4, 5), 3)])
def test_objects_that_are_compiled_in_isolation_do_not_recompile_each_other(sizes, recompiles):
    class Block(torch.nn.Module):
        def forward(self, x):
            return x.sin()

    compiled = [torch.compile(Block(), **EAGER, isolate_recompiles=True) for _ in range(3)]
    with compile_guard(max_recompiles=3) as seen:
        for size in sizes:
            for block in compiled:
                block(rows(size))
    assert len(seen.recompiles) == recompiles


@needs_limit
def test_advice_for_a_size_that_changes_in_each_isolated_object_is_that_of_one_object():
    compiled = [torch.compile(lambda x: x.sin(), **EAGER, isolate_recompiles=True) for _ in range(3)]
    with pytest.raises(CompileCheckFailed, match="3 recompiles, 0 allowed") as failure:
        with compile_guard():
            for size in (4, 5):
                for function in compiled:
                    function(rows(size))
    assert failure.value.findings[0].hint.startswith("size:")
