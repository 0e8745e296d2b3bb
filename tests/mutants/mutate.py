"""Graphs with exactly one thing changed, chosen by seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import fx

aten, prims = torch.ops.aten, torch.ops.prims
Role = Literal["forward", "backward"]

OTHER_OP = {
    aten.add.Tensor: aten.sub.Tensor,
    aten.sub.Tensor: aten.add.Tensor,
    aten.mul.Tensor: aten.add.Tensor,
    aten.div.Tensor: aten.mul.Tensor,
    aten.exp.default: aten.expm1.default,
    aten.erf.default: aten.tanh.default,
    aten.tanh.default: aten.sigmoid.default,
    aten.sigmoid.default: aten.tanh.default,
    aten.relu.default: aten.abs.default,
    aten.rsqrt.default: aten.reciprocal.default,
    aten.cos.default: aten.sin.default,
    aten.sin.default: aten.cos.default,
    aten.neg.default: aten.abs.default,
    aten.maximum.default: aten.minimum.default,
    aten.minimum.default: aten.maximum.default,
}
SCALES = (aten.mul.Tensor, aten.div.Tensor, aten.mul.Scalar, aten.div.Scalar)
SWAPPABLE = (aten.sub.Tensor, aten.div.Tensor, aten.mm.default, aten.bmm.default)
REDUCTIONS = (aten.sum.dim_IntList, aten.mean.dim, aten.amax.default, aten.amin.default, aten.var_mean.correction)
SOFTMAX = (aten._softmax.default, aten._log_softmax.default, aten.cumsum.default)
RANDOM = (
    aten.native_dropout.default,
    aten.bernoulli.p,
    aten.bernoulli.default,
    aten.rand.default,
    aten.rand_like.default,
    aten.randn.default,
    aten.randn_like.default,
)
CONSTANTS = (aten.mul.Tensor, aten.div.Tensor, aten.add.Tensor, aten.sub.Tensor, aten.pow.Tensor_Scalar)
EPSILON, WRONG_EPSILON = 1e-3, 1e-2
NARROWER = {torch.float32: torch.bfloat16, torch.float16: torch.float8_e4m3fn, torch.bfloat16: torch.float8_e4m3fn}


@dataclass(frozen=True)
class Mutation:
    """One change to one node of a graph. ``apply`` makes it, in a copy that has nodes of the same names."""

    kind: str
    role: Role
    node: str
    change: str
    apply: Callable[[fx.Graph], None]

    def __str__(self) -> str:
        return f"{self.kind}: {self.change} at {self.node} ({self.role})"


def mutations(graph: fx.Graph, role: Role, outputs: int, rng: random.Random) -> list[Mutation]:
    """Everything that can be changed in a graph. ``outputs`` is how many of its results the caller sees."""
    found = [m for node in graph.nodes if node.op == "call_function" for m in _of_node(node, role, rng)]
    return found + list(_of_outputs(graph, role, outputs, rng))


def choose(candidates: list[Mutation], rng: random.Random) -> Mutation:
    """One of them: first the kind, so that frequent kinds do not crowd out the rare, then the place."""
    kinds = sorted({candidate.kind for candidate in candidates})
    kind = rng.choice(kinds)
    return rng.choice([candidate for candidate in candidates if candidate.kind == kind])


def mutated(graph: fx.Graph, mutation: Mutation) -> fx.Graph:
    """A copy of the graph with the change made."""
    twin = fx.Graph()
    twin.output(twin.graph_copy(graph, {}))
    output_of(twin).meta = dict(output_of(graph).meta)
    mutation.apply(twin)
    for node in twin.nodes:
        # A changed order of dimensions changes strides, which a view would refuse.
        if node.target is aten.view.default and mutation.kind == "changed dim":
            node.target = aten.reshape.default
    twin.lint()
    return twin


def output_of(graph: fx.Graph) -> fx.Node:
    """The node that returns the graph's results."""
    return next(node for node in graph.nodes if node.op == "output")


