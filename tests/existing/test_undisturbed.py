"""An ordinary test is the same with the option and without it."""

from __future__ import annotations

import sys

import pytest

torch = pytest.importorskip("torch")

from tests.existing.conftest import rows  # noqa: E402
from tests.plugin.projects import other_process  # noqa: E402

LAYER = """
import logging, random, warnings
log = logging.getLogger("somelib")
calls = []

class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(2)
        self.calls = 0
    def forward(self, x):
        self.calls += 1
        calls.append(x.shape)
        return self.norm(x) + random.random() + torch.rand(1)

def noisy(x):
    print("printed")
    log.warning("logged")
    warnings.warn("warned")
    return x * 2

def writes(x):
    x += 1
    return x * 2
"""
TESTS = {
    "state of the module": "m = somelib.Layer()\n    m(torch.randn(4, 2))\n    assert m.calls == 1 and len(somelib.calls) == 1\n"
    "    assert m.norm.num_batches_tracked == 1",
    "inputs": "x = torch.zeros(2)\n    somelib.writes(x)\n    assert x.tolist() == [1, 1] and x._version == 1",
    "gradients": "m = somelib.Layer()\n    m(torch.randn(4, 2)).sum().backward()\n    assert m.norm.bias.grad.tolist() == [4, 4]",
    "random states": "import random\n    torch.manual_seed(3), random.seed(3)\n    a = somelib.Layer()(torch.ones(4, 2))\n"
    "    b = torch.rand(1), random.random()\n    torch.manual_seed(3), random.seed(3)\n    random.random(), torch.rand(1)\n"
    "    assert b == (torch.rand(1), random.random())",
    "output": "somelib.noisy(torch.ones(1))\n    assert capsys.readouterr().out == 'printed\\n'",
    "logs": "somelib.noisy(torch.ones(1))\n    assert [r.getMessage() for r in caplog.records] == ['logged']",
    "warnings": "import warnings\n    with warnings.catch_warnings(record=True) as seen:\n        warnings.simplefilter('always')\n"
    "        somelib.noisy(torch.ones(1))\n    assert [str(w.message) for w in seen] == ['warned']",
    "errors of warnings": "import warnings, pytest\n    with warnings.catch_warnings():\n        warnings.simplefilter('error')\n"
    "        with pytest.raises(UserWarning, match='warned'):\n            somelib.noisy(torch.ones(1))",
    "life of objects": "import gc, weakref\n    m, x = somelib.Layer(), torch.randn(4, 2)\n    m(x)\n    kept = weakref.ref(m), weakref.ref(x)\n"
    "    del m, x\n    gc.collect()\n    assert kept[0]() is None and kept[1]() is None",
    "alarm": "import signal\n    signal.signal(signal.SIGALRM, lambda *a: 1 / 0)\n    signal.setitimer(signal.ITIMER_REAL, 30)\n"
    "    somelib.noisy(torch.ones(1))\n    left, _ = signal.setitimer(signal.ITIMER_REAL, 0)\n    signal.signal(signal.SIGALRM, signal.SIG_DFL)\n"
    "    assert left > 29",
    "modes": "with torch.no_grad(), torch.autocast('cpu'):\n        somelib.writes(torch.ones(2))\n        assert not torch.is_grad_enabled()\n"
    "        assert torch.is_autocast_enabled('cpu')\n    assert torch.is_grad_enabled()",
    "compiled code of its own": "from torch._dynamo.testing import CompileCounter\n    c = CompileCounter()\n    f = torch.compile(somelib.writes, backend=c)\n"
    "    somelib.writes(torch.ones(2)), f(torch.ones(2)), f(torch.ones(2))\n    assert c.frame_count == 1",
}  # fmt: skip


def test_tests_behave_the_same(library):
    source = "\n".join(
        f"def test_{number}(capsys, caplog):\n    {body}\n" for number, body in enumerate(TESTS.values())
    )
    without = library(LAYER, source, existing=None)
    without.assert_outcomes(passed=len(TESTS))
    result = library(LAYER, source, "-v")
    passed = [line for line in result.outlines if "PASSED" in line and "::test_" in line]
    assert len(passed) == len(TESTS), result.stdout.str()[-6000:]


def test_hidden_state_of_a_test_is_not_touched_by_a_check_that_times_out(library):
    result = library(
        "import time\ndef slow(x):\n    for _ in range(40):\n        time.sleep(0.05)\n    return x + 1\n",
        "def test_a():\n    x = torch.ones(1)\n    assert somelib.slow(x).item() == 2\n",
        "--compile-timeout=1",
    )
    assert result.parseoutcomes()["passed"] >= 1


def test_test_that_compiles_the_whole_call_is_not_disturbed(library):
    tests = (
        "def test_a():\n"
        "    compiled = torch.compile(somelib.Layer(), fullgraph=True, backend='eager')\n"
        "    assert compiled(torch.ones(2)).sum() == 4\n"
    )
    package = "class Layer(nn.Module):\n    def forward(self, x):\n        return double(x)\ndef double(x):\n    return x * 2\n"
    library(package, tests).assert_outcomes(passed=1, skipped=1)


def test_fault_of_the_plugin_is_not_the_tests(library, monkeypatch):
    from pytest_torch_compile.existing import call_selector

    def fails(*arguments):
        raise RuntimeError("broken")

    monkeypatch.setattr(call_selector, "signature", fails)
    result = library("def f(x):\n    return x + 1\n", "def test_a():\n    somelib.f(torch.ones(1))\n")
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines(["*the plugin failed: RuntimeError: broken*"])


