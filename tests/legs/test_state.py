"""State that a target keeps apart from parameters and buffers: compared, the same at each start, put back."""

from __future__ import annotations

import functools
import importlib
import linecache
import os
import sys
import threading
import types
import warnings
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from pytest_torch_compile import (  # noqa: E402
    CompileCheckFailed,
    CompileCheckWarning,
    CompileReport,
    CompileUsageError,
    Tolerances,
    call,
    check_compile,
)
from pytest_torch_compile.legs.holders import Memory  # noqa: E402
from pytest_torch_compile.legs.work import Work  # noqa: E402
from pytest_torch_compile.legs.world import World  # noqa: E402
from pytest_torch_compile.report.failure_text import headline  # noqa: E402

OF_TORCH = {"2.6.": ["compile-error"], "2.7.": ["nothing-compiled"], "2.8.": ["nothing-compiled"]}
STEPS = 0
TOTAL = torch.zeros(3)
HISTORY: list[Any] = []
TABLE: dict[str, Any] = {}


def found(*args: Any, **options: Any) -> list[tuple[str, str]]:
    """Kind and message of each finding of a check under the eager backend."""
    try:
        check_compile(*args, backend="eager", **options)
    except CompileCheckFailed as failure:
        return [(finding.kind, headline(finding)) for finding in failure.findings]
    return []


def advance(x: Any) -> Any:
    global STEPS
    STEPS += 1
    TOTAL.add_(x)
    HISTORY.append(x.mean())
    TABLE["last"] = x + 1
    return x * STEPS * (10 if wrong() else 1)


def wrong() -> bool:
    return torch.compiler.is_compiling() and DEFECT[0]


DEFECT = [False]


@pytest.fixture
def defect() -> Any:
    DEFECT[0] = True
    yield
    DEFECT[0] = False


class Cache(nn.Module):
    """Keeps keys in plain attributes, as many decoders do."""

    def __init__(self) -> None:
        super().__init__()
        self.keys = torch.zeros(4, 3)
        self.position = 0
        self.lengths: list[int] = []

    def forward(self, x: Any) -> Any:
        if not wrong():
            self.keys[self.position] = x
        self.position += 1
        self.lengths.append(x.shape[0])
        return x * 2


def test_built_in_modules_are_no_state_of_a_target() -> None:
    def target(x: Any) -> Any:
        return x * len(sys.modules.get("torch").__name__)

    found(target, torch.ones(3), fullgraph=False, max_graph_breaks=9)
    world = World(Work(target, [call(torch.ones(3))]))
    assert not any(variable.label.startswith("global sys") for variable in world.snapshot.variables())


def test_global_state_is_the_same_for_each_leg_and_put_back() -> None:
    assert found(advance, calls=[torch.ones(3)] * 3, max_recompiles=3) == []
    assert STEPS == 0 and HISTORY == [] and TABLE == {} and TOTAL.sum() == 0


def test_shared_state_does_not_hide_wrong_numbers(defect: None) -> None:
    assert [kind for kind, _ in found(advance, torch.ones(3))] == ["numerics"]


def test_attributes_that_are_no_buffers_may_change() -> None:
    model = Cache()
    assert found(model, calls=[torch.ones(3)] * 2, max_recompiles=1) == []
    assert model.position == 0 and model.lengths == [] and model.keys.sum() == 0


def test_a_lost_write_to_an_attribute_is_found(defect: None) -> None:
    assert found(Cache(), torch.ones(3)) == [
        ("state", "call 1: the write to attribute keys is lost: eager changes it, but compiled code does not")
    ]


def test_state_can_be_left_out_by_name_or_altogether(defect: None) -> None:
    assert found(Cache(), torch.ones(3), tolerances=Tolerances(ignored=["attribute keys"])) == []
    assert found(Cache(), torch.ones(3), tolerances=Tolerances(state=False)) == []
    with pytest.raises(ValueError, match="it must be a list of patterns"):
        Tolerances(ignored="attribute keys")


