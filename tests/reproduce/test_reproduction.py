"""`--compile-repro`: a failed check leaves a file that fails in the same way, and that was run before it was named."""

from __future__ import annotations

import ast
import contextlib
import importlib
import logging
import os
import re
import subprocess
import sys
import time
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from pytest_torch_compile import Budget, CompileCheckFailed, call, check_compile, compile_guard, settings  # noqa: E402
from pytest_torch_compile._torch.breaks import categories  # noqa: E402
from pytest_torch_compile.numerics import rule  # noqa: E402
from pytest_torch_compile.reproduce import reproduction  # noqa: E402
from pytest_torch_compile.reproduce.script import TEMPLATES, Renamed, Script, _defined  # noqa: E402
from pytest_torch_compile.reproduce.writer import Writer  # noqa: E402

log = logging.getLogger(__name__)
FACTOR = 2.0


@pytest.fixture
def repro(tmp_path, monkeypatch):
    """Fails a check, and gives the line that it says of its reproduction."""
    monkeypatch.setattr(settings, "current", replace(settings.current, repro=str(tmp_path / "repro"), diagnose="full"))

    def fail(target, *args, **options):
        with pytest.raises(CompileCheckFailed) as failed:
            check_compile(target, *args, **{"backend": "eager", **options})
        (line,) = [
            one for one in failed.value.report.diagnosis if one.startswith(("reproduction: ", "no reproduction"))
        ]
        assert line in str(failed.value)
        return line

    return fail


def run_alone(folder):
    """Run the one file with nothing of this project on the path; the last line that it prints."""
    (file,) = folder.glob("*.py")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, str(file)], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stderr
    return file.read_text(encoding="utf-8"), done.stderr.strip().splitlines()[-1]


def prints(x):
    print("mean")
    return x.sin() * FACTOR


def branches(x):
    if x.sum() > 0:
        return x * 2
    return x


def logs(x):
    log.warning("called")
    return x.cos()


