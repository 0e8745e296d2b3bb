"""What the caller has is exactly as it was after a check, however the check ends.

One model writes to everything that a run can reach. It is photographed before and after a check of each outcome, and a test
compares each side of the two photographs.
"""

from __future__ import annotations

import collections
import functools
import gc
import itertools
import os
import random
import threading
import weakref
from contextlib import suppress
from dataclasses import dataclass

import pytest

torch = pytest.importorskip("torch")
numpy = pytest.importorskip("numpy")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from pytest_torch_compile import CompileCheckFailed, CompileUsageError, call, check_compile  # noqa: E402

LOOSE = {"max_graph_breaks": 99, "max_recompiles": 99}
STEPS = 0
HISTORY = [1, 2]
TABLE = {"b": 1, "a": [2]}
SCALES = weakref.WeakKeyDictionary()
BY_ID = {}
LOCAL = threading.local()


def helper(x, memo=[], *, named={}):  # noqa: B006
    memo.append(x)
    named[x] = x
    helper.calls += 1


helper.calls = 0


def counting():
    count, seen = 0, []

    def step():
        nonlocal count
        count += 1
        seen.append(count)

    return step


step = counting()
bound = functools.partial(lambda kept, value: kept.append(value), [])


def interrupting():
    """A backend whose second graph, which begins after the writes, is interrupted when it runs."""
    runs = []

    def backend(gm, inputs):
        def run(*args):
            runs.append(1)
            if len(runs) == 2:
                raise KeyboardInterrupt
            return gm(*args)

        return run

    return backend


class Base(nn.Module):
    registry = ["base"]
    total = 0


class Everything(Base):
    """A model that writes to all that it reaches."""

    def __init__(self, fault=""):
        super().__init__()
        self.fault = fault
        self.linear, self.tied = nn.Linear(4, 4), nn.Linear(4, 4)
        self.tied.weight = self.linear.weight
        self.norm, self.act = nn.BatchNorm1d(4), nn.Tanh()
        self.weight = nn.Parameter(torch.ones(4))
        self.weight.rate = 2.0
        self.weight.grad = torch.full((4,), 0.5)
        self.register_buffer("flat", torch.arange(8.0))
        self.register_buffer("scratch", torch.zeros(4), persistent=False)
        self.part, self.memory = self.flat[4:], torch.zeros(4)
        self.seen, self.table, self.names = [1], {"b": 1, "a": [2]}, {"one", "two"}
        self.alias, self.window = self.seen, collections.deque([1, 2, 3], maxlen=3)
        self.stream, self.rng = random.Random(3), numpy.random.default_rng(5)
        self.generator = torch.Generator().manual_seed(1)
        self.scales, self.numbers = iter([1, 2, 3]), itertools.count(5)
        self.flags, self.array = bytearray(4), numpy.zeros(3)
        self.parent = weakref.ref(self)
        SCALES[self], BY_ID[id(self)] = 1, 1
        self.linear.register_forward_hook(lambda module, args, output: output * 1.0)
        self.linear.bias.register_hook(lambda grad: grad * 1.0)
        self.weight.register_post_accumulate_grad_hook(lambda parameter: None)

    @torch.compiler.disable
    def write(self):
        global STEPS, LATE
        STEPS += 1
        LATE = True
        HISTORY.append(3)
        TABLE.pop("b", None)
        TABLE["a"].append(3)
        TABLE["b"] = 2
        SCALES[self], BY_ID[id(self)] = 2, 2
        LOCAL.step = 2
        helper(1)
        step()
        bound(1)
        Base.registry.append("late")
        Base.total += 1
        type(self).late = 1
        self.seen.append(2)
        self.table.pop("b", None)
        self.table["b"] = 2
        self.names.add("three")
        self.window.append(4)
        self.stream.random(), self.rng.random(), torch.rand(1, generator=self.generator)
        next(self.scales), next(self.numbers)
        self.flags[0], self.array[0] = 1, 1.0
        self.weight.rate, self.late = 3.0, "late"
        self.act = nn.ReLU()
        self.scratch = torch.ones(4)
        self.register_buffer("late_buffer", torch.ones(1))
        self.tied.register_forward_hook(lambda module, args, output: None)
        self.norm.eval()
        random.random(), numpy.random.rand(), torch.rand(1)
        os.environ["CALLERS_WORLD"] = "left"
        if self.fault == "interrupted in eager":
            raise KeyboardInterrupt
        if self.fault == "raises":
            raise ValueError("too much")

    def forward(self, x, bag):
        x.mul_(2)
        self.flat.add_(1)
        self.memory.add_(x.detach().mean(0))
        y = self.norm(self.act(self.tied(self.linear(x)))) * self.weight
        if self.fault == "fails" and torch.compiler.is_compiling():
            y = y * 3
        self.write()
        bag["last"] = y.detach()
        bag["sizes"].append(len(x))
        return F.dropout(y, 0.5) + self.part