def test_closed_over_variables_are_compared_and_put_back() -> None:
    count, seen = 0, []

    def target(x: Any) -> Any:
        nonlocal count
        count += 1 if not wrong() else 2
        seen.append(count)
        return x * 2

    assert found(target, torch.ones(3)) == []
    assert (count, seen) == (0, [])
    DEFECT[0] = True
    try:
        assert found(target, torch.ones(3)) == [
            ("state", "call 1: variable count is 1 in eager, but 2 in compiled code"),
            ("state", "call 1: variable seen[0] is 1 in eager, but 2 in compiled code"),
        ]
    finally:
        DEFECT[0] = False


class Counted:
    """A callable object that counts on its class."""

    total = 0

    def __call__(self, x: Any) -> Any:
        if not wrong():
            type(self).total += 1
        return x.sin()


def test_class_attributes_are_compared_and_put_back(defect: None) -> None:
    assert found(Counted(), torch.ones(3)) == [
        ("state", "call 1: class attribute Counted.total is 1 in eager, but 0 in compiled code")
    ]
    assert Counted.total == 0


def test_what_a_compile_wrapper_adds_is_no_difference_and_what_it_changes_is_one() -> None:
    def adds(model: Any) -> Any:
        model.wrapped = True
        return torch.compile(model, backend="eager")

    def changes(model: Any) -> Any:
        return torch.compile(model.eval(), backend="eager")

    check_compile(nn.Linear(3, 3), torch.ones(3), compile=adds)
    with pytest.raises(CompileCheckFailed, match="attribute training is True in eager, but False in compiled code"):
        check_compile(nn.Linear(3, 3), torch.ones(3), compile=changes)


def test_functions_that_dynamo_knows_by_identity_stay_the_same_functions() -> None:
    from torch.utils.checkpoint import checkpoint

    layer = nn.Linear(4, 4)
    allowed = torch.compiler.allow_in_graph(lambda x: x * 2)
    image = torch.randn(1, 1, 4, 4)
    # torch.compile(F.max_pool2d) itself raises on 2.6, and compiles nothing on 2.8.
    assert [kind for kind, _ in found(F.max_pool2d, image, 2)] == OF_TORCH.get(torch.__version__[:4], [])
    assert found(functools.partial(F.max_pool2d, kernel_size=2), image) == []
    assert found(lambda x: checkpoint(layer, x, use_reentrant=False), torch.randn(2, 4), train=True) == []
    assert found(lambda x: allowed(layer(x)), torch.randn(2, 4)) == []


def test_what_cannot_be_copied_is_no_obstacle() -> None:
    model = nn.Linear(4, 4)
    model.lock = threading.Lock()
    model.lines = (line for line in "abc")
    assert found(model, torch.randn(2, 4)) == []


@pytest.mark.filterwarnings("ignore:.*weight_norm. is deprecated:FutureWarning")
def test_weight_norm_of_the_old_style_is_checked() -> None:
    assert found(nn.utils.weight_norm(nn.Linear(4, 4)), torch.randn(2, 4), train=True) == []


class Stamped(nn.Module):
    """Keeps another number each time it runs."""

    def forward(self, x: Any) -> Any:
        self.key = next_key()
        return x.sin()


@torch.compiler.disable
def next_key() -> int:
    return int.from_bytes(os.urandom(8), "big")


def test_what_eager_itself_does_not_repeat_is_named_in_a_warning() -> None:
    with pytest.warns(CompileCheckWarning, match="Stamped: attribute key could not be compared") as warned:
        report: CompileReport = check_compile(
            Stamped(), torch.ones(3), backend="eager", fullgraph=False, max_graph_breaks=1
        )
    assert [one.filename for one in warned] == [__file__], "the warning is about a line of the package"
    assert report.ok and report.numerics.not_compared == ("attribute key",)


def test_the_warning_can_be_made_a_failure() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", CompileCheckWarning)
        with pytest.raises(CompileCheckWarning, match="attribute key"):
            check_compile(Stamped(), torch.ones(3), backend="eager", fullgraph=False, max_graph_breaks=1)


@pytest.mark.parametrize("tolerances", [Tolerances(ignored=["attribute key"]), Tolerances(state=False)], ids=str)
def test_excluded_state_is_in_no_warning_and_in_no_remark(tolerances: Tolerances) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", CompileCheckWarning)
        report = check_compile(
            Stamped(), torch.ones(3), backend="eager", fullgraph=False, max_graph_breaks=1, tolerances=tolerances
        )
    assert not report.numerics.not_compared and not report.remarks


