"""Everything but values: containers, metadata, writes, gradients, aliasing, exceptions, random streams."""

from __future__ import annotations

import dataclasses
import enum
import logging
from collections import OrderedDict, deque, namedtuple
from typing import Any

import numpy
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from pytest_torch_compile.numerics import CallRecord, Comparison, ExtraRuns, Tolerances, compare_call, flatten
from pytest_torch_compile.numerics.metadata import metadata_differences, rows_are_padded
from pytest_torch_compile.report.failure_text import headline

Point = namedtuple("Point", "x y")


class Level(enum.Enum):
    LOW = 1
    HIGH = 2


@dataclasses.dataclass
class Result:
    logits: Any
    loss: Any = None


@dataclasses.dataclass
class ModelOutput(OrderedDict):
    """Built like transformers' class of that name: a dataclass that is an ordered dict."""

    logits: Any = None
    cache: Any = None

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            if getattr(self, field.name) is not None:
                super().__setitem__(field.name, getattr(self, field.name))


class Cache:
    def __init__(self, *tensors: torch.Tensor) -> None:
        self.layers = list(tensors)
        self.owner = self
        self.update = lambda: None


class Batch:
    """Has keys and values, and iterates over something else, as tensordict's TensorDict does."""

    def __init__(self, **tensors: torch.Tensor) -> None:
        self._tensors = tensors

    def keys(self):
        return self._tensors.keys()

    def items(self):
        return self._tensors.items()

    def __getitem__(self, key):
        return self._tensors[key] if isinstance(key, str) else Batch(**{k: v[key] for k, v in self._tensors.items()})

    def __iter__(self):
        return (self[index] for index in range(2))


class Opinionated:
    """Says itself when two are equal, and holds no tensors."""

    def __init__(self, value: int, secret: int) -> None:
        self.value, self.secret = value, secret

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Opinionated) and self.value == other.value

    def __hash__(self) -> int:
        return self.value


def compare(eager: CallRecord, compiled: CallRecord, tolerances: Tolerances | None = None) -> Comparison:
    return compare_call(eager, compiled, ExtraRuns(lambda: None, lambda: eager), tolerances or Tolerances())


def outputs(eager: Any, compiled: Any) -> list[tuple[str, str]]:
    found = compare(CallRecord(output=eager), CallRecord(output=compiled))
    return [(finding.kind, headline(finding)) for finding in found.findings]


def x(value: float = 1.0, *shape: int) -> torch.Tensor:
    return torch.full(shape or (2, 3), value)


