"""custom_ops=True: each op of torch.library that eager runs goes through opcheck, with the inputs that it got."""

from __future__ import annotations

import subprocess
import sys
import warnings

import pytest
import torch

from pytest_torch_compile import CompileCheckFailed, call, check_compile
from pytest_torch_compile._torch.custom_ops import SAMPLES, TORCHS_OWN

LIBRARY = torch.library.Library("checked_ops", "FRAGMENT")


def define(schema, function, fake=None, key="CompositeExplicitAutograd"):
    """An op, with a fake unless choose one of torch's own ops below."""
    name = schema.split("(")[0]
    LIBRARY.define(schema)
    LIBRARY.impl(name, function, key)
    if fake is not None:
        torch.library.register_fake(f"checked_ops::{name}", fake, lib=LIBRARY)
    return getattr(torch.ops.checked_ops, name)


def custom(name, function, fake, mutates=(), backward=None, setup=None, schema="(Tensor x) -> Tensor"):
    op = torch.library.custom_op(f"checked_ops::{name}", function, mutates_args=mutates, schema=schema)
    op.register_fake(fake)
    if backward is not None:
        op.register_autograd(backward, setup_context=setup)
    return op


def same(x):
    return torch.empty_like(x)


def keep_input(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])


def doubled(x):
    return x.detach() * 2


def _write(x):
    x.add_(1)
    return x * 2


def _tag(x):
    x.mul_(2)


wrong_stride = custom("wrong_stride", lambda x: x.t().contiguous().t(), lambda x: torch.empty_like(x))
wrong_dtype = custom("wrong_dtype", lambda x: x.double(), same)
wrong_shape = custom("wrong_shape", lambda x: x[:1].clone(), same)
undeclared_write = custom("undeclared_write", _write, same)
no_fake = define("no_fake(Tensor x) -> Tensor", doubled, key="CPU")
returns_input = define("returns_input(Tensor x) -> Tensor", lambda x: x, lambda x: x)
no_formula = custom("no_formula", doubled, same)
silent_no_formula = define("silent_no_formula(Tensor x) -> Tensor", doubled, same)
misplaced_formula = define("misplaced_formula(Tensor x) -> Tensor", lambda x: x * 2, same)

good = custom("good", doubled, same, backward=lambda ctx, g: g * 2)
good_square = custom(
    "good_square", lambda x: x * x, same, backward=lambda ctx, g: 2 * g * ctx.saved_tensors[0], setup=keep_input
)
transposes = custom("transposes", lambda x: x.t().contiguous().t(), lambda x: torch.empty_like(x.t().contiguous()).t())
declared_write = custom("declared_write", _tag, lambda x: None, mutates=("x",), schema="(Tensor(a!) x) -> ()")
draws = custom("draws", lambda x: torch.rand_like(x), same)
uninitialised = define(
    "counts(Tensor x) -> Tensor", lambda x: x.new_tensor([float(next(COUNTER))]), lambda x: x.new_empty(1)
)
COUNTER = iter(range(10**9))
composite = define("composite(Tensor x) -> Tensor", lambda x: x.sin() * 2, key="CompositeImplicitAutograd")
nonzero = custom(
    "nonzero",
    lambda x: x.nonzero().contiguous(),
    lambda x: x.new_empty((torch.library.get_ctx().new_dynamic_size(), x.dim()), dtype=torch.int64),
)
labels = custom("labels", lambda x: x.argmax(-1), lambda x: x.new_empty(x.shape[:-1], dtype=torch.int64))


class Layer(torch.nn.Module):
    def __init__(self, op):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.op = op

    def forward(self, x):
        return self.op(self.linear(x))  # the call site


def check(op, x=None, **options):
    x = torch.randn(3, 4) if x is None else x
    options = {"backend": "eager", "diagnose": "off", "custom_ops": True, "fullgraph": False, **options}
    return check_compile(Layer(op), x, **options)


def custom_op_findings(op, *args, **options):
    with pytest.raises(CompileCheckFailed) as failed:
        check(op, *args, **options)
    return [finding for finding in failed.value.findings if finding.kind == "custom-op"]


PLANTED = [
    (wrong_stride, {}, "test_faketensor"),
    (wrong_dtype, {}, "test_faketensor"),
    (wrong_shape, {}, "test_faketensor"),
    (undeclared_write, {}, "test_schema"),
    (no_fake, {}, "test_faketensor"),
    (returns_input, {}, "test_schema"),
    (no_formula, {"train": True}, "no backward formula"),
    (silent_no_formula, {"train": True}, "no backward formula"),
    (misplaced_formula, {"train": True}, "test_autograd_registration"),
]


@pytest.mark.parametrize(
    ("op", "options", "clause"), PLANTED, ids=lambda value: str(value) if callable(value) else None
)
def test_a_wrong_op_is_named_with_its_clause_and_the_call_site(op, options, clause):
    finding, *others = custom_op_findings(op, **options)
    assert not others
    name = str(getattr(op, "_qualname", op)).replace("::", ".")
    assert finding.message.startswith(f"{name}.default fails opcheck: {clause}")
    assert finding.location.file == __file__ and finding.location.source.endswith("# the call site")
    assert "float32[3, 4]" in finding.evidence and finding.hint


