"""Listening to torch's trace log: nothing is formatted that would not be formatted without a listener."""

import logging

import pytest
import torch
from packaging.version import Version
from torch.utils._pytree import tree_map_only

from pytest_torch_compile import CompileCheckFailed, Tolerances, check_compile, compile_guard
from pytest_torch_compile._torch.trace import TraceObserver
from pytest_torch_compile._torch.trace_log import not_captured, trace_logger

ran: list[str] = []
COUNTED = {"tolerances": Tolerances(ignored=["global ran*"]), "backend": "aot_eager"}


prints_by_itself = pytest.mark.skipif(
    Version(torch.__version__) < Version("2.13"),
    reason="before torch 2.13, torch itself prints subclasses while it captures a graph",
)


class Int8Weight(torch.Tensor):
    """A quantised weight as libraries write them, without a ``__repr__``: torch's own runs ops of the tensor."""

    @staticmethod
    def __new__(cls, data, scale):
        return torch.Tensor._make_wrapper_subclass(cls, data.shape, dtype=scale.dtype, device=data.device)

    def __init__(self, data, scale):
        self.data_, self.scale = data, scale

    def __tensor_flatten__(self):
        return ["data_", "scale"], None

    @classmethod
    def __tensor_unflatten__(cls, inner, meta, size, stride):
        return cls(inner["data_"], inner["scale"])

    @classmethod
    def __torch_dispatch__(cls, func, types, args, kwargs=None):
        ran.append(str(func))
        if func in (torch.ops.aten.detach.default, torch.ops.aten.alias.default, torch.ops.aten.t.default):
            return cls(func(args[0].data_), args[0].scale)
        return func(*tree_map_only(cls, cls.dequantised, args), **(kwargs or {}))

    def dequantised(self):
        return self.data_.to(self.scale.dtype) * self.scale


class Quantised(torch.nn.Module):
    def __init__(self):
        super().__init__()
        data = torch.randint(-8, 8, (4, 6), dtype=torch.int8)
        self.weight = torch.nn.Parameter(Int8Weight(data, torch.tensor(0.1)), requires_grad=False)

    def forward(self, x):
        return torch.mm(x, self.weight.t()).relu()


def ops_of_a_compilation(listening):
    torch._dynamo.reset()
    ran.clear()
    # A handler of pytest's would turn all of the log on.
    with torch.inference_mode(), TraceObserver() if listening else not_captured():
        model, x = Quantised(), torch.ones(3, 6)
        assert torch.equal(torch.compile(model, backend="aot_eager", fullgraph=True)(x), model(x))
    return list(ran)


@prints_by_itself
def test_no_op_more_runs_with_the_listener():
    ops_of_a_compilation(False)
    assert ops_of_a_compilation(True) == ops_of_a_compilation(False)


@prints_by_itself
@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad])
def test_subclass_without_a_repr_passes(mode):
    with mode():
        report = check_compile(Quantised(), torch.randn(3, 6), **COUNTED)
    assert len(report.graphs) == 1 and not report.graph_breaks


@prints_by_itself
def test_subclass_without_a_repr_under_the_guard():
    with torch.inference_mode(), compile_guard() as seen:
        torch.compile(Quantised(), backend="aot_eager", fullgraph=True)(torch.ones(3, 6))
    assert len(seen.graphs) == 1


@prints_by_itself
def test_break_beside_such_a_subclass_is_found():
    class Breaking(Quantised):
        def forward(self, x):
            torch._dynamo.graph_break()
            return super().forward(x)

    with torch.inference_mode(), pytest.raises(CompileCheckFailed) as failed:
        check_compile(Breaking(), torch.randn(3, 6), **COUNTED)
    assert {finding.kind for finding in failed.value.findings} == {"graph-break"}


class Everything(logging.Handler):
    """A handler of somebody else's, such as the one of TORCH_TRACE."""

    def __init__(self):
        super().__init__()
        self.events = set()

    def emit(self, record):
        self.events |= set(record.metadata)


def events_for(other, *, listening):
    torch._dynamo.reset()
    logger = trace_logger()
    logger.addHandler(other)
    try:
        with TraceObserver() if listening else not_captured():
            torch.compile(lambda x: x.sin() + 1, backend="aot_eager")(torch.ones(3))
    finally:
        logger.removeHandler(other)
    return other.events


def test_another_handler_gets_every_event():
    alone = events_for(Everything(), listening=False)
    assert "aot_inference_graph" in alone or "aot_forward_graph" in alone
    assert events_for(Everything(), listening=True) >= alone - {"str"}


def test_handlers_are_a_plain_list_afterwards():
    with TraceObserver(), TraceObserver():
        assert type(trace_logger().handlers) is not list
    assert type(trace_logger().handlers) is list