@torch.compiler.disable
def noisy_integer() -> torch.Tensor:
    return torch.tensor([next_key() % 2**40])


def counted(x: torch.Tensor) -> torch.Tensor:
    return x.sin().sum().long() + noisy_integer()


@pytest.mark.filterwarnings("ignore::pytest_torch_compile.CompileCheckWarning")
@pytest.mark.parametrize("tolerances", [None, Tolerances(rtol=1e-2, atol=1e-2)], ids=str)
def test_an_integer_that_eager_does_not_repeat_is_not_compared(tolerances: Tolerances | None) -> None:
    report = check_compile(
        counted, torch.ones(3), backend="eager", fullgraph=False, max_graph_breaks=1, tolerances=tolerances
    )
    assert report.numerics.not_compared == ("output",)


def test_an_integer_that_compiled_code_changes_is_found_with_a_tolerance_too() -> None:
    def one_more(function):
        compiled = torch.compile(function, backend="eager")
        return lambda x: compiled(x) + 1

    with pytest.raises(CompileCheckFailed, match="wrong elements 1, limit 0"):
        check_compile(
            lambda x: x.argmax(), torch.ones(3), compile=one_more, tolerances=Tolerances(rtol=1e-2, atol=1e-2)
        )


def test_what_eager_repeats_gives_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", CompileCheckWarning)
        check_compile(Cache(), torch.ones(3), backend="eager")


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package with a registry that a module of it fills when it is imported, which its layer does late."""
    home = tmp_path / "late_registry"
    home.mkdir()
    (home / "__init__.py").write_text("")
    (home / "table.py").write_text("OPS = {}\n\ndef register(name, op):\n    OPS[name] = op\n\n"
                                   "def find(name):\n    return OPS.get(name)\n")  # fmt: skip
    (home / "ops.py").write_text("from .table import register\n\nregister('sin', lambda x: x.sin())\n")
    (home / "layer.py").write_text(
        "import torch\nfrom . import table\n\nclass Layer(torch.nn.Module):\n    def forward(self, x):\n"
        "        if table.find('sin') is None:\n            from . import ops\n"
        "        return table.find('sin')(x) * 2\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield home.name
    for name in [name for name in sys.modules if name.startswith(home.name)]:
        del sys.modules[name]


def test_what_an_import_in_the_call_registers_stays(package):
    layer = importlib.import_module(f"{package}.layer").Layer()
    check_compile(layer, calls=[call(torch.ones(2)), call(torch.ones(3))], backend="eager", max_recompiles=1)
    assert "sin" in sys.modules[f"{package}.table"].OPS
    assert torch.equal(layer(torch.zeros(2)), torch.zeros(2))


def test_what_a_leg_writes_beside_a_late_import_is_put_back(package, tmp_path):
    (tmp_path / package / "counted.py").write_text(
        "import torch\nfrom . import table\n\nSEEN = {'calls': 0}\nNAMES = []\nMASK = torch.tensor([float('nan')])\n\n"
        "class Layer(torch.nn.Module):\n    def forward(self, x):\n        SEEN['calls'] += 1\n        NAMES.append('leg')\n"
        "        from . import late\n        return x * 2 + MASK.nan_to_num().sum()\n"
    )
    (tmp_path / package / "late.py").write_text(
        "from . import counted\n\ncounted.SEEN['late'] = True\ncounted.NAMES.append('late')\n"
    )
    counted = importlib.import_module(f"{package}.counted")
    report = check_compile(counted.Layer(), torch.ones(2), backend="eager", fullgraph=False, max_graph_breaks=9)
    assert not [path for path in report.numerics.not_compared if "SEEN" in path or "MASK" in path]
    assert counted.SEEN == {"calls": 0, "late": True} and counted.NAMES == ["late"]


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """An installed package that decides once, at its first call, and compiles only the decision made."""
    home = tmp_path / "site-packages" / "decides_once"
    home.mkdir(parents=True)
    (home / "__init__.py").write_text(
        "import torch\n\nclass Cache:\n    pass\n\nCACHE = Cache()\n\n"
        "def scaled(x, by):\n    if not hasattr(CACHE, 'known'):\n"
        "        CACHE.known = 3 if torch.compiler.is_compiling() else 2\n    return x * CACHE.known * by\n\n"
        "class Scale:\n    def apply(self, x):\n        return scaled(x, 1)\n"
    )
    monkeypatch.syspath_prepend(home.parent)
    yield importlib.import_module(home.name)
    del sys.modules[home.name]


@pytest.mark.parametrize(
    "target",
    [lambda lib: functools.partial(lib.scaled, by=1), lambda lib: lib.Scale().apply],
    ids=["partial", "method"],
)
def test_cache_of_an_installed_package_is_empty_in_each_leg(installed, target):
    with pytest.raises(CompileCheckFailed) as failed:
        check_compile(target(installed), torch.ones(2), backend="eager")
    assert {finding.kind for finding in failed.value.findings} == {"numerics", "state"}
    assert not hasattr(installed.CACHE, "known")


@pytest.mark.parametrize("folder", ["site-packages", "src"])
def test_generated_code_belongs_to_the_module_of_its_class(folder, tmp_path, monkeypatch):
    """The names of a dataclass's fields are also names of global variables of the module, as in Inductor's metrics."""
    home = tmp_path / folder / "measures"
    home.mkdir(parents=True)
    (home / "__init__.py").write_text(
        "import dataclasses, torch\n\nkernels = 0\n\n@dataclasses.dataclass\nclass Counts:\n    kernels: int = 0\n\n"
        "@torch.compiler.disable\ndef count(number):\n    global kernels\n    kernels += number\n"
        "    return Counts(kernels)\n"
    )
    monkeypatch.syspath_prepend(home.parent)
    measures = importlib.import_module("measures")

    def counted(x):
        measures.count(2 if torch.compiler.is_compiling() else 1)
        return x * 2

    try:
        report = check_compile(counted, torch.ones(2), backend="eager", max_graph_breaks=9)
    except CompileCheckFailed as failure:
        report = failure.report
    del sys.modules["measures"]
    kinds = [finding.kind for finding in report.findings]
    assert (kinds, report.numerics.not_compared) == ((["state"], ()) if folder == "src" else ([], ()))


@pytest.mark.parametrize("wrong", [False, True], ids=["right", "wrong"])
def test_attribute_that_dynamo_leaves_on_a_parameter_is_no_difference(wrong):
    class Moves(nn.Module):
        """Assigns its weight's data in each call, like losses that follow the device of their input."""

        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(3, 3))

        def forward(self, x):
            self.weight.data = self.weight.to(x.device)
            if not (wrong and torch.compiler.is_compiling()):
                self.weight.mark = "seen"
            return x @ self.weight

    assert [kind for kind, _ in found(Moves(), torch.ones(2, 3))] == ["state"] * wrong