INNOCENT = [
    (good, {"train": True}),
    (good_square, {"train": True}),
    (transposes, {}),
    (lambda x: declared_write(x.clone()), {}),
    (lambda x: draws(x) * 0, {}),
    (lambda x: uninitialised(x) * 0, {}),
    (composite, {"train": True}),
    (lambda x: nonzero(x).sum(0), {"max_graph_breaks": 1}),
    (lambda x: (x, labels(x)), {"train": True}),
    # For inference, a formula is not needed; nor where backward does not come by.
    (no_formula, {}),
    (silent_no_formula, {}),
    (lambda x: (x, no_formula(x.detach())), {"train": True}),
    (lambda x: x + no_formula(x).detach(), {"train": True}),
]


@pytest.mark.parametrize(("op", "options"), INNOCENT, ids=range(len(INNOCENT)))
def test_a_right_op_passes(op, options):
    report = check(op, **options)
    assert any(line.startswith("custom ops checked: checked_ops.") for line in report.remarks)


def test_gradients_are_for_training_under_no_grad_too():
    check_compile(
        Layer(no_formula), calls=[call(torch.randn(3, 4)).under(torch.no_grad)], backend="eager", custom_ops=True
    )


def test_each_different_input_is_checked_and_what_is_left_out_is_said():
    calls = [torch.randn(2 + size, 4) for size in range(SAMPLES + 2)]
    report = check_compile(Layer(good), calls=calls, backend="eager", custom_ops=True, dynamic=True)
    assert f"custom ops checked: checked_ops.good.default ({SAMPLES} input sets)" in report.remarks
    assert "custom_ops: 2 more input sets of checked_ops.good.default not checked" in report.remarks


class Own(torch.Tensor):
    pass


def test_a_tensor_subclass_is_named_and_not_checked():
    def mixed(x):
        return good(x.as_subclass(Own)).as_subclass(torch.Tensor) + no_formula(x)

    try:
        report = check_compile(mixed, torch.randn(3, 4), backend="eager", custom_ops=True, max_graph_breaks=1)
    except CompileCheckFailed as failed:  # torch 2.6 cannot compile it
        report = failed.report
    assert (
        "custom_ops: checked_ops.good.default received a tensor subclass, which opcheck does not support"
        in report.remarks
    )
    assert "custom ops checked: checked_ops.no_formula.default (1 input set)" in report.remarks


def test_the_same_input_is_checked_once():
    report = check_compile(Layer(good), calls=[torch.randn(3, 4)] * 4, backend="eager", custom_ops=True)
    assert "custom ops checked: checked_ops.good.default (1 input set)" in report.remarks


def test_a_target_without_custom_ops_says_so():
    report = check(torch.sin)
    assert "custom_ops: the eager run called no custom ops" in report.remarks


def test_ops_of_a_backward_and_inside_a_composite_op_are_checked_too():
    backward = custom("backward", doubled, same, backward=lambda ctx, g: undeclared_write(g.clone()))
    findings = custom_op_findings(backward, train=True)
    assert "checked_ops.undeclared_write.default fails opcheck: test_schema" in [
        finding.message for finding in findings
    ]
    outer = define("outer(Tensor x) -> Tensor", lambda x: wrong_dtype(x), key="CompositeImplicitAutograd")
    assert "checked_ops.wrong_dtype.default" in [finding.subject for finding in custom_op_findings(outer)]


def test_ops_inside_a_torch_func_transform_are_checked_too():
    for fake in (same, lambda x: x.new_empty(3)):
        op = custom(f"transformed_{fake.__name__.strip('<>')}", lambda x: x + 1, fake)
        op.register_vmap(lambda info, in_dims, x, op=op: (op(x), in_dims[0]))
        for target in (
            torch.func.vmap(lambda x, op=op: op(x)),
            lambda x, op=op: torch.func.grad(lambda y: (y * op(x)).sum())(x),
        ):
            if fake is same:
                check(target)
            else:
                assert custom_op_findings(target)


def test_an_overload_is_found_by_its_arguments():
    LIBRARY.define("scaled(Tensor x) -> Tensor")
    LIBRARY.define("scaled.by(Tensor x, float factor) -> Tensor")
    LIBRARY.impl("scaled", doubled, "CPU")
    LIBRARY.impl("scaled.by", lambda x, factor: x.detach() * factor, "CPU")
    torch.library.register_fake("checked_ops::scaled.by", lambda x, factor: same(x), lib=LIBRARY)
    report = check(lambda x: torch.ops.checked_ops.scaled(x, 3.0))
    assert "custom ops checked: checked_ops.scaled.by (1 input set)" in report.remarks


def test_nothing_else_is_changed():
    written = torch.randn(3, 4)
    state, before = torch.random.get_rng_state(), written.clone()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_compile(lambda x: draws(x) * 0, written, backend="eager", custom_ops=True)
    assert torch.equal(before, written)
    assert torch.equal(torch.random.get_rng_state(), state)


def test_the_table_of_torchs_own_ops_is_complete():
    code = (
        "import torch, torch._dynamo, torch._inductor.compile_fx, torch.distributed.tensor, torch.export;"
        "print(*{name.split('::')[0] for name in torch._C._dispatch_get_all_op_names()})"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) <= TORCHS_OWN