def sgd(params):
    return torch.optim.SGD(params, lr=0.1, momentum=0.9)


OUTCOMES = {
    "passes": (None, {}),
    "passes in training": (None, {"train": True}),
    "passes with an optimizer": (None, {"optimizer": sgd, "steps": 2}),
    "fails": (CompileCheckFailed, {}),
    "raises": (CompileUsageError, {}),
    "interrupted in eager": (KeyboardInterrupt, {}),
    "interrupted compiled": (KeyboardInterrupt, {"train": True}),
}


@dataclass
class Photographs:
    before: dict
    after: dict
    raised: BaseException | None
    expected: type | None
    kept: list


def bits(tensor):
    return tensor.detach().clone().numpy().tobytes()


def tensors_of(model, x, bag):
    named = {**dict(model.named_parameters(remove_duplicate=False)), **dict(model.named_buffers())}
    return {**named, "part": model.part, "memory": model.memory, "x": x, "mask": bag["mask"]}


def table(mapping):
    return [(key, id(value)) for key, value in mapping.items()]


def photograph(model, x, bag, kept):
    """What the caller can see, one side after the other. ``kept`` holds what is named by its address."""
    tensors = tensors_of(model, x, bag)
    modules = dict(model.named_modules())
    grads = {name: tensor.grad for name, tensor in tensors.items() if tensor.is_leaf}
    kept += [*tensors.values(), *grads.values(), *modules.values(), *(dict(vars(one)) for one in modules.values())]
    hooks = [name for name in vars(model) if name.endswith("_hooks")]
    return {
        "contents": {name: bits(tensor) for name, tensor in tensors.items()},
        "identities": {name: id(tensor) for name, tensor in tensors.items()},
        "addresses": {name: tensor.data_ptr() for name, tensor in tensors.items()},
        "versions": {name: tensor._version for name, tensor in tensors.items()},
        "requires_grad": {name: (tensor.requires_grad, tensor.is_leaf) for name, tensor in tensors.items()},
        "gradients": {n: None if g is None else (id(g), bits(g), g._version, g.data_ptr()) for n, g in grads.items()},
        "tensor hooks": {
            name: (table(tensor._backward_hooks or {}), table(tensor._post_accumulate_grad_hooks or {}))
            for name, tensor in tensors.items()
            if tensor.is_leaf
        },
        "tensor attributes": vars(model.weight).copy(),
        "module hooks": {name: {kind: table(getattr(one, kind)) for kind in hooks} for name, one in modules.items()},
        "module tables": {
            name: (
                table(one._parameters),
                table(one._buffers),
                table(one._modules),
                one._non_persistent_buffers_set.copy(),
            )
            for name, one in modules.items()
        },
        "training": {name: one.training for name, one in modules.items()},
        "attributes": {name: table(vars(one)) for name, one in modules.items()},
        "containers": (
            list(model.seen),
            model.alias is model.seen,
            list(model.table.items()),
            sorted(model.names),
            (list(model.window), model.window.maxlen),
        ),
        "argument containers": (list(bag), list(bag["sizes"]), id(bag["sizes"])),
        "globals": (STEPS, id(HISTORY), list(HISTORY), list(TABLE.items()), list(TABLE["a"]), id(TABLE["a"])),
        "tables by object": (dict(SCALES), dict(BY_ID), model.parent() is model),
        "thread-local values": vars(LOCAL).copy(),
        "closures": [repr(cell.cell_contents) for cell in step.__closure__],
        "defaults": (list(helper.__defaults__[0]), dict(helper.__kwdefaults__["named"]), list(bound.args[0])),
        "function attributes": vars(helper).copy(),
        "class attributes": (list(Base.registry), Base.total, sorted(vars(Everything))),
        "random states": (torch.get_rng_state().tolist(), random.getstate(), repr(numpy.random.get_state())),
        "own random states": (
            model.stream.getstate(),
            repr(model.rng.bit_generator.state),
            model.generator.get_state().tolist(),
        ),
        "iterators": (model.scales.__reduce__(), repr(model.numbers)),
        "arrays": (bytes(model.flags), model.array.tobytes(), model.array.ctypes.data),
        "modes": modes(),
        "environment": environment(),
        "module names": {name for name in globals() if not name.startswith("_")},  # dynamo's own have one
    }