def test_a_sparse_tensor_of_a_module_can_be_put_back():
    @torch.compiler.disable
    def factor():
        return 3.0 if SPARSE is None else 2.0

    assert found(lambda x: x.sin() * factor(), torch.ones(2), fullgraph=False, max_graph_breaks=9) == []


SPARSE = torch.eye(2).to_sparse()


class Listed(dict):
    """A container that runs code of its own when it is read, and other code once it has more items."""

    def keys(self):
        return globals()["late" + "_keys"](self) if len(self) > 1 else super().keys()


def late_keys(listed):
    return [*dict.keys(listed), *LATE][: len(listed)]


LATE, SCALES = [[1], [2]], Listed(scale=2.0)


def test_containers_with_code_of_their_own_can_be_read():
    def target(x):
        SCALES["calls"] = 1
        return x * SCALES["scale"]

    found(target, torch.ones(2))
    assert dict(SCALES.items()) == {"scale": 2.0}


class Making(dict):
    """A registry of classes that makes an object of one at each reading, as transformers has for activations."""

    def __getitem__(self, name):
        return super().__getitem__(name)()


MAKERS = Making(relu=nn.ReLU)


def test_registry_that_makes_what_it_is_asked_for_is_read_as_it_is():
    def target(x):
        dict.__setitem__(MAKERS, "last", nn.Sigmoid)
        return MAKERS["relu"](x)

    assert found(target, torch.ones(2), fullgraph=False, max_graph_breaks=9) == []
    assert dict(MAKERS.items()) == {"relu": nn.ReLU}


class Opaque(torch.Tensor):
    """A wrapper subclass on which no op is defined, copies included."""

    @staticmethod
    def __new__(cls):
        return torch.Tensor._make_wrapper_subclass(cls, (3,), dtype=torch.float32)

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        raise NotImplementedError(f"no {func} here")