class TestContainers:
    @pytest.mark.parametrize(
        "make",
        [
            lambda t: [t, (t, {"a": t})],
            lambda t: Point(t, None),
            lambda t: Result(t, [t]),
            lambda t: ModelOutput(logits=t, cache=Cache(t, t)),
            lambda t: OrderedDict(b=t, a=t),
            lambda t: {"b": t, "a": {"z": 1, "y": t}},
            lambda t: {1, 2, 3} if t is None else {"set": {3, 2, 1}},
            lambda t: deque([t]),
            lambda t: {"set": {1, 2}, 3: "text", None: None, "size": torch.Size([2])},
            lambda t: Cache(t),
            lambda t: Batch(a=t, b=Batch(c=t)),
            lambda t: Opinionated(1, id(t)),
            lambda t: torch.nn.Linear(2, 2) if t is None else t,
            lambda t: (torch.float32, torch.device("cpu"), torch.nn.functional.relu, int),
        ],
    )
    def test_same(self, make):
        assert outputs(make(x()), make(x())) == []

    @pytest.mark.parametrize(
        ("eager", "compiled", "said"),
        [
            ([x()], (x(),), "output is list in eager, but tuple in compiled code"),
            ([x(), x()], [x()], "output has length 2 in eager, but length 1 in compiled code"),
            ((x(), None), (x(), x()), "output[1] is None in eager, but a tensor in compiled code"),
            ({"a": x()}, {"b": x()}, "output has keys a in eager, but keys b in compiled code"),
            ({"a": [x()]}, {"a": {0: x()}}, "output['a'] is list in eager, but dict in compiled code"),
            (Result(x()), {"logits": x()}, "output is Result in eager, but dict in compiled code"),
            (Result(x(), x()), Result(x()), "output.loss is a tensor in eager, but None in compiled code"),
            (
                ModelOutput(x()),
                ModelOutput(x(), x()),
                "output has keys logits in eager, but keys logits, cache in compiled code",
            ),
            (Point(x(), 1), Point(x(), True), "output.y is int in eager, but bool in compiled code"),
            (torch.Size([2]), (2,), "output is Size in eager, but tuple in compiled code"),
            (Batch(a=x()), Batch(b=x()), "output has keys a in eager, but keys b in compiled code"),
            (Cache(x()), Cache(), "output.layers has length 1 in eager, but length 0 in compiled code"),
            (
                {"b": x(), "a": x()},
                {"a": x(), "b": x()},
                "output has its keys in the order b, a in eager, but a, b in compiled code",
            ),
            (
                [{1: x(), 0: x()}],
                [{0: x(), 1: x()}],
                "output[0] has its keys in the order 1, 0 in eager, but 0, 1 in compiled code",
            ),
            ({"ab": x()}, {"ba": x()}, "output has keys ab in eager, but keys ba in compiled code"),
        ],
    )
    def test_different(self, eager, compiled, said):
        found = outputs(eager, compiled)
        assert [kind for kind, _ in found] == ["metadata"]
        assert said in found[0][1]

    @pytest.mark.parametrize(
        ("eager", "compiled", "said"),
        [
            ("yes", "no", "output is 'yes' in eager, but 'no' in compiled code"),
            ({1, 2}, {1, 3}, "output is {1, 2} in eager"),
            ([x(), 4], [x(), 5], "output[1] is 4 in eager, but 5 in compiled code"),
            (Opinionated(1, 1), Opinionated(2, 1), "output is <"),
            (torch.float32, torch.float64, "output is torch.float32"),
            (Level.LOW, Level.HIGH, "output is <Level.LOW: 1> in eager, but <Level.HIGH: 2> in compiled code"),
            (numpy.array(["a", "b"]), numpy.array(["a", "c"]), "output is array(['a', 'b']"),
            (numpy.datetime64("2020-01-01"), numpy.datetime64("2020-01-02"), "output is"),
            (numpy.array([x(), 4], dtype=object), numpy.array([x(), 5], dtype=object), "output[1] is 4 in eager"),
        ],
    )
    def test_different_plain_values(self, eager, compiled, said):
        found = outputs(eager, compiled)
        assert [kind for kind, _ in found] == ["numerics"]
        assert said in found[0][1]

    def test_values_inside_objects(self):
        found = outputs(ModelOutput(x(), Cache(x(1.0), x(2.0))), ModelOutput(x(), Cache(x(1.0), x(3.0))))
        assert found[0][0] == "numerics"
        assert "output.cache.layers[1]" in found[0][1]

    def test_values_inside_what_only_looks_like_a_mapping(self):
        found = outputs(Batch(a=Batch(b=x(1.0))), Batch(a=Batch(b=x(2.0))))
        assert found[0][0] == "numerics"
        assert "output['a']['b']" in found[0][1]

    def test_objects_of_the_standard_library_are_not_entered(self):
        assert len(flatten(logging.getLogger(__name__)).nodes) == 1

    def test_cycles_end(self):
        loop: list[Any] = [x()]
        loop.append(loop)
        other: list[Any] = [x()]
        other.append(other)
        assert outputs(loop, other) == []

    def test_shared_objects_appear_under_each_path(self):
        tensor = x()
        assert list(flatten({"a": tensor, "b": (tensor,)}).tensors) == ["output['a']", "output['b'][0]"]

    @pytest.mark.parametrize("value", [["a", "b"], ["2020-01-01", "NaT"], [1, None], [1.0, float("nan")]])
    def test_equal_arrays_of_any_dtype(self, value):
        dtype = {"NaT": "M8[D]", None: object}.get(value[1])
        assert outputs(numpy.array(value, dtype=dtype), numpy.array(value, dtype=dtype)) == []

    @pytest.mark.parametrize(
        ("compiled", "said"),
        [
            (numpy.ones(3), "output differs from eager in shape: eager (2,), compiled (3,)"),
            (
                numpy.ones(2, dtype="f4"),
                "output differs from eager in dtype: eager torch.float64, compiled torch.float32",
            ),
            (
                numpy.ones(2, dtype="i8"),
                "output differs from eager in dtype: eager torch.float64, compiled torch.int64",
            ),
        ],
    )
    def test_arrays_of_another_shape_or_dtype(self, compiled, said):
        assert outputs(numpy.ones(2), numpy.ones(2)) == []
        assert outputs(numpy.ones(2), compiled) == [("metadata", f"call 1: {said}")]