def _of_node(node: fx.Node, role: Role, rng: random.Random) -> Iterator[Mutation]:
    def mutation(kind: str, change: str, edit: Callable[[fx.Node], None]) -> Mutation:
        return Mutation(kind, role, node.name, change, lambda twin: edit(_find(twin, node.name)))

    for kind, make in KINDS.items():
        made = make(node, rng)
        if made is not None:
            yield mutation(kind, *made)


Edit = tuple[str, Callable[[fx.Node], None]]


def _find(graph: fx.Graph, name: str) -> fx.Node:
    return next(node for node in graph.nodes if node.name == name)


def _value(node: Any) -> torch.Tensor | None:
    value = node.meta.get("val") if isinstance(node, fx.Node) else None
    return value if isinstance(value, torch.Tensor) else None


def _floating(node: Any) -> bool:
    value = _value(node)
    return value is not None and value.is_floating_point()


def _other_op(node: fx.Node, rng: random.Random) -> Edit | None:
    other = OTHER_OP.get(node.target)
    if other is None or not _floating(node):
        return None
    return f"{node.target} became {other}", lambda twin: setattr(twin, "target", other)


def _dropped_scale(node: fx.Node, rng: random.Random) -> Edit | None:
    scale = node.args[1] if node.target in SCALES and len(node.args) > 1 else None
    if not isinstance(scale, float) or scale in (1.0, -1.0):
        return None
    return f"scale {scale:.4g} dropped", lambda twin: _become(twin, twin.args[0])


def _become(twin: fx.Node, value: fx.Node) -> None:
    if _value(value).dtype != _value(twin).dtype:
        with twin.graph.inserting_before(twin):
            value = _convert(twin.graph, value, _value(twin).dtype)
    twin.replace_all_uses_with(value)
    twin.graph.erase_node(twin)


def _convert(graph: fx.Graph, value: fx.Node, dtype: torch.dtype) -> fx.Node:
    node = graph.call_function(prims.convert_element_type.default, (value, dtype))
    node.meta = {"val": _value(value).to(dtype)}
    return node


def _swapped_operands(node: fx.Node, rng: random.Random) -> Edit | None:
    if node.target is aten.where.self:
        left, right = node.args[1], node.args[2]
    elif node.target in SWAPPABLE:
        left, right = node.args[0], node.args[1]
    else:
        return None
    one, two = _value(left), _value(right)
    if one is None or two is None or one.shape != two.shape or one.dtype != two.dtype or left is right:
        return None
    if one.dim() and node.target in (aten.mm.default, aten.bmm.default) and one.shape[-1] != one.shape[-2]:
        return None

    def edit(twin: fx.Node) -> None:
        *before, first, second = twin.args if twin.target is aten.where.self else twin.args[:2]
        twin.args = (*before, second, first)

    return "operands swapped", edit


def _changed_dim(node: fx.Node, rng: random.Random) -> Edit | None:
    value = _value(node.args[0]) if node.args else None
    if value is None or value.dim() < 2:
        return None
    if node.target in SOFTMAX:
        dim = node.args[1] % value.dim()
        others = [d for d in range(value.dim()) if d != dim and value.shape[d] > 1]
        return _edit_argument(1, rng.choice(others), "dim") if others else None
    if node.target in REDUCTIONS and len(node.args) > 1 and isinstance(node.args[1], (list, tuple)):
        dims = [d % value.dim() for d in node.args[1]]
        swaps = [
            (i, other)
            for i, dim in enumerate(dims)
            for other in range(value.dim())
            if other not in dims and value.shape[other] == value.shape[dim] and value.shape[dim] > 1
        ]
        if swaps:
            place, other = rng.choice(swaps)
            return _edit_argument(1, [*dims[:place], other, *dims[place + 1 :]], "dims")
    if node.target is aten.permute.default:
        dims = list(node.args[1])
        twins = [(i, j) for i in range(len(dims)) for j in range(i) if value.shape[dims[i]] == value.shape[dims[j]] > 1]
        if twins:
            i, j = rng.choice(twins)
            dims[i], dims[j] = dims[j], dims[i]
            return _edit_argument(1, dims, "dims")
    return None