def environment():
    """All variables but those that torch sets for itself where it compiles first."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("TORCH", "TRITON"))}


def modes():
    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.get_default_dtype(),
        torch.get_default_device(),
        torch.is_autocast_enabled("cpu"),
        torch.get_autocast_dtype("cpu"),
        torch.are_deterministic_algorithms_enabled(),
        torch.get_float32_matmul_precision(),
        torch.is_anomaly_enabled(),
    )


@pytest.fixture(params=list(OUTCOMES))
def photographs(request):
    return taken(request.param)


@functools.cache  # in place of a module's fixture, which the random order of the tests would make anew for most of them
def taken(outcome):
    """One check of a model that writes to everything, photographed before and after."""
    expected, options = OUTCOMES[outcome]
    torch.manual_seed(0)
    LOCAL.step = 1
    model, x, bag = Everything(outcome), torch.randn(6, 4), {"mask": torch.ones(4), "sizes": [1], "first": None}
    kept, raised = [model, x, bag], None
    before = photograph(model, x, bag, kept)
    try:
        backend = interrupting() if outcome == "interrupted compiled" else "eager"
        check_compile(model, x, bag, backend=backend, **LOOSE, **options)
    except BaseException as error:
        raised = error
    after = photograph(model, x, bag, kept)
    os.environ.pop("CALLERS_WORLD", None)
    globals().pop("LATE", None)
    return Photographs(before, after, raised, expected, kept)


SIDES = [
    "contents",
    "identities",
    "addresses",
    "versions",
    "requires_grad",
    "gradients",
    "tensor hooks",
    "tensor attributes",
    "module hooks",
    "module tables",
    "training",
    "attributes",
    "containers",
    "argument containers",
    "globals",
    "tables by object",
    "thread-local values",
    "closures",
    "defaults",
    "function attributes",
    "class attributes",
    "random states",
    "own random states",
    "iterators",
    "arrays",
    "modes",
    "environment",
    "module names",
]


def test_check_ends_as_meant(photographs):
    if photographs.expected is None and photographs.raised is not None:
        raise photographs.raised
    assert type(photographs.raised) is (photographs.expected or type(None))


@pytest.mark.parametrize("side", SIDES)
def test_world_is_as_before(photographs, side):
    assert photographs.after[side] == photographs.before[side]


def test_every_side_is_compared(photographs):
    assert sorted(photographs.before) == sorted(SIDES)


class Writes(nn.Module):
    """A model that writes a buffer which its backward needs, and may end in several ways."""

    def __init__(self, fault=""):
        super().__init__()
        self.fault = fault
        self.linear = nn.Linear(4, 4)
        self.register_buffer("scale", torch.ones(4))

    @torch.compiler.disable
    def end(self):
        if self.fault == "raises":
            raise ValueError("too much")
        if self.fault == "interrupted in eager":
            raise KeyboardInterrupt

    def forward(self, x):
        self.scale.mul_(2)
        y = self.linear(x) * self.scale
        if self.fault == "fails" and torch.compiler.is_compiling():
            y = y * 3
        self.end()
        return y + 1


ENDS = {"": {}, "fails": {}, "raises": {}, "interrupted in eager": {}}


@pytest.mark.parametrize("train", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("fault", ENDS, ids=lambda fault: fault or "passes")
def test_graph_of_the_caller_still_runs_backward(fault, train):
    model, alone = Writes(), Writes()
    alone.load_state_dict(model.state_dict())
    x = torch.randn(2, 4, requires_grad=True)
    loss = model(x).sum()
    model.fault = fault
    try:
        check_compile(model, x, train=train, backend="eager", **LOOSE)
    except (CompileCheckFailed, CompileUsageError, KeyboardInterrupt):
        assert fault
    loss.backward()
    other = x.detach().clone().requires_grad_()
    alone(other).sum().backward()
    assert torch.equal(model.linear.weight.grad, alone.linear.weight.grad) and torch.equal(x.grad, other.grad)


def test_graph_of_the_caller_survives_optimizer_steps():
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
    loss = model(torch.randn(2, 4)).sum()
    check_compile(model, torch.randn(3, 4), train=True, optimizer=sgd, steps=2, backend="aot_eager")
    loss.backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_graph_of_the_caller_behind_an_input_survives():
    first, second = nn.Linear(4, 4), nn.Linear(4, 4)
    x = first(torch.randn(2, 4))
    x.retain_grad()
    check_compile(second, x, train=True, backend="aot_eager")
    assert x.grad is None and first.weight.grad is None and not x.is_leaf
    x.sum().backward()
    assert torch.equal(x.grad, torch.ones(2, 4)) and first.weight.grad is not None


def test_optimizer_of_the_caller_is_as_before():
    model = nn.Linear(4, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    model(torch.ones(3, 4)).sum().backward()
    optimizer.step()
    state = optimizer.state[model.weight]
    kept = {name: (value, value.clone(), value._version) for name, value in state.items()}
    weight, grad = model.weight.detach().clone(), model.weight.grad
    with suppress(CompileCheckFailed):  # the world is as before whatever the verdict
        check_compile(optimizer.step, calls=[call(), call()], backend="aot_eager", **LOOSE)
    assert optimizer.state[model.weight] is state and list(state) == list(kept)
    for name, (value, contents, version) in kept.items():
        assert state[name] is value and torch.equal(value, contents) and value._version == version
    assert torch.equal(model.weight, weight) and model.weight.grad is grad
    assert optimizer.param_groups[0]["params"][0] is model.weight


def test_fresh_optimizer_of_the_caller_has_no_state_afterwards():
    weight = nn.Parameter(torch.ones(3))
    weight.grad = torch.ones(3)
    optimizer = torch.optim.SGD([weight], lr=0.1, momentum=0.9)
    check_compile(optimizer.step, calls=[call(), call()], backend="aot_eager", **LOOSE)
    assert len(optimizer.state) == 0 and torch.equal(weight, torch.ones(3))


class Single(nn.Module):
    """A model that cannot be copied, and holds what cannot."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.lock, self.source = threading.Lock(), (number for number in range(3))
        self.seen = []

    def __deepcopy__(self, memo):
        raise RuntimeError("this model exists once")

    __reduce_ex__ = __copy__ = __deepcopy__

    def forward(self, x):
        self.seen.append(1)
        return self.linear(x).tanh()