class TestMetadata:
    @pytest.mark.parametrize(
        ("eager", "compiled", "said"),
        [
            (x(), x(1.0, 3, 2), "shape: eager (2, 3), compiled (3, 2)"),
            (x(1.0, 1), x(1.0, 1, 1), "shape"),
            (x(), x().half(), "dtype: eager torch.float32, compiled torch.float16"),
            (x(), x().requires_grad_(), "requires_grad: eager False, compiled True"),
            (x(), x(1.0, 3, 2).t(), "strides: eager (3, 1), compiled (1, 2)"),
            (torch.ones(2, 4, 3, 3).to(memory_format=torch.channels_last), torch.ones(2, 4, 3, 3), "strides"),
            (torch.nn.Parameter(x()), x().requires_grad_(), "type: eager Parameter, compiled Tensor"),
        ],
    )
    def test_different(self, eager, compiled, said):
        found = outputs(eager, compiled)
        assert [kind for kind, _ in found] == ["metadata"]
        assert said in found[0][1]

    @pytest.mark.parametrize(
        ("eager", "compiled"),
        [
            (torch.ones(4, 1).t(), torch.ones(1, 4)),
            (torch.ones(1, 4, 1, 1).to(memory_format=torch.channels_last), torch.ones(1, 4, 1, 1)),
            (torch.empty(0, 3).t(), torch.empty(3, 0)),
            (torch.ones(1).expand(4), torch.ones(4)),
            (torch.ones(4, 4)[:, ::2], torch.ones(4, 2)),
        ],
    )
    def test_strides_that_mean_nothing(self, eager, compiled):
        assert [kind for kind, _ in outputs(eager, compiled)] == []

    @pytest.mark.parametrize(
        ("shape", "strides", "padded"),
        [
            ((8, 20, 61), (1280, 64, 1), True),
            ((4, 30522), (30528, 1), True),
            ((4, 61), (61, 1), True),
            ((8, 20, 61), (1280, 1, 20), False),
            ((4, 61), (122, 2), False),
            ((4, 61), (256, 1), False),
            ((4, 61), (1, 4), False),
        ],
    )
    def test_padded_rows(self, shape, strides, padded):
        assert rows_are_padded(torch.empty(shape), torch.empty_strided(shape, strides)) == padded

    def test_rows_that_inductor_pads_are_no_finding_on_a_cuda_device_only(self):
        with FakeTensorMode():
            for device, lines in (("cuda", 0), ("cpu", 1)):
                eager = torch.empty((8, 20, 61), device=device)
                compiled = torch.empty_strided((8, 20, 61), (1280, 64, 1), device=device)
                assert len(metadata_differences(eager, compiled)) == lines

    def test_strides_can_be_switched_off(self):
        eager, compiled = CallRecord(output=x()), CallRecord(output=x(1.0, 3, 2).t())
        assert not compare(eager, compiled, Tolerances(strides=False)).findings


class TestOneFindingForALeaf:
    """A leaf that is wrong in several ways has one finding, of the worst kind, with everything that differs."""

    def test_value_and_strides(self):
        wrong = (x() * 2).t().contiguous().t()
        (found,) = compare(CallRecord(output=x()), CallRecord(output=wrong)).findings
        assert (found.kind, found.subject) == ("numerics", "output")
        assert "also differs in strides: eager (3, 1), compiled (1, 2)" in found.evidence

    def test_value_and_requires_grad_of_one_leaf_among_others(self):
        eager, compiled = [x(), x(), x()], [x(), (x() * 2).requires_grad_(), x().requires_grad_()]
        metadata, values = compare(CallRecord(output=eager), CallRecord(output=compiled)).findings
        assert (metadata.kind, metadata.subject) == ("metadata", "output[2]")
        assert (values.kind, values.subject) == ("numerics", "output[1]")
        assert "also differs in requires_grad: eager False, compiled True" in values.evidence

    def test_another_dtype_is_not_compared_by_value(self):
        (found,) = compare(CallRecord(output=x()), CallRecord(output=(x() * 2).double())).findings
        assert (found.kind, found.subject) == ("metadata", "output")

    def test_part_of_a_nested_tensor(self):
        def nested(factor, grad):
            parts = [torch.ones(3, 4), torch.ones(5, 4) * factor]
            return torch.nested.nested_tensor(parts, layout=torch.strided).requires_grad_(grad)

        (found,) = compare(CallRecord(output=nested(1, False)), CallRecord(output=nested(2, True))).findings
        assert found.subject == "output[1]"
        assert "output also differs in requires_grad" in found.evidence