def test_objects_whose_attributes_run_code_are_not_asked(library):
    package = (
        "class Lazy:\n    def __getattr__(self, name):\n        raise OSError('loaded')\nlazy = Lazy()\n"
        "def f(x):\n    return x + 1\n"
    )
    result = library(package, "def test_a():\n    somelib.f(torch.ones(1))\n")
    result.assert_outcomes(passed=2)


def test_nothing_is_patched_while_a_test_runs(library):
    package = "class Layer(nn.Module):\n    def forward(self, x):\n        return x + 1\ndef f(x):\n    return x\n"
    tests = (
        "import sys, types\ncall, table = torch.nn.Module.__call__, dict(vars(somelib))\nforward = somelib.Layer.forward\n"
        "code = somelib.f.__code__\ndef test_a():\n    somelib.Layer()(torch.ones(1))\n    assert torch.nn.Module.__call__ is call\n"
        "    assert {k: v for k, v in vars(somelib).items()} == table and somelib.Layer.forward is forward\n"
        "    assert somelib.f.__code__ is code\n    assert not torch.nn.modules.module._global_forward_pre_hooks\n"
    )
    assert library(package, tests).parseoutcomes()["passed"] == 2


def test_nothing_listens_without_the_option(library):
    tests = (
        "import sys\nfrom pytest_torch_compile.existing import undisturbed\ndef test_a():\n    somelib.f(torch.ones(1))\n"
        "    assert sys.getprofile() is None and undisturbed._guard.thread is None\n"
        "    if hasattr(sys, 'monitoring'):\n        assert all(sys.monitoring.get_tool(n) != 'pytest-torch-compile' for n in range(6))\n"
        "    else:\n        assert sys.gettrace() is None or 'pytest_torch_compile' not in str(sys.gettrace())\n"
    )
    result = library("def f(x):\n    return x + 1\n", tests, existing=None)
    result.assert_outcomes(passed=1)
    assert not any("torch.compile: calls to" in line for line in result.outlines)


@pytest.mark.parametrize(
    ("begin", "end", "sees"),
    [
        ("p = cProfile.Profile(); p.enable()", "p.disable(); seen = {c.code.co_name for c in p.getstats() if hasattr(c.code, 'co_name')}", hasattr(sys, "monitoring")),
        ("sys.setprofile(note)", "sys.setprofile(None)", False),
    ],
    ids=["cProfile", "a profile function"],
)  # fmt: skip
def test_profiler_of_a_test_does_not_disturb_the_check_and_does_not_see_it(library, begin, end, sees):
    tests = (
        "import cProfile, sys\nseen = set()\ndef note(frame, event, argument):\n    seen.add(frame.f_code.co_name)\n"
        f"def test_a():\n    global seen\n    {begin}\n    somelib.f(torch.ones(1))\n    after()\n    {end}\n"
        f"    assert {{'f', 'after'}} <= seen\n    assert {sees!r} or 'check_compile' not in seen\n"
        "def after():\n    pass\n"
    )
    result = library("def f(x):\n    return x + 1\n", tests)
    result.assert_outcomes(passed=2)
    assert rows(result)["f"] == "works 1 checked"


def test_debugger_that_traces_all_tests_does_not_disturb_the_check(library):
    library.tester.makeconftest(
        "import pytest, sys\nseen = set()\ndef trace(frame, event, argument):\n    seen.add(frame.f_code.co_name)\n    return trace\n"
        "@pytest.fixture(autouse=True)\ndef traced():\n    before = sys.gettrace()\n    sys.settrace(trace)\n    yield\n"
        "    kept = sys.gettrace()\n    sys.settrace(before)\n    assert kept is trace and 'f' in seen\n"
    )
    result = library("def f(x):\n    return x + 1\n", "def test_a():\n    somelib.f(torch.ones(1))\n")
    result.assert_outcomes(passed=2)
    assert rows(result)["f"] == "works 1 checked"


def test_listening_ends_with_the_test(library):
    before = sys.gettrace(), sys.getprofile()
    library("def f(x):\n    return x + 1\n", "def test_a():\n    somelib.f(torch.ones(1))\n")
    assert (sys.gettrace(), sys.getprofile()) == before


@pytest.mark.usefixtures("new_interpreters")
def test_without_the_option_the_feature_is_not_imported_and_nothing_is_patched(library):
    library("def f(x):\n    return x + 1\n", "def test_a():\n    pass\n", "--collect-only", existing=None)
    tests = (
        "import sys, torch, somelib\nbefore = {**vars(torch.nn.Module), **vars(torch.Tensor), **vars(torch)}\n"
        "def test_a():\n    somelib.f(torch.ones(1))\n"
        "    assert not [name for name in sys.modules if name.startswith('pytest_torch_compile.existing')]\n"
        "    now = {**vars(torch.nn.Module), **vars(torch.Tensor), **vars(torch)}\n"
        "    assert not [name for name in before if now[name] is not before[name]]\n"
        "    assert sys.gettrace() is None and sys.getprofile() is None\n"
    )
    library.tester.makepyfile(test_alone=tests)
    environment = {"PYTHONPATH": f"{sys.path[0]}:."}
    done = other_process(library.tester.path, "test_alone.py", environment=environment.items())
    assert "1 passed" in done.stdout, done.stdout[-3000:]