def test_model_that_cannot_be_copied_is_as_before():
    model = Single()
    seen, weight = model.seen, model.linear.weight
    report = check_compile(model, torch.randn(2, 4), train=True, backend="aot_eager")
    assert report.ok and model.seen is seen and seen == [] and model.linear.weight is weight and weight.grad is None
    assert next(model.source) == 0 and not model.lock.locked()


def test_every_leg_runs_on_the_objects_of_the_caller():
    reader, writer = os.pipe()  # what was written there no check can put back

    class Located(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4))

        @torch.compiler.disable
        def note(self, x):
            if x.dtype == torch.float32:
                os.write(
                    writer, f"{id(self)} {id(self.weight)} {self.weight.data_ptr()} {id(x)} {x.data_ptr()}\n".encode()
                )

        def forward(self, x):
            y = x * self.weight + 1
            self.note(x)
            return y * 2

    model, x = Located(), torch.randn(4)
    try:
        check_compile(model, x, backend="eager", **LOOSE)
    finally:
        os.close(writer)
    with os.fdopen(reader) as lines:
        places = lines.read().splitlines()
    assert len(places) >= 2
    assert set(places) == {f"{id(model)} {id(model.weight)} {model.weight.data_ptr()} {id(x)} {x.data_ptr()}"}


SWITCHES = {
    "default dtype": (lambda: torch.set_default_dtype(torch.float64), torch.get_default_dtype),
    "default device": (lambda: torch.set_default_device("meta"), torch.get_default_device),
    "deterministic": (lambda: torch.use_deterministic_algorithms(True), torch.are_deterministic_algorithms_enabled),
    "precision": (lambda: torch.set_float32_matmul_precision("medium"), torch.get_float32_matmul_precision),
    "cuDNN's benchmark mode": (
        lambda: setattr(torch.backends.cudnn, "benchmark", True),
        lambda: torch.backends.cudnn.benchmark,
    ),
    "TF32 in convolutions": (
        lambda: setattr(torch.backends.cudnn, "allow_tf32", False),
        lambda: torch.backends.cudnn.allow_tf32,
    ),
    "attention": (lambda: torch.backends.cuda.enable_math_sdp(False), torch.backends.cuda.math_sdp_enabled),
    "grad mode": (lambda: torch.set_grad_enabled(False), torch.is_grad_enabled),
    "autocast": (lambda: torch.set_autocast_enabled("cpu", True), lambda: torch.is_autocast_enabled("cpu")),
    "autocast dtype": (
        lambda: torch.set_autocast_dtype("cpu", torch.float16),
        lambda: torch.get_autocast_dtype("cpu"),
    ),
    "anomaly": (lambda: torch.autograd.set_detect_anomaly(True), torch.is_anomaly_enabled),
    "environment": (lambda: os.environ.update(CALLERS_WORLD="1"), environment),
    "variable of the environment that is gone": (lambda: os.environ.pop("HOME", None), environment),
}