OPAQUE: list[Any] = [Opaque()]
LAZY_LAYERS = [nn.LazyLinear(2)]


def test_shared_tensor_that_cannot_be_copied_is_named_and_the_rest_is_compared():
    report = check_compile(lambda x: x * len(OPAQUE), torch.ones(2), backend="eager")
    assert report.observation.not_observable == [
        "state of type Opaque cannot be copied, so it was neither compared nor restored"
    ]


def test_tensor_that_cannot_be_copied_and_comes_during_the_calls_is_named():
    def target(x):
        OPAQUE.append(Opaque())
        return x.sin()

    report = check_compile(target, torch.ones(2), backend="eager", fullgraph=False, max_graph_breaks=9)
    assert "state of type Opaque" in report.observation.not_observable[0]
    assert len(OPAQUE) == 1


def test_lazy_parameters_of_shared_modules_are_nothing_to_name():
    report = check_compile(lambda x: x * len(LAZY_LAYERS), torch.ones(2), backend="eager")
    assert report.observation.not_observable == []


def test_no_memory_left_for_the_snapshot_of_a_tensor_is_what_is_said(monkeypatch):
    monkeypatch.setattr(Memory, "read", lambda memory: raise_out_of_memory())
    with pytest.raises(CompileUsageError, match="out of memory"):
        check_compile(lambda x: x + TOTAL, torch.ones(3), backend="eager")


def raise_out_of_memory():
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")


BY_TYPE: dict[object, int] = {}


@pytest.mark.parametrize("wrong", [False, True])
def test_table_by_type_of_tensor_that_tracing_fills(wrong):
    def remembered(x):
        BY_TYPE.setdefault(type(x), 1)
        if wrong and not torch.compiler.is_compiling():
            BY_TYPE[int] = 2
        return x.sin()

    def compiled(target):
        from torch._subclasses import FakeTensor

        inner = torch.compile(lambda x: x.sin(), backend="eager")

        def run(x):
            BY_TYPE.setdefault(type(x), 1)
            BY_TYPE.setdefault(FakeTensor, 1)
            BY_TYPE.setdefault(frozenset([FakeTensor]), 1)
            return inner(x)

        return run

    if not wrong:
        check_compile(remembered, torch.randn(3), compile=compiled)
        return
    with pytest.raises(CompileCheckFailed) as failed:
        check_compile(remembered, torch.randn(3), compile=compiled)
    assert {finding.kind for finding in failed.value.findings} == {"state"}


@pytest.mark.parametrize(("entry", "finds"), [(True, False), (dict, False), (None, False), (2, True), (2.5, True)])
def test_fact_about_a_class_that_only_eager_code_caches(entry, finds):
    cached: dict[object, object] = {}

    def remembers(x):
        if not torch.compiler.is_compiling():
            cached[dict] = entry
        return x.sin()

    assert [kind for kind, _ in found(remembers, torch.randn(3))] == (["state"] if finds else [])


def test_flag_of_a_class_that_only_eager_code_changes_is_state():
    used: dict[object, object] = {dict: False}

    def uses(x):
        if not torch.compiler.is_compiling():
            used[dict] = True
        return x.sin()

    assert [kind for kind, _ in found(uses, torch.randn(3))] == ["state"]


@pytest.mark.parametrize("wrong", [False, True])
def test_tensor_in_a_descriptor_of_triton_is_state(wrong):
    descriptors = pytest.importorskip(
        "triton.tools.tensor_descriptor", reason="tensor descriptors are new in Triton 3.4"
    )

    class Held(nn.Module):
        def __init__(self):
            super().__init__()
            self.descriptor = descriptors.TensorDescriptor.from_tensor(torch.ones(16, 16), [4, 4])

        def forward(self, x):
            if not (wrong and torch.compiler.is_compiling()):
                self.descriptor.base.add_(1)
            return x + 1

    module = Held()
    assert [kind for kind, _ in found(module, torch.ones(3))] == (["state"] if wrong else [])
    assert module.descriptor.base.eq(1).all()


