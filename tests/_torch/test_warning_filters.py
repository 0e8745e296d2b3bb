"""``filterwarnings = error``: what torch and the plugin warn of is no failure, what the model warns of is one."""

from __future__ import annotations

import os
import types
import warnings
from contextlib import contextmanager

import pytest

torch = pytest.importorskip("torch")

from pytest_torch_compile import CompileUsageError, check_compile, measure_compile  # noqa: E402
from tests.plugin.projects import other_process  # noqa: E402

pytestmark = pytest.mark.filterwarnings("error")
X = torch.ones(4)


def warning_backend(gm, inputs):
    """As Inductor's ``Torchinductor does not support code generation for complex operators``."""
    from torch._inductor import utils

    exec("import warnings; warnings.warn('of the compiler')", {"__name__": utils.__name__})
    return gm


def library(name):
    """A module that pip installed, which warns."""
    made = types.ModuleType(name)
    file = os.path.join(os.path.dirname(os.path.dirname(torch.__file__)), name + ".py")
    exec(
        compile("import warnings\ndef f(x):\n    warnings.warn('of a library')\n    return x\n", file, "exec"),
        vars(made),
    )
    return made


@contextmanager
def warned(text):
    with warnings.catch_warnings(record=True) as seen:
        yield
    assert any(text in str(warning.message) for warning in seen)


def test_warning_of_the_compiler_stays_a_warning():
    with warned("of the compiler"):
        assert check_compile(lambda x: x.sin(), X, backend=warning_backend).ok
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("ignore", UserWarning)
        assert check_compile(lambda x: x.cos(), X, backend=warning_backend).ok
    assert not seen


def test_tool_of_the_compiler_stays_a_warning():
    tool = library("some_tool")

    def backend(gm, inputs):
        from torch._inductor import utils

        exec("warn(None)", {"__name__": utils.__name__, "warn": tool.f})
        return gm

    with warned("of a library"):
        assert check_compile(lambda x: x.sin(), X, backend=backend).ok


def loud(x):
    warnings.warn("mine", stacklevel=1)
    return x.sin()


@pytest.mark.parametrize("target", [loud, library("some_model").f])
def test_warning_of_the_model_is_an_error(target):
    with pytest.raises(CompileUsageError, match=r"call 1 raises an exception in eager.* UserWarning"):
        check_compile(target, X, backend="eager")


def test_warning_that_only_compiled_code_gives_is_an_error():
    @torch.compiler.disable
    def warns():
        warnings.warn("only here", stacklevel=1)

    def target(x):
        x = x.sin()
        if torch.compiler.is_compiling():
            warns()
        return x

    with pytest.raises(AssertionError) as failure:
        check_compile(target, X, backend="eager", max_graph_breaks=5)
    assert [finding.kind for finding in failure.value.findings] == ["exception"]
    assert "only here" in str(failure.value)


def test_filters_are_as_before():
    before = list(warnings.filters)
    check_compile(lambda x: x.sin(), X, backend="eager")
    assert warnings.filters == before


def test_model_that_changes_filters_changes_them_for_nobody():
    before = list(warnings.filters)

    def forgetful(x):
        warnings.simplefilter("ignore")
        return x.sin()

    check_compile(forgetful, X, backend="eager", fullgraph=False, max_graph_breaks=3)
    assert warnings.filters == before


def test_check_of_global_tensors_and_training_warns_of_nothing():
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout())
    x = torch.ones(2, 4, requires_grad=True) * 2  # no leaf: reading its gradient is warned of
    assert check_compile(model, x, backend="aot_eager", train=True).ok
    assert check_compile(lambda: LEAFLESS.sin(), calls=[()], backend="aot_eager").ok


LEAFLESS = torch.ones(3, requires_grad=True) * 2


def test_measurement_compiles_in_peace():
    with warned("of the compiler"):
        assert measure_compile(lambda x: x.sin(), X, backend=warning_backend, seconds=0.02).wall


def test_fresh_process_imports_and_compiles(tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    (tmp_path / "test_it.py").write_text(
        "def test_fixture(compile_check, compile_device):\n"
        "    import torch\n"
        "    compile_check(torch.nn.Linear(4, 4), torch.ones(2, 4))\n"
        "    compile_check(lambda x: x * 2, torch.ones(2, dtype=torch.complex64))\n"
    )
    (tmp_path / "test_plain.py").write_text(
        "import torch\n"
        "from pytest_torch_compile import check_compile\n"
        "def test_plain():\n"
        "    check_compile(torch.nn.Linear(4, 4), torch.ones(2, 4), train=True)\n"
    )
    for file in ("test_it.py", "test_plain.py"):
        done = other_process(tmp_path, file)
        assert "passed" in done.stdout, done.stdout
        assert done.returncode == 0, done.stdout


def test_own_error_filter_of_python_is_met_too(tmp_path):
    (tmp_path / "test_it.py").write_text(
        "def test_fixture(compile_check):\n"
        "    import torch\n"
        "    compile_check(torch.sin, torch.ones(2), backend='aot_eager')\n"
    )
    done = other_process(tmp_path, environment={"PYTHONWARNINGS": "error::UserWarning"}.items())
    assert done.returncode == 0, done.stdout


def test_warning_of_copies_that_the_plugin_makes():
    exec(compile(COPIED, torch._tensor.__file__, "exec"), space := {"__name__": "torch._tensor"})
    model = torch.nn.Sigmoid()
    model.held = space["Held"]()
    assert check_compile(model, X, backend="eager").ok


COPIED = """
import warnings
class Held:
    def __deepcopy__(self, memo):
        warnings.warn("of torch")
        return self
"""
