"""A target in the result of the run: options, markers, files and reports treat it as a test."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

from tests.existing.conftest import COUNTS_RECOMPILE, rows  # noqa: E402
from tests.plugin.projects import other_process  # noqa: E402

TWO = "def fine(x):\n    return x * 2\ndef breaking(x):\n    print('now')\n    return x + 1\n"
CALLS = "def test_a():\n    somelib.fine(torch.ones(2))\ndef test_b():\n    somelib.breaking(torch.ones(2))\n"


def test_accepted_breaks_do_not_fail_any_more(library):
    library(TWO, CALLS, "--compile-accept").assert_outcomes(passed=4)
    accepted = json.loads((library.tester.path / "compile-accepted.json").read_text())
    assert set(accepted["tests"]) == {"somelib.breaking [compile]"}
    library(TWO, CALLS).assert_outcomes(passed=4)
    worse = TWO.replace("x * 2", "x * 2 if x.sum() > 0 else x")
    library(worse, CALLS).assert_outcomes(passed=3, failed=1)


def test_conftest_marks_a_known_failure(library):
    library.tester.makeconftest(
        "import pytest\ndef pytest_collection_modifyitems(items):\n    for item in items:\n"
        "        if item.name == 'somelib.breaking [compile]':\n"
        "            item.add_marker(pytest.mark.compile_known_failure('prints', kind='graph-break'))\n"
    )
    library(TWO, CALLS).assert_outcomes(passed=3, xfailed=1)


def test_k_chooses_targets_where_it_names_one(library):
    tests = "def test_breaking_and_fine():\n    somelib.fine(torch.ones(2))\n    somelib.breaking(torch.ones(2))\n"
    result = library(TWO, tests, "-k", "breaking")
    result.assert_outcomes(passed=1, failed=1, deselected=1)


def test_k_that_names_no_target_leaves_all(library):
    library(TWO, CALLS, "-k", "test_a or test_b").assert_outcomes(passed=3, failed=1)


def test_conftest_that_drops_tests_by_name_keeps_the_targets(library):
    library.tester.makeconftest(
        "def pytest_collection_modifyitems(items):\n    items[:] = [i for i in items if 'compile' not in i.name]\n"
    )
    library(TWO, CALLS).assert_outcomes(passed=3, failed=1)


def test_x_ends_at_the_first_target_that_fails(library):
    library(TWO.replace("fine", "zfine"), CALLS.replace("fine", "zfine"), "-x").assert_outcomes(passed=2, failed=1)


def test_table_of_a_run_that_ends_early_shows_what_was_checked(library):
    tests = f"{CALLS}def test_c():\n    assert False\ndef test_d():\n    pass\n"
    result = library(TWO, tests, "-x", "--compile-update-baselines")
    result.assert_outcomes(passed=2, failed=1)
    assert {name: verdict.split()[0] for name, verdict in rows(result).items()} == {
        "fine": "works",
        "breaking": "breaks",
    }
    assert not (library.tester.path / "baselines").exists()


def test_report_and_junit_have_the_targets(library):
    library(TWO, CALLS, "--compile-report=out", "--junitxml=j.xml")
    document = json.loads((library.tester.path / "out" / "report.json").read_text())
    targets = {test["id"]: test["outcome"] for test in document["tests"] if "[compile]" in test["id"]}
    assert targets == {"somelib.fine [compile]": "passed", "somelib.breaking [compile]": "failed"}
    assert "somelib.breaking [compile]" in (library.tester.path / "j.xml").read_text()


def test_baseline_holds_what_works_and_knows_what_breaks(library):
    library(TWO, CALLS, "--compile-update-baselines").assert_outcomes(passed=3, xfailed=1)
    library(TWO, CALLS).assert_outcomes(passed=3, xfailed=1)
    worse = TWO.replace("x * 2", "x * 2 if x.sum() > 0 else x")
    library(worse, CALLS).assert_outcomes(passed=2, xfailed=1, failed=1)
    another = TWO.replace("print('now')", "print('now')\n    x = x if x.sum() > 0 else -x")
    library(another, CALLS).assert_outcomes(passed=3, failed=1)
    better = library(TWO.replace("print('now')", "pass"), CALLS)
    better.assert_outcomes(passed=4)
    better.stdout.fnmatch_lines(["somelib.breaking [[]compile[]]: works (baseline: breaks)"])
    gone = library(TWO, "def test_b():\n    somelib.breaking(torch.ones(2))\n")
    gone.stdout.fnmatch_lines(["somelib.fine [[]compile[]] was not checked in this run (baseline: works)"])


WRITTEN = """
class Layer(nn.Module):
    def __init__(self, width, mode="fast"):
        super().__init__()
        self.inner = nn.Linear(width, width)
    def forward(self, x, scale=1.0, note=""):
        return self.inner(x) * scale