@pytest.fixture
def own_modes():
    """Puts back by hand what a check may leave."""
    precision, autocast = torch.get_float32_matmul_precision(), torch.get_autocast_dtype("cpu")
    dtype, variables = torch.get_default_dtype(), dict(os.environ)
    yield
    torch.set_default_device(None)
    torch.set_default_dtype(dtype)
    torch.use_deterministic_algorithms(False)
    torch.backends.cudnn.benchmark, torch.backends.cudnn.allow_tf32 = False, True
    torch.backends.cuda.enable_math_sdp(True)
    torch.set_float32_matmul_precision(precision)
    torch.set_grad_enabled(True)
    torch.set_autocast_enabled("cpu", False)
    torch.set_autocast_dtype("cpu", autocast)
    torch.autograd.set_detect_anomaly(False)
    os.environ.clear()
    os.environ.update(variables)


@pytest.mark.parametrize("fault", ["passes", "fails", "raises", "interrupted"])
@pytest.mark.parametrize("name", SWITCHES)
def test_mode_that_a_run_leaves_is_put_back(own_modes, name, fault):
    change, read = SWITCHES[name]
    before = read()

    @torch.compiler.disable
    def leave():
        change()
        if fault == "raises":
            raise ValueError("too much")
        if fault == "interrupted":
            raise KeyboardInterrupt

    def target(x):
        y = x.sin() * (3 if fault == "fails" and torch.compiler.is_compiling() else 2)
        leave()
        return y

    try:
        check_compile(target, torch.randn(4), backend="eager", **LOOSE)
    except (CompileCheckFailed, CompileUsageError, KeyboardInterrupt):
        # Compiled code takes back what it switches on here (precision on torch 2.6), so that the check itself fails.
        assert fault != "passes" or name in ("autocast", "precision")
    assert read() == before


@pytest.mark.parametrize("train", [False, True], ids=["inference", "training"])
def test_wrapper_that_changes_its_target_leaves_the_model_of_the_caller(train):
    def regional(model):
        model[0] = torch.compile(model[0], backend="eager")
        model[1].compile(backend="eager")
        model[2].half().float()
        model.extra = "left"
        return model

    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4))
    blocks = list(model)
    contents = [(p, p.data_ptr(), p._version, p.detach().clone()) for p in model.parameters()]
    try:
        check_compile(model, torch.randn(2, 4), compile=regional, train=train, **LOOSE)
    except CompileCheckFailed as failure:
        assert {finding.kind for finding in failure.findings} <= {"numerics", "gradient", "mutation", "state"}  # noqa: PT017
    assert list(model) == blocks and model[1]._compiled_call_impl is None and not hasattr(model, "extra")
    for parameter, (same, address, version, before) in zip(model.parameters(), contents, strict=True):
        assert parameter is same and parameter.data_ptr() == address and parameter._version == version
        assert torch.equal(parameter, before)


def test_lazy_layers_of_the_caller_stay_lazy():
    model = nn.Sequential(nn.LazyLinear(4), nn.Tanh())
    kinds = [type(module) for module in model]
    check_compile(model, torch.randn(2, 3), backend="eager", **LOOSE)
    assert [type(module) for module in model] == kinds and nn.parameter.is_lazy(model[0].weight)
    assert model(torch.randn(2, 5)).shape == (2, 4)


def test_sparse_and_nested_arguments_are_as_before():
    adjacency, weights = torch.eye(4).to_sparse_csr(), torch.eye(4).to_sparse().coalesce()
    parts = torch.nested.nested_tensor([torch.ones(2, 4), torch.ones(3, 4)], layout=torch.jagged)

    @torch.compiler.disable
    def write():
        adjacency.values().mul_(2)
        weights.mul_(2)
        parts.values().mul_(2)

    def target(x, adjacency, weights, parts):
        y = x.sin() * 2
        write()
        return y + 1

    check_compile(target, torch.randn(4), adjacency, weights, parts, backend="eager", **LOOSE)
    assert torch.equal(adjacency.to_dense(), torch.eye(4)) and torch.equal(weights.to_dense(), torch.eye(4))
    assert torch.equal(parts.values(), torch.ones(5, 4))