def test_findings_that_differ_in_figures_only_are_equal_without_them():
    """Ranks that are wrong in the same place, by other amounts."""
    found = []
    for wrong in (x(2.0), x(3.0)):
        (finding,) = compare(CallRecord(output=x(), number=2), CallRecord(output=wrong, number=2)).findings
        assert finding.calls == (2,) and finding.measured > finding.limit
        found.append(dataclasses.replace(finding, measured=None, limit=None, evidence=""))
    assert found[0] == found[1]


class TestParts:
    """Values of tensors that consist of parts can be compared only if the parts have the same shapes."""

    @pytest.mark.parametrize(
        ("make", "other", "said"),
        [
            (lambda: torch.eye(2).to_sparse(), lambda: torch.ones(2, 2).to_sparse(), "output.indices()"),
            (lambda: torch.eye(2).to_sparse_csr(), lambda: torch.ones(2, 2).to_sparse_csr(), "output.col_indices()"),
            (lambda: nested(1, 2), lambda: nested(2, 1), "output[0]"),
            (lambda: nested(1, 2), lambda: nested(1, 2, 2), "output[2]"),
            (lambda: nested(1, 2, layout=torch.jagged), lambda: nested(2, 1, layout=torch.jagged), "output[0]"),
        ],
    )
    def test_other_shapes_are_a_finding(self, make, other, said):
        assert outputs(make(), make()) == []
        kind, text = outputs(make(), other())[0]
        assert kind == "metadata"
        assert text.startswith(f"call 1: {said} differs from eager in shape: eager ")


def nested(*lengths: int, layout: torch.layout = torch.strided) -> torch.Tensor:
    return torch.nested.nested_tensor([torch.ones(length) for length in lengths], layout=layout)


class TestArguments:
    def write(self, before: Any, eager: Any, compiled: Any) -> list[tuple[str, str]]:
        left = CallRecord(arguments=(before and (eager,), {}), pristine=((before[0],), {}), argument_names=("cache",))
        right = CallRecord(arguments=((compiled,), {}), pristine=left.pristine, argument_names=("cache",))
        return [(finding.kind, headline(finding)) for finding in compare(left, right).findings]

    def test_same_write(self):
        assert self.write([x(0)], x(1), x(1)) == []

    def test_lost_write(self):
        assert self.write([x(0)], x(1), x(0)) == [
            ("mutation", "call 1: the write to argument cache is lost: eager changes it, but compiled code does not")
        ]

    def test_unexpected_write(self):
        kind, message = self.write([x(0)], x(0), x(1))[0]
        assert (kind, "compiled code changes argument cache, but eager does not" in message) == ("mutation", True)

    def test_wrong_value(self):
        kind, message = self.write([x(0)], x(1), x(2))[0]
        assert (kind, "argument cache differs from eager" in message) == ("mutation", True)

    def test_list_that_grew_in_one_leg(self):
        kind, message = self.write([[]], [x()], [])[0]
        assert (kind, message) == (
            "mutation",
            "call 1: argument cache has length 1 in eager, but length 0 in compiled code",
        )

    def test_objects_that_cannot_be_compared_are_no_business_of_ours(self):
        assert self.write([iter([])], iter([1]), iter([1])) == []

    def test_keyword_arguments(self):
        eager = CallRecord(arguments=((), {"mask": x(1)}))
        found = compare(eager, CallRecord(arguments=((), {"mask": x(2)}))).findings
        assert "argument mask differs" in found[0].message


class TestStateAndGradients:
    def test_buffer(self):
        before = {"running_mean": x(0)}
        eager = CallRecord(state={"running_mean": x(1)}, initial_state=before)
        assert not compare(eager, CallRecord(state={"running_mean": x(1)})).findings
        found = compare(eager, CallRecord(state={"running_mean": x(0)})).findings
        assert found[0].kind == "mutation"
        assert "the write to buffer running_mean is lost" in found[0].message

    @pytest.mark.parametrize(
        ("before", "after", "said"),
        [
            ((0, 5), (0, 5), "buffer count differs from eager"),
            ((0, 5), (1, 6), "buffer count differs from eager"),
            ((0, 5), (1, 5), "the write to buffer count is lost"),
            ((0, 5), (0, 6), "compiled code changes buffer count, but eager does not"),
            ((0, 1), (1, 1), "nothing"),
        ],
        ids=["neither writes", "both write", "eager writes", "compiled writes", "eager catches up"],
    )
    def test_what_was_different_before_the_call_is_not_written_in_it(self, before, after, said):
        """Eager's and compiled's value of a buffer that an earlier call left different."""
        legs = [
            CallRecord(number=2, initial_state={"count": x(first)}, state={"count": x(then)})
            for first, then in zip(before, after, strict=True)
        ]
        assert [said in finding.message for finding in compare(*legs).findings] == ([] if said == "nothing" else [True])

    def test_parameter_after_steps_is_numerics(self):
        names = frozenset({"weight"})
        eager = CallRecord(state={"weight": x(1)}, optimizer_steps=1, parameters=names)
        wrong = CallRecord(state={"weight": x(2)}, optimizer_steps=1, parameters=names)
        found = compare(eager, wrong).findings
        assert found[0].kind == "numerics"
        assert "parameter weight differs" in found[0].message

    @pytest.mark.parametrize(("left", "right"), [(x(1), x(1)), (None, None)])
    def test_same_gradient(self, left, right):
        assert not compare(CallRecord(grads={"w": left}), CallRecord(grads={"w": right})).findings

    @pytest.mark.parametrize(("left", "right"), [(x(1), x(2)), (None, x(0)), (x(0), None)])
    def test_different_gradient(self, left, right):
        for field in ("grads", "input_grads"):
            found = compare(CallRecord(**{field: {"w": left}}), CallRecord(**{field: {"w": right}})).findings
            assert [finding.kind for finding in found] == ["gradient"]
            assert "grad of" in found[0].message