def breaking(x, mode="mean"):
    print("now")
    return x.sum() if mode == "sum" else x.mean()
"""
CALLING = """
def test_a():
    layer = somelib.Layer(3, mode="fast").eval()
    for rows in (2, 4):
        layer(torch.full((rows, 3), 12345.678), scale=2.0)
def test_b():
    somelib.breaking(torch.tensor([987654, 2]).float(), mode="sum")
def test_secret():
    somelib.Layer(4)(torch.ones(2, 4), note="hf_secret_token")
"""


def test_written_tests_pass_without_the_package_tests_and_hold_none_of_their_data(library):
    result = library(WRITTEN, CALLING, "--compile-write-tests=written")
    result.stdout.fnmatch_lines(["tests written to *written: 2; targets for which no test could be written: 0"])
    folder = library.tester.path / "written"
    text = (folder / "test_somelib.py").read_text()
    assert "somelib.Layer(3).eval()" in text and "max_recompiles=1" in text
    for data in ("12345", "987654", "secret"):
        assert data not in text
    assert {path.suffix for path in folder.iterdir()} == {".py"}
    (library.tester.path / "alone").mkdir()
    (folder / "test_somelib.py").rename(library.tester.path / "alone" / "test_somelib.py")
    done = other_process(
        library.tester.path, "alone", "--compile-fast", environment={"PYTHONPATH": f"{sys.path[0]}:."}.items()
    )
    assert "1 passed, 1 xfailed" in done.stdout, done.stdout[-3000:]


def test_written_tensors_of_one_call_have_numbers_of_their_own(library):
    package = "def f(x, y):\n    assert not torch.equal(x, y)\n    return x - y\n"
    tests = "def test_a():\n    somelib.f(torch.rand(3), torch.rand(3))\n"
    result = library(package, tests, "--compile-write-tests=written")
    result.stdout.fnmatch_lines(["tests written to *written: 1; targets for which no test could be written: 0"])


def test_written_tests_of_a_class_and_a_function_of_one_name_are_both_kept(library):
    package = (
        "import enum\nclass Order(enum.Enum):\n    RGB = 1\nclass ToRgb(nn.Module):\n    def __init__(self, order):\n"
        "        super().__init__()\n        self.order = order\n    def forward(self, x):\n        return to_rgb(x, self.order)\n"
        "def to_rgb(x, order):\n    print('now')\n    return x + 1\n"
    )
    tests = "def test_a():\n    somelib.ToRgb(somelib.Order.RGB)(torch.ones(2))\n    somelib.to_rgb(torch.ones(2), somelib.Order.RGB)\n"
    result = library(package, tests, "--compile-write-tests=written")
    result.stdout.fnmatch_lines(["tests written to *written: 2; targets for which no test could be written: 0"])
    text = (library.tester.path / "written" / "test_somelib.py").read_text()
    assert "def test_to_rgb(" in text and "def test_to_rgb_function(" in text
    assert "somelib.ToRgb(somelib.Order.RGB)" in text
    assert "allowed:" not in text and all(len(line) <= 110 for line in text.splitlines())


@COUNTS_RECOMPILE
def test_written_test_repeats_a_call_that_the_check_repeated(library):
    package = "class Layer(nn.Module):\n    calls = 0\n    def forward(self, x):\n        self.calls += 1\n        return x + 1\n"
    tests = "def test_a():\n    somelib.Layer()(torch.ones(2))\n"
    library(package, tests, "--compile-write-tests=written")
    text = (library.tester.path / "written" / "test_somelib.py").read_text()
    assert "calls=[call(tensor(2)), call(tensor(2)), call(tensor(2)), call(tensor(2))]" in text
    assert "max_recompiles=2" in text
    assert 'kind="recompile"' in text


def test_written_test_of_one_call_passes_its_arguments_directly(library):
    package = "def f(x, y=1):\n    return x * y\ndef g(x):\n    return x.sin()\n"
    tests = (
        "def test_a():\n    somelib.f(torch.full((3,), 200.0), 2)\n"
        "def test_b():\n    with torch.no_grad():\n        somelib.g(torch.ones(2))\n"
    )
    library(package, tests, "--compile-write-tests=written")
    text = (library.tester.path / "written" / "test_somelib.py").read_text()
    assert "compile_check(somelib.f, tensor(3, high=255), 2)" in text
    assert "calls=[call(tensor(2)).under(torch.no_grad)]" in text
    head = text.partition("def ")[0]
    assert "pytest --compile-fast" in head and "max_recompiles" not in head and "import pytest\n" not in head


def test_written_tests_of_similar_names_can_be_told_apart(library):
    package = (
        "class To2xRgb(nn.Module):\n    def forward(self, x):\n        return x + 1\ndef to2x_rgb(x):\n    return x + 1\n"
        "def to_2x_rgb(x):\n    return x + 2\n"
    )
    tests = "def test_a():\n    for f in (somelib.To2xRgb(), somelib.to2x_rgb, somelib.to_2x_rgb):\n        f(torch.ones(2))\n"
    library(package, tests, "--compile-write-tests=written")
    text = (library.tester.path / "written" / "test_somelib.py").read_text()
    names = [line for line in text.splitlines() if line.startswith("def test_")]
    assert len(names) == len({name.replace("_", "") for name in names}) == 3


def test_written_test_of_a_function_named_like_its_module_is_in_the_file_of_the_package(library):
    library("from .sepia import sepia\n", "", existing=None)
    folder = library.tester.path / "somelib"
    (folder / "sepia.py").write_text("def sepia(x):\n    print('now')\n    return x + 1\n")
    tests = "def test_a():\n    somelib.sepia(torch.ones(2))\n"
    library("from .sepia import sepia\n", tests, "--compile-write-tests=written")
    assert [path.name for path in (library.tester.path / "written").iterdir()] == ["test_somelib.py"]
    text = (library.tester.path / "written" / "test_somelib.py").read_text()
    assert "def test_sepia(" in text and "at somelib/sepia.py:2" in text
    assert "A marked test that passes is reported as failed" in text.partition("def ")[0]


def test_target_that_cannot_be_written_is_named(library):
    library(
        "def f(x, note):\n    return x + 1\n", "def test_a():\n    somelib.f(torch.ones(1), 'hf_secret')\n",
        "--compile-write-tests=written",
    )  # fmt: skip
    assert not (library.tester.path / "written" / "test_somelib.py").exists()


@pytest.mark.parametrize("options", [["--compile-isolate"], ["--compile-existing-minutes=0"]])
def test_options_that_do_not_fit_are_refused(library, options):
    assert library(TWO, CALLS, *options).ret == pytest.ExitCode.USAGE_ERROR


def test_workers_of_xdist_hand_over_what_they_checked(library):
    pytest.importorskip("xdist")
    library(TWO, CALLS, "--collect-only")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "2", "--compile-existing=somelib", "-p", "no:cacheprovider"],
        cwd=library.tester.path, env=_environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "1 failed, 3 passed" in done.stdout, done.stdout[-3000:]
    assert "FAILED somelib.breaking [compile]" in done.stdout
    assert "targets: 2 (1 breaks, 1 works)" in done.stdout


def _environment():
    import os

    from tests.plugin.projects import SOURCES

    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST_")}
    return {**inherited, "PYTHONPATH": f"{SOURCES}:.", "OMP_NUM_THREADS": "1"}


def test_coverage_and_debuggers_keep_their_trace_function(library):
    tests = (
        "import sys\nseen = []\ndef tracer(frame, event, argument):\n    seen.append(event)\n"
        "def test_a():\n    sys.settrace(tracer)\n    somelib.fine(torch.ones(2))\n    assert sys.gettrace() is tracer\n"
        "    sys.settrace(None)\n    assert seen\n"
    )
    # A test that takes the trace function ends the listening before Python 3.12, and does not disturb it from then on.
    library(TWO, tests).assert_outcomes(passed=2 if hasattr(sys, "monitoring") else 1)


def test_ini_twin(library):
    library.tester.makeini("[pytest]\ncompile_existing = somelib.fine\n")
    assert set(rows(library(TWO, CALLS, existing=None))) == {"fine"}


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/env/site-packages/other/a.py:3", "other/a.py:3"),
        ("/home/me/somelib/b.py:3", "somelib/b.py:3"),
        ("/usr/lib/c.py:3", "/usr/lib/c.py:3"),
    ],
)
def test_place_is_shown_from_the_folder_of_either_package_on(path, shown):
    from pytest_torch_compile.existing.verdicts import short_path

    assert short_path(path, "somelib", "other") == shown