def _edit_argument(position: int, new: Any, name: str) -> Edit:
    def edit(twin: fx.Node) -> None:
        twin.args = (*twin.args[:position], new, *twin.args[position + 1 :])

    return f"{name} became {new}", edit


def _changed_epsilon(node: fx.Node, rng: random.Random) -> Edit | None:
    if node.target is aten.add.Tensor and len(node.args) > 1 and _is_epsilon(node.args[1]):
        return _edit_argument(1, WRONG_EPSILON, f"epsilon {node.args[1]}")
    return None


def _is_epsilon(value: Any) -> bool:
    return isinstance(value, float) and 0 < value < EPSILON


def _truncated_dtype(node: fx.Node, rng: random.Random) -> Edit | None:
    value = _value(node)
    if value is None or value.dtype not in NARROWER or value.numel() < 2 or not node.users:
        return None
    narrow = NARROWER[value.dtype]

    def edit(twin: fx.Node) -> None:
        users = list(twin.users)
        with twin.graph.inserting_after(twin):
            short = _convert(twin.graph, twin, narrow)
            short.meta["mutation"] = True
        with twin.graph.inserting_after(short):
            back = _convert(twin.graph, short, value.dtype)
        for user in users:
            user.replace_input_with(twin, back)

    return f"{value.dtype} truncated to {narrow}", edit


def _constant_off(node: fx.Node, rng: random.Random) -> Edit | None:
    if node.target is aten.full.default and isinstance(node.args[1], float) and 1e-3 < abs(node.args[1]) < 1e4:
        return _edit_argument(1, node.args[1] * 1.01, f"constant {node.args[1]:.4g}")
    places = [
        i
        for i, value in enumerate(node.args)
        if node.target in CONSTANTS and isinstance(value, float) and EPSILON < abs(value) < 1e4
    ]
    if not places:
        return None
    place = rng.choice(places)
    return _edit_argument(place, node.args[place] * 1.01, f"constant {node.args[place]:.4g}")


def _off_by_one_slice(node: fx.Node, rng: random.Random) -> Edit | None:
    value = _value(node.args[0]) if node.args else None
    if value is None or len(node.args) < 3 or node.target not in (aten.select.int, aten.slice.Tensor):
        return None
    size = value.shape[node.args[1]] if isinstance(node.args[1], int) and value.dim() else 0
    if node.target is aten.select.int and size > 1:
        index = node.args[2] % size
        return _edit_argument(2, index + 1 if index + 1 < size else index - 1, "index")
    if node.target is not aten.slice.Tensor or len(node.args) < 4 or len(node.args) > 4:
        return None
    start, end = node.args[2] or 0, min(node.args[3], size)
    start, end = start % size if start < 0 else start, end % size if end < 0 else end
    if end < size:
        step = 1
    elif start > 0:
        step = -1
    else:
        return None

    def edit(twin: fx.Node) -> None:
        twin.args = (*twin.args[:2], start + step, end + step)

    return f"slice moved by {step}", edit


def _dropped_mask(node: fx.Node, rng: random.Random) -> Edit | None:
    if node.target is aten.where.self and all(_value(a) is not None for a in node.args):
        for kept in (2, 1):
            if _value(node.args[kept]).shape == _value(node).shape and _floating(node):
                return "mask dropped", lambda twin, kept=kept: _become(twin, twin.args[kept])
    return None