class Block(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.inner = inner

    def forward(self, x):
        return self.inner(self.first(x))


class Lying(nn.Module):
    def forward(self, x):
        return x * 2 if torch.compiler.is_compiling() else x * 3


class LyingInHalfWithoutGradients(nn.Module):
    def forward(self, x):
        y = x @ x.t()
        lies = torch.compiler.is_compiling() and y.dtype is torch.bfloat16 and not torch.is_grad_enabled()
        return y * 2 if lies else y * 3


class Breaking(nn.Module):
    def forward(self, x):
        torch._dynamo.graph_break()
        return x.sin()


def other_strides(x):
    return x.t().clone() if torch.compiler.is_compiling() else x.t().contiguous()


X = torch.linspace(0.1, 1, 12).reshape(3, 4)


@pytest.mark.parametrize(
    ("target", "options"),
    [
        (prints, {}),
        pytest.param(branches, {}, marks=pytest.mark.slow),
        pytest.param(logs, {}, marks=pytest.mark.slow),
        pytest.param(Block(Breaking()), {}, marks=pytest.mark.slow),
        (Block(Lying()), {}),
        pytest.param(Block(Lying()), {"train": True, "backend": "aot_eager"}, marks=pytest.mark.slow),
        pytest.param(lambda x, n: x * n, {"calls": [(X, 2), (X, 3)], "dynamic": False}, marks=pytest.mark.slow),
        (nn.Linear(4, 2), {"calls": [(X,), (X[:2],), (torch.ones(5, 4),)]}),
        pytest.param(other_strides, {}, marks=pytest.mark.slow),
        pytest.param(lambda x: x.sin() if torch.compiler.is_compiling() else x.cos(), {}, marks=pytest.mark.slow),
    ],
    ids=["print", "branch", "logger", "module", "numerics", "gradient", "number", "sizes", "strides", "lambda"],
)
def test_file_fails_alike_and_needs_only_torch(repro, tmp_path, target, options):
    line = repro(target, *(() if "calls" in options else (X,)), **options)
    assert line.endswith("(needs only torch)")
    text, last = run_alone(tmp_path / "repro")
    kind = text.removeprefix('"""').partition(":")[0]
    assert last.startswith(f"AssertionError: {kind}: ")
    assert "pytest_torch_compile" not in text


@pytest.mark.parametrize("without_gradients", [torch.no_grad, torch.inference_mode])
def test_the_file_fails_in_the_modes_of_the_check(repro, tmp_path, without_gradients):
    with torch.autocast("cpu", torch.bfloat16), without_gradients():
        line = repro(LyingInHalfWithoutGradients(), X)
    assert line.endswith("(needs only torch)")
    _, last = run_alone(tmp_path / "repro")
    assert last.startswith("AssertionError: numerics: ")


def test_smallest_module_is_what_is_written(repro, tmp_path):
    repro(Block(Block(Breaking())), X)
    text, _ = run_alone(tmp_path / "repro")
    assert "class Breaking" in text
    assert "class Block" not in text


def test_each_failing_check_has_a_file_of_its_own(repro, tmp_path):
    first, second = repro(prints, X), repro(prints, X)
    assert first != second
    assert len(list((tmp_path / "repro").glob("*.py"))) == 2


def test_tests_whose_names_read_alike_have_files_of_their_own(repro, tmp_path, monkeypatch):
    for test in ("test_it.py::test_it[a-b] (call)", "test_it.py::test_it[a.b] (call)"):
        monkeypatch.setattr(reproduction, "_written", set())  # two workers do not know each other's files
        monkeypatch.setenv("PYTEST_CURRENT_TEST", test)
        repro(prints, X)
    assert len(list((tmp_path / "repro").glob("*.py"))) == 2


def breaks_and_scales(x, n):
    torch._dynamo.graph_break()
    return x * n


def test_a_break_that_is_allowed_is_no_recompile(repro, tmp_path):
    repro(breaks_and_scales, calls=[(X, 2), (X, 3)], dynamic=False, max_graph_breaks=1)
    text, last = run_alone(tmp_path / "repro")
    assert text.startswith('"""recompile: ')
    assert last.startswith("AssertionError: recompile: ")


def test_passing_check_leaves_no_file(tmp_path, monkeypatch):
    monkeypatch.setattr(settings, "current", replace(settings.current, repro=str(tmp_path / "repro")))
    check_compile(torch.sin, X, backend="eager")
    assert not (tmp_path / "repro").exists()


def test_what_cannot_be_written_is_said(repro, tmp_path):
    names = {"torch": torch}
    exec("def target(x):\n    print(x.shape)\n    return x.sin()\n", names)
    line = repro(names["target"], X)
    assert line.startswith("no reproduction: no script failed in the same way as the check: ")
    assert not (tmp_path / "repro").exists()


def refused(x):
    if torch.compiler.is_compiling():
        torch.ones(2) @ torch.ones(3)
    return x.sin()


class Gradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.sin() * 1.0

    @staticmethod
    def backward(ctx, gradient):
        return gradient * (0.5 if torch.compiler.is_compiling() else 1.0)


class Doubling(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, x):
        return Gradient.apply(self.weight * x)


def outcome(text):
    """How a file ends, run in this process: the assertion that fails, or nothing."""
    torch._dynamo.reset()
    try:
        exec(compile(text, "<reproduction>", "exec"), {"__name__": "reproduction"})
    except AssertionError as error:
        return str(error)
    finally:
        torch._dynamo.reset()
    return ""


@pytest.fixture
def gradient_file(repro, tmp_path):
    repro(Doubling(), X, train=True)
    (file,) = (tmp_path / "repro").glob("*.py")
    return file.read_text(encoding="utf-8")


RIGHT_BACKWARD = ("(0.5 if torch.compiler.is_compiling() else 1.0)", "1.0")
WRONG_OUTPUT = ("x.sin() * 1.0", "x.sin() * (2.0 if torch.compiler.is_compiling() else 1.0)")


def test_a_file_passes_once_its_kind_is_right_whatever_else_is_wrong(gradient_file):
    assert "KIND = 'gradient'" in gradient_file
    assert outcome(gradient_file).startswith("gradient: call 1: grad of weight")
    assert outcome(gradient_file.replace(*WRONG_OUTPUT)).startswith("gradient: ")
    right = gradient_file.replace(*RIGHT_BACKWARD)
    assert right != gradient_file
    assert outcome(right) == ""
    assert outcome(right.replace(*WRONG_OUTPUT)) == ""


def test_rounding_of_a_half_type_passes_and_a_small_error_of_float32_does_not(repro, tmp_path):
    repro(nn.Sequential(Lying()), X.double())
    (file,) = (tmp_path / "repro").glob("*.py")
    text = file.read_text(encoding="utf-8").replace("x * 3", "x.sin() * 3").replace("float64)", "float32)", 1)
    for dtype, wrong in (("float32", 1e-4), ("bfloat16", 0.05)):
        of_dtype = text.replace("x * 2 if", "(x.sin() * 3 * FACTOR).to(x.dtype) if").replace("float32)", f"{dtype})", 1)
        assert outcome("FACTOR = 1 + 1e-9\n" + of_dtype.replace("from __future__ import annotations", "")) == ""
        assert "numerics" in outcome(
            f"FACTOR = 1 + {wrong}\n" + of_dtype.replace("from __future__ import annotations", "")
        )


def test_a_file_whose_eager_code_no_longer_runs_does_not_pass(repro, tmp_path):
    repro(refused, X)
    (file,) = (tmp_path / "repro").glob("*.py")
    text = file.read_text(encoding="utf-8")
    assert outcome(text).startswith("compile-error: ")
    with pytest.raises(RuntimeError, match="must match"):
        outcome(text.replace("x.sin()", "x + x[:, :3]"))
    assert outcome(text.replace("torch.compiler.is_compiling()", "False")) == ""


def test_a_file_that_has_nothing_left_to_compare_does_not_pass(repro, tmp_path):
    repro(Block(Averaging()), X)
    (file,) = (tmp_path / "repro").glob("*.py")
    text = file.read_text(encoding="utf-8")
    assert outcome(text).startswith("mutation: ")
    renamed = text.replace("SUBJECT = 'buffer mean'", "SUBJECT = 'buffer average'")
    assert renamed != text and "nothing was compared" in outcome(renamed)


def waits(*args, **options):
    return Script("import time\ntime.sleep(60)\n", [], ())


def test_all_attempts_of_a_check_share_one_limit_of_time(repro, monkeypatch):
    monkeypatch.setattr(reproduction, "SECONDS", 2.0)
    monkeypatch.setattr(reproduction, "script", waits)
    began = time.monotonic()
    line = repro(prints, X, diagnose="off")
    assert time.monotonic() - began < 20
    assert "of 2 s" in line


def test_what_an_attempt_has_started_ends_with_it(tmp_path):
    note = tmp_path / "alive"
    child = f"import time\nwhile True:\n    open({str(note)!r}, 'a').write('.')\n    time.sleep(0.1)"
    file = tmp_path / "file.py"
    file.write_text(
        f"import subprocess, sys, time\nsubprocess.Popen([sys.executable, '-c', {child!r}])\ntime.sleep(120)\n"
    )
    status, _ = reproduction._run(file, 5.0, alone=True)
    assert status is None
    time.sleep(0.5)  # a process that is killed may finish a write first
    size = note.stat().st_size
    time.sleep(1)
    assert note.stat().st_size == size


@pytest.fixture
def package(tmp_path, monkeypatch):
    """An installed package of another name, with a class of tensors, one of modules and one of plain objects."""
    place = tmp_path / "site-packages"
    (place / "some_package").mkdir(parents=True)
    (place / "some_package" / "__init__.py").write_text(
        "import torch\n\n\nclass Tagged(torch.Tensor):\n    pass\n\n\nclass Config:\n    pass\n"
    )
    monkeypatch.syspath_prepend(str(place))
    yield importlib.import_module("some_package")
    del sys.modules["some_package"]


@pytest.mark.parametrize("make", [lambda p: torch.ones(3).as_subclass(p.Tagged), lambda p: p.Config()])
def test_a_stored_value_names_the_package_that_it_needs(package, make):
    writer = Writer(exact=True)
    writer.expression(make(package))
    assert writer.definitions.needs == {"some_package"}


def test_a_stored_tensor_of_torch_needs_nothing():
    writer = Writer(exact=True)
    writer.expression(torch.randn(40))
    assert (len(writer.stored), writer.definitions.needs) == (1, set())


def twice(graph, inputs):
    return lambda *args: [2 * x for x in graph.forward(*args)]


def test_a_backend_that_is_a_function_is_written(repro, tmp_path):
    assert repro(torch.sin, X, backend=twice).endswith("(needs only torch)")
    text, last = run_alone(tmp_path / "repro")
    assert "def twice(graph, inputs):" in text
    assert last.startswith("AssertionError: numerics: call 1: output")


def test_a_backend_without_source_has_its_reason(repro):
    names = {}
    exec("def backend(graph, inputs):\n    return lambda *args: [2 * x for x in graph.forward(*args)]\n", names)
    assert "'backend'" in repro(torch.sin, X, backend=names["backend"])


def refuses(graph, inputs):
    raise NotImplementedError("this graph")


def copies(x):
    return x.reshape(-1).clone() if torch.compiler.is_compiling() else x.reshape(-1)


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        if not torch.compiler.is_compiling():
            self.calls += 1
        return x.sin()


class Averaging(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x):
        if not torch.compiler.is_compiling():
            self.mean.add_(x.mean(0))
        return x.sin()


def fills(x, out):
    if not torch.compiler.is_compiling():
        out.fill_(1)
    return x.sin()


def nothing(x):
    return x


def one_none(x):
    return (x.sin(), None if torch.compiler.is_compiling() else x.cos())


def draws(x):
    return x.sin() if torch.compiler.is_compiling() else x.sin() + 0 * torch.rand_like(x)


MANY = {"calls": [(X, n) for n in range(12)], "dynamic": False, "fullgraph": False, "max_recompiles": 20}
OTHER_KINDS = {
    "aliasing": (copies, {}),
    "state": (Counting(), {}),
    "mutation": (Averaging(), {}),
    "mutation of an argument": (fills, {"calls": [call(X, out=torch.zeros(3))]}),
    "compile-error": (torch.sin, {"backend": refuses}),
    "nothing-compiled": (nothing, {}),
    "eager-fallback": (lambda x, n: x * n, MANY),
    "metadata": (one_none, {}),
    "numerics of the random stream": (draws, {}),
    "graph-break of the default mode": (prints, {"fullgraph": False}),
    "recompile": (torch.sin, {"calls": [(X,), (X[:2, :3],)], "dynamic_dims": {0: 0}}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHER_KINDS)
def test_every_kind_of_a_wrong_result_has_a_file(repro, tmp_path, name):
    target, options = OTHER_KINDS[name]
    with contextlib.suppress(KeyError):
        options = {**options, "calls": [call(*one) if isinstance(one, tuple) else one for one in options["calls"]]}
    line = repro(target, *(() if "calls" in options else (X,)), **options)
    assert line.endswith("(needs only torch)")
    kind = name.partition(" ")[0]
    assert run_alone(tmp_path / "repro")[1].startswith(f"AssertionError: {kind}: ")


def test_a_guard_has_none(repro):
    with pytest.raises(CompileCheckFailed) as failed, compile_guard():
        torch.compile(prints, backend="eager")(X)
    assert failed.value.report.diagnosis == [reproduction.GUARDED]


def test_a_kind_that_has_none_is_said(repro):
    assert (
        repro(prints, X, max_graph_breaks=1, budget=Budget(max_graphs=0))
        == "no reproduction: not supported for structure"
    )


def test_own_compile_function_has_none(repro):
    line = repro(prints, X, compile=lambda target: torch.compile(target, backend="eager"))
    assert line.startswith("no reproduction: not supported with a custom compile function")


def test_an_error_on_the_way_does_not_hide_the_failure(repro, monkeypatch):
    monkeypatch.setattr("pytest_torch_compile.reproduce.reproduction.script", lambda *args, **options: 1 / 0)
    assert repro(prints, X) == "no reproduction: ZeroDivisionError: division by zero"


@pytest.mark.slow
def test_contexts_and_changes_of_state_are_written(repro, tmp_path):
    calls = [call(X).under(torch.no_grad).before(lambda module: module.eval())]
    repro(Block(Lying()), calls=calls)
    text, _ = run_alone(tmp_path / "repro")
    assert "torch.no_grad" in text


def test_option_of_the_command_line(pytester):
    pytester.makepyfile(
        """
        def breaks(x):
            print(1)
            return x.sin()

        def test_it(compile_check):
            import torch
            compile_check(breaks, torch.ones(3), backend="eager")
        """
    )
    result = pytester.runpytest_subprocess("--compile-repro=out", "-p", "no:cacheprovider")
    result.assert_outcomes(failed=1)
    (file,) = (pytester.path / "out").glob("*.py")
    assert re.fullmatch(r"test_option_of_the_command_line-py-test_it-graph-break-[0-9a-f]{6}\.py", file.name)
    result.stdout.fnmatch_lines(["*reproduction: *needs only torch*"])


STEPS = 3
KIND = "sin"


def run(x):
    return x.cos() if KIND == "cos" else x.sin()


def uses_names_of_the_template(x):
    print(STEPS)
    return run(x) * STEPS


def test_names_of_the_users_code_are_kept_beside_those_of_the_file(repro, tmp_path):
    line = repro(uses_names_of_the_template, torch.ones(3))
    assert line.startswith("reproduction: ")
    text, last = run_alone(tmp_path / "repro")
    assert last.startswith("AssertionError: graph-break:")
    assert "print(STEPS)" in text and "STEPS = 3" in text and "STEPS_ = 1" in text and "def run_(" in text


def test_a_script_has_the_tolerances_of_checks_without_a_reference():
    template = (TEMPLATES / "values.txt").read_text(encoding="utf-8")
    line = next(line for line in template.splitlines() if line.startswith("ALONE = "))
    assert eval(line.removeprefix("ALONE = ")) == rule.ALONE


@pytest.mark.parametrize("judge", ["values", "raises", "counts"])
def test_templates_can_be_renamed_throughout(judge):
    templates = [(TEMPLATES / f"{name}.txt").read_text() for name in ("run", judge)]
    defined = {*_defined(templates), "KIND", "STEPS", "STATE"}
    assert {"run", "leaves", "observed"} <= defined
    renamed = Renamed(defined, ["KIND", "STEPS", "STATE"], templates)
    text = "\n".join(map(renamed.applied, templates))
    named = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
    assert not named & defined


def reads_an_item(x):
    n = x.sum().item()
    return x * 2 if n > 0 else x * n


def test_file_for_an_item_breaks_for_the_same_cause(repro, tmp_path):
    """With fullgraph, newer torch captures the item, and refuses the branch on it."""
    line = repro(reads_an_item, torch.ones(3))
    assert line.startswith("reproduction: ")
    _, last = run_alone(tmp_path / "repro")
    assert last.startswith("AssertionError: graph-break:") and "scalar from a tensor" in categories(last)


def test_file_that_breaks_for_another_cause_is_not_kept(repro, monkeypatch):
    def other_cause(candidate, seconds, *, alone):
        return 1, ["AssertionError: graph-break: Unsupported: Data-dependent branching"]

    monkeypatch.setattr(reproduction, "_run", other_cause)
    line = repro(prints, torch.ones(3))
    assert (
        "the script's graph break has a different cause: AssertionError: graph-break: Unsupported: Data-dependent branching"
        in line
    )
