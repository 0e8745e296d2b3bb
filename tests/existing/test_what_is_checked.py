"""Which calls are checked, and what becomes of a target."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from tests.existing.conftest import COUNTS_RECOMPILE, rows  # noqa: E402

BREAKING = """
class Breaking(nn.Module):
    def forward(self, x):
        print("now")
        return x + 1
"""
WRONG = """
class Wrong(nn.Module):
    def forward(self, x):
        return x + 1 if torch.compiler.is_compiling() else x + 2
"""


def test_modules_functions_methods_and_callables_are_targets_of_their_own(library):
    result = library(
        "class Layer(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.inner = nn.Linear(2, 2)\n"
        "    def forward(self, x):\n        return doubled(self.inner(x))\n"
        "class Kernel:\n    def __call__(self, x):\n        return x.exp()\n    def grown(self, x):\n        return x + 1\n"
        "    @staticmethod\n    def still(x):\n        return x - 1\n    @classmethod\n    def made(cls, x):\n        return x * 3\n"
        "def doubled(x):\n    return 2 * x\ndef _private(x):\n    return x\n",
        "def test_a():\n    x = torch.ones(2)\n    somelib.Layer()(x)\n    k = somelib.Kernel()\n    k(x), k.grown(x), k.still(x), k.made(x)\n"
        "    somelib._private(x)\n",
    )
    result.assert_outcomes(passed=1 + 5)
    seen = rows(result)
    assert set(seen) == {"Layer", "Kernel", "Kernel.grown", "Kernel.still", "Kernel.made"}
    assert all(verdict.startswith("works 1 checked") for verdict in seen.values())


def test_decorated_functions_that_share_code_are_told_apart(library):
    result = library(
        "def kept(f):\n    @functools.wraps(f)\n    def inner(x):\n        return f(x.clone())\n    return inner\n"
        "@kept\ndef fine(x):\n    return x * 2\n@kept\ndef breaking(x):\n    print('now')\n    return x\n"
        "@torch.no_grad()\ndef quiet(x):\n    return x.sin()\n",
        "def test_a():\n    for f in (somelib.fine, somelib.breaking, somelib.quiet):\n        f(torch.ones(2))\n",
    )
    seen = rows(result)
    assert {name: verdict.split()[0] for name, verdict in seen.items()} == {
        "fine": "works", "breaking": "breaks", "quiet": "works",
    }  # fmt: skip


def test_break_is_a_failed_test_of_the_target_and_not_of_the_test_that_calls_it(library):
    result = library(BREAKING, "def test_a():\n    somelib.Breaking()(torch.ones(2))\n")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*graph-break*", "*somelib/__init__.py:*", "The call was made by *::test_a"])
    result.stdout.fnmatch_lines(["FAILED somelib.Breaking [[]compile[]]*"])
    assert rows(result)["Breaking"].startswith("breaks 1 checked own code: somelib/__init__.py:")


def test_break_in_pythons_own_library_is_shown_at_the_line_of_the_package(library):
    result = library(
        "import copy\ndef f(x):\n    return copy.deepcopy(x) + 1\n", "def test_a():\n    somelib.f(torch.ones(2))\n"
    )
    assert rows(result)["f"].startswith("breaks 1 checked own code: somelib/__init__.py:7 (")


def test_cache_that_only_eager_code_fills_is_different_state_and_not_wrong(library):
    result = library(
        "CACHE = {}\ndef f(x):\n    if not torch.compiler.is_compiling():\n        CACHE['key'] = 1\n    return x + 1\n",
        "def test_a():\n    somelib.f(torch.ones(2))\n",
    )
    assert rows(result)["f"].startswith("different state 1 checked state: ")


def test_wrong_numbers_are_found(library):
    result = library(WRONG, "def test_a():\n    somelib.Wrong()(torch.ones(2))\n")
    result.assert_outcomes(passed=1, failed=1)
    assert rows(result)["Wrong"].startswith("wrong")


GRADIENT = """
class Wrong(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x * 2
    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.factor, None

def doubled(x):
    return Wrong.apply(x, 3 if torch.compiler.is_compiling() else 2)
"""


@pytest.mark.parametrize(("ends", "verdict"), [(".sum().backward()", "wrong"), ("", "works")])
def test_gradients_are_checked_where_the_test_asks_for_them(library, ends, verdict):
    result = library(GRADIENT, f"def test_a():\n    somelib.doubled(torch.ones(2, requires_grad=True)){ends}\n")
    assert rows(result)["doubled"].split()[0] == verdict


def test_gradcheck_asks_for_gradients(library):
    result = library(
        "def doubled(x):\n    return x * 2\n",
        "def test_a():\n    x = torch.ones(2, dtype=torch.float64, requires_grad=True)\n"
        "    assert torch.autograd.gradcheck(somelib.doubled, (x,))\n",
    )
    result.assert_outcomes(passed=2)
    assert rows(result)["doubled"] == "works 1 checked"


SIZES = "def test_a():\n    for n in (2, 3, 4, 5, 6):\n        somelib.scaled(torch.ones(n))\n"


def test_shapes_that_automatic_dynamic_treats_alike_are_one_check(library):
    result = library("def scaled(x):\n    return x * 2\n", SIZES)
    assert rows(result)["scaled"] == "works 3 checked"  # fixed sizes, dynamic ones, and one that reuses the graph


def test_sizes_of_0_and_1_need_graphs_of_their_own(library):
    result = library("def scaled(x):\n    return x * 2\n", SIZES.replace("(2, 3, 4, 5, 6)", "(2, 3, 1, 0)"))
    assert rows(result)["scaled"] == "works 4 checked"


def test_recompiles_beyond_those_of_dynamic_shapes_are_found(library):
    sizes = SIZES.replace("(2, 3, 4, 5, 6)", "(7, 9, 5)")
    assert rows(library("def scaled(x):\n    return x * 2\n", sizes))["scaled"] == "works 3 checked"
    result = library("def scaled(x):\n    return x * 2 if x.shape[0] > 6 else x * 3\n", sizes)
    assert rows(result)["scaled"].startswith("recompiles 3 checked recompile: 2 recompiles, 1 allowed")


@pytest.mark.parametrize(
    ("package", "verdict"),
    [
        pytest.param("    def forward(self, x):\n        self.calls += 1\n        return x + 1\n", "recompiles", marks=COUNTS_RECOMPILE),
        ("    def forward(self, x):\n        seen.append(1)\n        return x + len(seen) * 0\n", "recompiles"),
        ("    def forward(self, x):\n        if not hasattr(self, 'a'):\n            self.a = 1\n        elif not hasattr(self, 'b'):\n            self.b = 2\n        return x + 1\n", "works"),
        ("    def forward(self, x):\n        self.calls = 1\n        return x + 1\n", "works"),
        ("    def forward(self, x):\n        self.last = x.clone()\n        return x + 1\n", "works"),
        ("    def forward(self, x):\n        self.calls += 1\n        if self.calls > 1:\n            raise ValueError\n        return x + 1\n", "works"),
    ],
    ids=["counter", "growing list", "objects of the first two calls", "set once", "new tensor", "once only"],
)  # fmt: skip
def test_call_that_changes_a_number_each_time_is_repeated(library, package, verdict):
    head = "seen = []\nclass Layer(nn.Module):\n    calls = 0\n"
    result = library(f"{head}{package}", "def test_a():\n    somelib.Layer()(torch.ones(2))\n")
    assert rows(result)["Layer"].split()[0] == verdict


def test_call_whose_backward_cannot_be_repeated_is_checked_once(library):
    result = library(
        "class Layer(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.state = torch.zeros(2)\n"
        "    def forward(self, x):\n        self.state = (self.state + x).sin()\n        return self.state\n",
        "def test_a():\n    somelib.Layer()(torch.ones(2, requires_grad=True)).sum().backward()\n",
    )
    assert rows(result)["Layer"] == "works 1 checked"


@pytest.mark.parametrize("base", ["_Base", "Base"])
def test_call_method_of_a_base_class_is_observed(library, base):
    result = library(
        f"class {base}(nn.Module):\n    def __call__(self, x):\n        return self.forward(x)\n"
        f"class Layer({base}):\n    def forward(self, x):\n        print(1)\n        return x + 1\n"
        f"class _Private({base}):\n    def forward(self, x):\n        print(1)\n        return x + 2\n",
        "def test_a():\n    somelib.Layer()(torch.ones(2))\n    somelib._Private()(torch.ones(2))\n",
    )
    found = {name: row.split()[0] for name, row in rows(result).items()}
    assert found == {"Layer": "breaks"} | ({"Base": "breaks"} if base == "Base" else {})
    assert rows(result)["Layer"].startswith("breaks 1 checked")


def test_number_of_shapes_is_bounded(library):
    sizes = SIZES.replace("(2, 3, 4, 5, 6)", "(2, 3, 1, 0)")
    result = library("def scaled(x):\n    return x * 2\n", sizes, "--compile-existing-shapes=2")
    limit = "there are more shapes than --compile-existing-shapes allows"
    assert rows(result)["scaled"] == f"works so far 2 checked, 2 skipped {limit}"
    result.assert_outcomes(passed=2)


def test_target_that_worked_stays_so_in_the_baseline_when_a_limit_skips_calls(library):
    sizes = SIZES.replace("(2, 3, 4, 5, 6)", "(2, 3, 1, 0)")
    fine = "def scaled(x):\n    return x * 2\n"
    for _ in range(2):
        library(fine, sizes, "--compile-existing-shapes=8", "--compile-update-baselines")
        (stored,) = library.tester.path.glob("baselines/*/existing.json")
        assert '"works"' in stored.read_text()
        library(fine, sizes, "--compile-existing-shapes=2", "--compile-update-baselines").assert_outcomes(passed=2)
        assert '"works"' in stored.read_text()
    breaks = library(fine.replace("return", "print(1)\n    return"), sizes, "--compile-existing-shapes=2")
    breaks.assert_outcomes(passed=1, failed=1)


def test_calls_beyond_the_time_are_left_out_and_named(library):
    result = library(
        "def f(x):\n    return x + 1\ndef g(x):\n    return x + 1\n",
        "def test_a():\n    somelib.f(torch.ones(1))\n    somelib.g(torch.ones(1))\n",
        "--compile-existing-minutes=1e-9",
    )
    result.assert_outcomes(passed=2, skipped=1)
    assert rows(result)["g"].startswith("not checked 0 checked the time limit was reached")


@pytest.mark.parametrize(
    ("package", "tests", "why"),
    [
        ("def f(x):\n    raise ValueError\n", "def test_a():\n    try:\n        somelib.f(torch.ones(1))\n    except ValueError:\n        pass\n", "eager raises ValueError"),
        ("def f(x, path):\n    path.mkdir()\n    return x + 1\n", "def test_a(tmp_path):\n    somelib.f(torch.ones(1), tmp_path / 'new')\n", "the call uses os.mkdir"),
        ("def f(x, path):\n    open(path, 'w').write('a')\n    return x + 1\n", "def test_a(tmp_path):\n    somelib.f(torch.ones(1), tmp_path / 'new')\n", "the call writes a file"),
        ("def f(x, g):\n    return x + g()\n", "from unittest.mock import Mock\ndef test_a():\n    m = Mock(return_value=1)\n    somelib.f(torch.ones(1), m)\n    m.assert_called_once()\n", "an object of type Mock, whose state cannot be restored"),
        ("def g(x):\n    return x\ndef f(x):\n    return g(x) + 1\n", "def test_a(monkeypatch):\n    monkeypatch.setattr(somelib, 'g', lambda x: x)\n    somelib.f(torch.ones(1))\n", "the test has replaced somelib.g"),
        ("def f(x):\n    return x + 1\n", "import threading\ndef test_a():\n    t = threading.Thread(target=somelib.f, args=[torch.ones(1)])\n    t.start()\n    t.join()\n", None),
        ("def f(x):\n    return x + 1\n", "import threading\ndef test_a():\n    done = threading.Event()\n    t = threading.Thread(target=done.wait)\n    t.start()\n    somelib.f(torch.ones(1))\n    done.set()\n    t.join()\n", "the test runs other threads"),
        ("def f(x):\n    return x + 1\n", "def test_a():\n    torch.jit.trace(somelib.f, torch.ones(1))\n", "the target is called during tracing"),
        ("def f(x):\n    return x + 1\n", "def test_a():\n    torch.compile(lambda x: x.sin(), backend='eager')(torch.ones(1))\n    somelib.f(torch.ones(1))\n", "code was compiled earlier in the test"),
    ],
    ids=["raises", "mkdir", "file", "mock", "monkeypatch", "in a thread", "beside a thread", "traced", "compiles"],
)  # fmt: skip
def test_call_that_cannot_be_checked_is_skipped_with_the_reason(library, package, tests, why):
    result = library(package, tests)
    result.assert_outcomes(passed=1, skipped=1 if why else 0)
    if why:
        assert why in rows(result)["f"]


def test_idle_pool_of_threads_is_no_reason(library):
    tests = (
        "import time\nfrom concurrent.futures import ThreadPoolExecutor\npool = ThreadPoolExecutor(1)\n"
        "def test_a():\n    pool.submit(int).result()\n    time.sleep(0.2)\n    somelib.f(torch.ones(1))\n    pool.shutdown()\n"
    )
    assert rows(library("def f(x):\n    return x + 1\n", tests))["f"] == "works 1 checked"
    busy = tests.replace(".result()", "").replace("submit(int)", "submit(time.sleep, 1)")
    assert "the test runs other threads" in rows(library("def f(x):\n    return x + 1\n", busy))["f"]


@pytest.mark.parametrize(
    "body",
    [
        "return x.shape", "return x.requires_grad_()", "return x.to(x.dtype)", "return x.contiguous()",
        "x.requires_grad = True", "return x.detach_()", "return x.dim(), x.is_floating_point()",
    ],
)  # fmt: skip
@pytest.mark.parametrize("mode", ["enable_grad", "inference_mode"])
def test_what_computes_nothing_is_no_target(library, body, mode):
    tests = f"def test_a():\n    with torch.{mode}():\n        somelib.f(torch.ones(1))\n"
    result = library(f"def f(x):\n    {body}\n", tests)
    result.assert_outcomes(passed=1)
    assert rows(result) == {}


@pytest.mark.parametrize(
    "body",
    [
        "x.add_(1)\n    return x", "x += 1", "x.mul_(0.9).add_(x, alpha=0.1)", "x[0] = 5\n    return x",
        "return torch.relu_(x)", "nn.functional.relu(x, inplace=True)", "torch._foreach_add_([x], 1)",
        "torch.add(x, 1, out=x)", "x.data = torch.zeros(3)",
    ],
)  # fmt: skip
@pytest.mark.parametrize("mode", ["no_grad", "inference_mode"])
def test_call_that_only_writes_to_its_argument_is_checked(library, body, mode):
    tests = f"def test_a():\n    with torch.{mode}():\n        somelib.f(torch.ones(3))\n"
    assert " 1 checked" in rows(library(f"def f(x):\n    {body}\n", tests))["f"]


def test_wrong_write_to_an_argument_is_found(library):
    result = library(
        "def f(x):\n    x.add_(1 if torch.compiler.is_compiling() else 2)\n",
        "def test_a():\n    somelib.f(torch.ones(3))\n",
    )
    assert rows(result)["f"].startswith("wrong")


COMPILED = """
def helper(x):
    return x + 1
@torch.compile(backend="eager")
def compiled(x):
    return x.sin()
@torch.compile(backend="eager")
def breaking(x):
    x = x.cos()
    print("now")
    return helper(x)
class Layer(nn.Module):
    @torch.compile(backend="eager")
    def forward(self, x):
        return x * 2
def plain(x):
    return x + 1
"""
CALLS_COMPILED = (
    "def test_a():\n    for f in (somelib.compiled, somelib.breaking, somelib.Layer()):\n        f(torch.ones(2))\n"
)
CALLS_PLAIN = "    somelib.plain(torch.ones(2))\n"


@pytest.mark.parametrize(
    "tests",
    [
        f"{CALLS_COMPILED}{CALLS_PLAIN}",
        f"{CALLS_COMPILED}def test_b():\n{CALLS_PLAIN}",
        f"def test_b():\n{CALLS_PLAIN}{CALLS_COMPILED}",
        f"{CALLS_COMPILED}def test_b():\n    somelib.compiled(torch.ones(4))\n{CALLS_PLAIN}",
    ],
    ids=["same test", "later test", "earlier test", "compiled again"],
)
def test_function_that_the_package_compiles_is_not_compiled_by_the_test(library, tests):
    seen = rows(library(COMPILED, tests))
    assert {name: verdict.split()[0] for name, verdict in seen.items()} == {
        "compiled": "works", "breaking": "breaks", "Layer": "works", "plain": "works",
    }  # fmt: skip


def test_function_of_the_package_that_the_test_compiles_is_not_checked_afterwards(library):
    tests = f"def test_a():\n    torch.compile(somelib.helper, backend='eager')(torch.ones(2))\n{CALLS_PLAIN}"
    assert "code was compiled earlier in the test" in rows(library(COMPILED, tests))["plain"]


MAKING = """
class Layer(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
    @classmethod
    def made(cls, size):
        return cls(size)
    def kept(self, x):
        self.last = x + 1
        return self
def pair(size):
    return {"layers": [Layer(size)]}
def used(x):
    return nn.Softmax(dim=0)(x)
"""


def test_call_that_returns_a_new_module_is_not_checked(library):
    tests = "def test_a():\n    somelib.Layer.made(2).kept(torch.ones(2))\n    somelib.pair(2)\n    somelib.used(torch.ones(2))\n"
    result = library(MAKING, tests)
    result.assert_outcomes(passed=3, skipped=2)
    skipped = "not checked 0 checked the call returns a new nn.Module"
    works = "works 1 checked"
    assert rows(result) == {"Layer.made": skipped, "pair": skipped, "Layer.kept": works, "used": works}


def test_default_backend_is_named_as_the_reason_that_no_code_is_generated(library):
    tests = "def test_a():\n    somelib.Breaking()(torch.ones(2))\n"
    why = "Not observable: generated code, because --compile-existing uses backend aot_eager by default*"
    result = library(BREAKING, tests)
    result.stdout.fnmatch_lines([why])
    result.stdout.no_fnmatch_line("*--compile-fast*")
    library(BREAKING, tests, "--compile-backend=inductor").stdout.no_fnmatch_line("*Not observable: generated code*")


def test_pattern_narrows_the_targets(library):
    package, tests = (
        "def fa(x):\n    return x + 1\ndef fb(x):\n    return x + 1\n",
        "def test_a():\n    somelib.fa(torch.ones(1))\n    somelib.fb(torch.ones(1))\n",
    )
    assert set(rows(library(package, tests, existing="somelib.*a"))) == {"fa"}
    assert set(rows(library(package, tests, existing="somelib.fb"))) == {"fb"}


def test_pattern_fits_any_name_of_a_target(library):
    package = "def longer_name(x):\n    return x + 1\nshort = longer_name\n"
    tests = "def test_a():\n    somelib.short(torch.ones(1))\n"
    assert set(rows(library(package, tests, existing="somelib.longer_name"))) == {"short"}


def test_two_packages_are_refused(library):
    result = library("", "def test_a():\n    pass\n", existing="somelib,other")
    assert result.ret == pytest.ExitCode.USAGE_ERROR


@pytest.mark.parametrize(
    "given", ["nopkg", "somelib.nope", "somelib.fa,somelib.nope", "somelib.fa.nope", "somelib.nope.*"]
)
@pytest.mark.parametrize("options", [[], ["-n1"]], ids=["alone", "xdist"])
def test_name_that_does_not_exist_is_refused(library, given, options):
    if options:
        pytest.importorskip("xdist")
    package, tests = "def fa(x):\n    return x + 1\n", "def test_a():\n    somelib.fa(torch.ones(1))\n"
    library.tester.makeconftest("import sys, pathlib\nsys.path.insert(0, str(pathlib.Path(__file__).parent))\n")
    result = library(package, tests, *options, existing=given)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    unknown = "nopkg" if given == "nopkg" else given.rpartition(",")[2]
    result.stderr.fnmatch_lines(
        [f"*--compile-existing={given.replace('*', '[*]')}: {unknown.replace('*', '[*]')} does not exist*"]
    )
    result.stdout.no_fnmatch_line("*1 passed*")


def test_submodule_that_only_a_test_imports_is_known(library):
    library.tester.mkpydir("somelib")
    (library.tester.path / "somelib" / "late.py").write_text("def f(x):\n    return x + 1\n")
    tests = "def test_a():\n    import somelib.late\ndef test_b():\n    somelib.late.f(torch.ones(1))\n"
    assert set(rows(library("", tests, existing="somelib.late"))) == {"late.f"}


def test_package_that_only_conftest_makes_importable_is_known(library):
    (library.tester.path / "other").mkdir()
    (library.tester.path / "other" / "hidden.py").write_text("def f(x):\n    return x + 1\n")
    library.tester.makeconftest(
        "import sys, pathlib\nsys.path.insert(0, str(pathlib.Path(__file__).parent / 'other'))\n"
    )
    tests = "def test_a():\n    import hidden\ndef test_b():\n    import hidden\n    hidden.f(torch.ones(1))\n"
    library("", tests, "-p", "no:randomly", existing="hidden").assert_outcomes(passed=3)