def _wrong_rng_offset(node: fx.Node, rng: random.Random) -> Edit | None:
    if node.target not in RANDOM:
        return None

    def edit(twin: fx.Node) -> None:
        # The same op once more in front of it: the stream is one draw further on.
        with twin.graph.inserting_before(twin):
            extra = twin.graph.call_function(twin.target, twin.args, twin.kwargs)
            extra.meta = dict(twin.meta)

    return "random stream one draw further", edit


KINDS: dict[str, Callable[[fx.Node, random.Random], Edit | None]] = {
    "another op": _other_op,
    "dropped scale": _dropped_scale,
    "swapped operands": _swapped_operands,
    "changed dim": _changed_dim,
    "changed epsilon": _changed_epsilon,
    "truncated dtype": _truncated_dtype,
    "constant off by 1 %": _constant_off,
    "off-by-one slice": _off_by_one_slice,
    "dropped mask": _dropped_mask,
    "wrong RNG offset": _wrong_rng_offset,
}


def _of_outputs(graph: fx.Graph, role: Role, outputs: int, rng: random.Random) -> Iterator[Mutation]:
    """Changes to what a graph returns: gradients doubled or detached, one element off."""
    results = output_of(graph).args[0]
    for position, result in enumerate(results[:outputs]):
        if not _floating(result):
            continue
        if role == "backward":
            yield _output_mutation("doubled gradient", role, result, position, _doubled)
            yield _output_mutation("detached gradient", role, result, position, _zeroed)
        elif _value(result).numel():
            index = rng.randrange(_value(result).numel())
            yield _output_mutation("one element changed", role, result, position, _one_element(index))


def _output_mutation(
    kind: str, role: Role, result: fx.Node, position: int, make: Callable[[fx.Graph, fx.Node], fx.Node]
) -> Mutation:
    def apply(graph: fx.Graph) -> None:
        output = output_of(graph)
        results = list(output.args[0])
        with graph.inserting_before(output):
            results[position] = make(graph, results[position])
        output.args = (type(output.args[0])(results),)

    return Mutation(kind, role, result.name, f"result {position}", apply)


def _call(graph: fx.Graph, like: fx.Node, target: Any, *args: Any) -> fx.Node:
    node = graph.call_function(target, args)
    node.meta = {"val": _value(like)}
    return node


def _doubled(graph: fx.Graph, value: fx.Node) -> fx.Node:
    return _call(graph, value, aten.mul.Tensor, value, 2.0)


def _zeroed(graph: fx.Graph, value: fx.Node) -> fx.Node:
    return _call(graph, value, aten.mul.Tensor, value, 0.0)


def _one_element(index: int) -> Callable[[fx.Graph, fx.Node], fx.Node]:
    def make(graph: fx.Graph, value: fx.Node) -> fx.Node:
        """The element plus the tensor's largest value: wrong by its own size, whatever the tensor's scale."""
        fake = _value(value)
        shape, flat_shape = list(fake.shape), [fake.numel()]
        flat = graph.call_function(aten.reshape.default, (value, flat_shape))
        flat.meta = {"val": fake.reshape(flat_shape)}
        ramp = graph.call_function(prims.iota.default, (fake.numel(),), _iota_options(fake))
        ramp.meta = {"val": fake.new_empty(flat_shape, dtype=torch.int64)}
        here = graph.call_function(aten.eq.Scalar, (ramp, index))
        here.meta = {"val": fake.new_empty(flat_shape, dtype=torch.bool)}
        size = graph.call_function(aten.abs.default, (flat,))
        size.meta = dict(flat.meta)
        top = graph.call_function(aten.amax.default, (size, [0], True))
        top.meta = {"val": fake.new_empty([1])}
        more = _call(graph, flat, aten.add.Tensor, flat, top)
        one = _call(graph, flat, aten.where.self, here, more, flat)
        return _call(graph, value, aten.reshape.default, one, shape)

    return make


def _iota_options(fake: torch.Tensor) -> dict[str, Any]:
    return {"start": 0, "step": 1, "dtype": torch.int64, "device": fake.device, "requires_grad": False}