def test_what_dynamo_sets_up_of_a_library_is_not_the_targets_state(monkeypatch):
    from torch._dynamo import trace_rules

    library = types.ModuleType("library_that_dynamo_knows")
    exec("table = {}\ndef scaled(x):\n    return x * 2 if len(table) < 9 else x", vars(library))
    library.__file__ = __file__
    monkeypatch.setitem(sys.modules, library.__name__, library)
    monkeypatch.setitem(trace_rules._lazy_module_init, library.__name__, [lambda: library.table.update(torch=1)])
    check_compile(library.scaled, torch.randn(3), backend="eager")
    assert library.table == {"torch": 1}


@pytest.mark.parametrize("wrong", [False, True])
def test_what_triton_keeps_in_a_kernel_is_not_state(wrong):
    triton = pytest.importorskip("triton")
    kernel = triton.jit(advance)  # a launch, which needs a GPU, fills caches that belong to the kernel
    launches: list[int] = []

    def launched(x: Any) -> Any:
        if not torch.compiler.is_compiling():
            kernel.cache_of_a_launch = x.shape
            if wrong:
                launches.append(1)
        return x + 1

    assert [kind for kind, _ in found(launched, torch.ones(3))] == (["state"] if wrong else [])


class Core:
    """The state of loguru's logger: which modules may log, and a table that is filled when a module logs first."""

    def __init__(self):
        self.activation_list, self.enabled, self.handlers, self.extra = [], {}, {}, {}


Core.__module__ = "loguru._logger"
core = Core()


def test_what_a_logger_of_loguru_remembers_is_restored_but_not_compared():
    def logs_in_eager(x):
        if not torch.compiler.is_compiling():
            core.enabled[__name__] = True
        return x.sin() * 2

    check_compile(logs_in_eager, torch.randn(8))
    assert core.enabled == {}


def disabled():
    core.activation_list = [("module", False)]


def another_sink():
    core.handlers = {**core.handlers, 1: "sink"}


def more_context():
    core.extra["user"] = 1


@pytest.mark.parametrize("change", [disabled, another_sink, more_context])
def test_other_changes_of_a_logger_of_loguru_are_findings(change):
    def changes_in_eager(x):
        if not torch.compiler.is_compiling():
            change()
        return x.sin() * 2

    with pytest.raises(CompileCheckFailed, match="state"):
        check_compile(changes_in_eager, torch.randn(8))
    assert (core.activation_list, core.handlers, core.extra) == ([], {}, {})


LINES = linecache.cache
MODULES = sys.modules
FINDERS = sys.path_importer_cache
NAMES: dict[str, Any] = {}


@pytest.mark.parametrize("table", ["LINES", "MODULES", "FINDERS"])
def test_pythons_tables_of_modules_and_lines_are_neither_compared_nor_restored(table, monkeypatch):
    """beartype, for example, has a global with the lines that ``linecache`` has read; tracing code reads more."""
    filled = globals()[table]
    monkeypatch.setitem(filled, "read_by_a_compiler", None)

    def compiler(graph, inputs):
        filled["read_by_a_compiler"] = len(inputs)
        return graph

    def reads(x):
        return x + len({"LINES": LINES, "MODULES": MODULES, "FINDERS": FINDERS}[table]) * 0

    check_compile(reads, torch.randn(8), backend=compiler, fullgraph=False, max_graph_breaks=9, max_recompiles=9)
    assert filled["read_by_a_compiler"]


def test_a_table_of_the_users_is_compared():
    def compiler(graph, inputs):
        NAMES["written_by_a_compiler"] = len(inputs)
        return graph

    def reads(x):
        return x + len(NAMES) * 0

    with pytest.raises(CompileCheckFailed, match="global NAMES"):
        check_compile(reads, torch.randn(8), backend=compiler)
    assert NAMES == {}


def test_write_to_a_tensor_that_an_earlier_call_made_is_not_called_lost():
    sums = {}

    def add(x):
        if "sum" not in sums:
            sums["sum"] = torch.zeros(3)
        sums["sum"].add_(x * 2 if torch.compiler.is_compiling() else x)

    with pytest.raises(CompileCheckFailed) as failed:
        check_compile(add, calls=[call(torch.ones(3)), call(torch.ones(3))], backend="eager", max_recompiles=1)
    assert [finding.calls for finding in failed.value.findings] == [(1,), (2,)]
    assert "is lost" not in str(failed.value)