class TestAliasing:
    def record(self, make: Any) -> CallRecord:
        argument, weight = torch.zeros(4, 4), torch.zeros(4)
        return CallRecord(
            output=make(argument, weight),
            arguments=((argument,), {}),
            state={"w": weight},
            argument_names=("x",),
        )

    @pytest.mark.parametrize(
        "make",
        [
            lambda a, w: a,
            lambda a, w: [a[1:], a.view(-1)[4:8]],
            lambda a, w: (w, w),
            lambda a, w: a.clone(),
            lambda a, w: torch.empty(0),
        ],
    )
    def test_same(self, make):
        assert not compare(self.record(make), self.record(make)).findings

    @pytest.mark.parametrize(
        ("eager", "compiled", "said"),
        [
            (
                lambda a, w: a,
                lambda a, w: a.clone(),
                "output shares memory with argument x in eager, but not in compiled code",
            ),
            (
                lambda a, w: w.clone(),
                lambda a, w: w,
                "output shares memory with buffer w in compiled code, but not in eager",
            ),
            (
                lambda a, w: [w + 1, w + 1],
                lambda a, w: [w + 1] * 2,
                "output[1] shares memory with output[0] in compiled code",
            ),
            (
                lambda a, w: a[1],
                lambda a, w: a[2],
                "output starts at offset 4 from argument x in eager, but at offset 8",
            ),
        ],
    )
    def test_different(self, eager, compiled, said):
        found = compare(self.record(eager), self.record(compiled)).findings
        assert [finding.kind for finding in found] == ["aliasing"]
        assert said in found[0].message

    def test_can_be_switched_off(self):
        legs = self.record(lambda a, w: a), self.record(lambda a, w: a.clone())
        assert not compare(*legs, Tolerances(aliasing=False)).findings


class TestExceptions:
    class Wrapped(RuntimeError):
        pass

    def findings(self, eager: BaseException | None, compiled: BaseException | None) -> list[str]:
        return [headline(f) for f in compare(CallRecord(error=eager), CallRecord(error=compiled)).findings]

    def test_same(self):
        assert self.findings(ValueError("a"), ValueError("b")) == []
        assert self.findings(KeyError("a"), LookupError("b")) == []

    def test_wrapped(self):
        wrapped = self.Wrapped("backend failed")
        wrapped.__cause__ = IndexError("out of range")
        assert self.findings(IndexError("out of range"), wrapped) == []
        assert self.findings(ValueError("x"), self.Wrapped("Observed exception: ValueError('x')")) == []

    def test_one_leg_only(self):
        assert self.findings(ValueError("a"), None) == ["call 1: eager raises ValueError, but compiled code does not"]
        assert self.findings(None, ValueError("a")) == ["call 1: compiled code raises ValueError, but eager does not"]

    def test_of_other_kinds(self):
        assert self.findings(ValueError("a"), KeyError("b")) == [
            "call 1: eager raises ValueError, but compiled code raises KeyError"
        ]


class TestRandomStream:
    def test_consumed_differently(self):
        state = torch.arange(8, dtype=torch.uint8)
        eager, same, other = (CallRecord(rng={"cpu": s}) for s in (state, state.clone(), state + 1))
        assert not compare(eager, same).findings
        found = compare(eager, other).findings
        assert found[0].kind == "numerics"
        assert "compiled code advanced the random number generator of cpu differently" in found[0].message
        assert not compare(eager, other, Tolerances(rng=False)).findings