def test_inputs_that_overlap_are_as_before():
    base = torch.arange(6.0)
    first, second, wide = base[:4], base[2:], base[:1].expand(3)

    def target(first, second, wide):
        first.mul_(2)
        second.add_(1)
        return wide * 2

    check_compile(target, first, second, wide, backend="eager", **LOOSE)
    assert base.tolist() == list(range(6)) and first._base is base and base._version == 0


def test_inference_tensors_are_as_before():
    with torch.inference_mode():
        x = torch.ones(4)

    def target(x):
        x.mul_(2)
        return x.sin() * 2

    check_compile(target, calls=[call(x).under(torch.inference_mode)] * 2, backend="eager", **LOOSE)
    assert torch.equal(x, torch.ones(4)) and x.is_inference()


def test_user_code_is_not_run_by_the_check():
    asked = []

    class Private:
        def refuse(self, *args):
            asked.append(args)
            raise RuntimeError("this is private")

        __len__ = __eq__ = __bool__ = __repr__ = __iter__ = __hash__ = __getattr__ = __contains__ = refuse

        @property
        def width(self):
            return self.refuse()

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.private = [Private()]
            self.linear = nn.Linear(4, 4)

        def forward(self, x):
            return self.linear(x)

    check_compile(Model(), torch.randn(2, 4), train=True, backend="eager")
    assert asked == []


def stream_model(wrong=False):
    """A model with a generator that has run already, which nobody can put back."""

    class Fed(nn.Module):
        def __init__(self):
            super().__init__()
            self.source = (scale for scale in (1.0, 2.0, 4.0))
            next(self.source)

        @torch.compiler.disable
        def draw(self):
            return next(self.source)

        def forward(self, x):
            y = x.sin() * (3 if wrong and torch.compiler.is_compiling() else 2)
            return y * self.draw()

    return Fed()


def test_factory_builds_the_target_afresh_for_each_leg():
    from pytest_torch_compile import factory

    made = []

    def make_model():
        made.append(1)
        return stream_model()

    report = check_compile(factory(make_model), torch.randn(4), backend="eager", **LOOSE)
    assert report.ok and report.observation.not_observable == [] and len(made) >= 2


def test_factory_hides_no_defect():
    from pytest_torch_compile import factory

    with pytest.raises(CompileCheckFailed) as failure:
        check_compile(factory(lambda: stream_model(wrong=True)), torch.randn(4), backend="eager", **LOOSE)
    assert [finding.kind for finding in failure.value.findings] == ["numerics"]


def test_factory_under_training_with_an_optimizer():
    from pytest_torch_compile import factory

    report = check_compile(
        factory(lambda: nn.Linear(4, 4)), torch.randn(2, 4), optimizer=sgd, steps=2, backend="aot_eager"
    )
    assert report.ok


def test_running_generator_without_a_factory_is_not_green_without_a_word():
    model = stream_model(wrong=True)
    with pytest.raises(CompileCheckFailed) as failure:
        check_compile(model, torch.randn(4), backend="eager", **LOOSE)
    assert {finding.kind for finding in failure.value.findings} <= {"numerics", "not-observable"}


@torch.inference_mode()
def sums(x):
    return x.view(2, -1).sum(1)


def test_failed_compilation_inside_inference_mode_leaves_the_process_as_before():
    """AOTAutograd raises inside the mode, and torch's own context objects stay in the traceback of the exception."""
    with pytest.raises(CompileCheckFailed) as failure:
        check_compile(lambda x: sums(x), torch.ones(2, 4, dtype=torch.long), backend="aot_eager")
    assert {finding.kind for finding in failure.value.findings} == {"compile-error"}
    assert not torch.is_inference_mode_enabled()
    del failure
    gc.collect()
    assert torch.rand(3).sum() > 0
    check_compile(nn.Linear(2, 2), torch.rand(2, 2), train=True, backend="aot_eager")


def test_check_inside_the_callers_inference_mode_leaves_it_on():
    with torch.inference_mode():
        check_compile(lambda x: x.sin() * 2, torch.rand(3), backend="aot_eager")
        assert torch.is_inference_mode_enabled()
    assert not torch.is_inference_mode_enabled() and torch.rand(3, requires_grad=True).sum().requires_grad
