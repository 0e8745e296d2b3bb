"""``--compile-fast`` checks all but generated code, and says so; a plain ``check_compile`` goes by the settings too."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from tests.plugin.projects import HEAD, OPTIONS, lines_with, other_process  # noqa: E402

PLAIN = """
from pytest_torch_compile import check_compile

def test_a():
    report = check_compile(changing, torch.ones(2), 2)
    assert report.backend == {backend!r}
    print(report)
"""


@pytest.fixture
def fast(project):
    project.tester.makeini("[pytest]\n")

    def run(source, *options):
        return project(source, "--compile-fast", *options)

    run.tester = project.tester
    return run


def test_fast_replaces_inductor_and_says_so(fast):
    result = fast(
        "def test_a(compile_check):\n    assert compile_check(changing, torch.ones(2), 2).backend == 'aot_eager'\n"
    )
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            "torch.compile: *backend aot_eager (--compile-fast: generated code is not checked)*",
            "Not observable in 1 check: generated code, because --compile-fast uses backend aot_eager",
        ]
    )


def test_fast_finds_what_is_not_of_generated_code(fast):
    result = fast("def test_a(compile_check):\n    compile_check(breaking, torch.ones(2))\n")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E *graph-break: *", "E *Not observable: generated code, because --compile-fast*"])


@pytest.mark.parametrize(
    "source",
    [
        "def test_a(compile_check):\n    assert compile_check(changing, torch.ones(2), 2, backend='eager').backend == 'eager'\n",
        "@pytest.mark.torch_compile(backend='eager')\ndef test_a(compile_check):\n"
        "    assert compile_check(changing, torch.ones(2), 2).backend == 'eager'\n",
        "@pytest.fixture\ndef compile_options():\n    return {'backend': 'eager'}\n\ndef test_a(compile_check):\n"
        "    assert compile_check(changing, torch.ones(2), 2).backend == 'eager'\n",
    ],
    ids=["call", "marker", "fixture"],
)
def test_backend_that_a_check_names_is_kept(fast, source):
    result = fast(source)
    result.assert_outcomes(passed=1)
    assert not lines_with(result, "Not observable")


def test_other_backend_of_the_options_is_kept(fast):
    fast(PLAIN.format(backend="eager"), "--compile-backend=eager").assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--compile-perf=gate"], "*--compile-fast does not generate code that can be timed*"),
        (["--compile-perf=track"], "*--compile-fast does not generate code that can be timed*"),
        (["--compile-update-baselines"], "*--compile-fast does not generate code that can be timed*"),
        (["--compile-backend=inductor"], "*cannot be combined with --compile-backend=inductor*"),
    ],
)
def test_fast_is_refused_beside_what_needs_generated_code(fast, options, text):
    result = fast("def test_a():\n    pass\n", *options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([text])


def test_ini_twin(project):
    project.tester.makeini("[pytest]\ncompile_fast = true\n")
    project(PLAIN.format(backend="aot_eager")).assert_outcomes(passed=1)


def test_isolated_test_is_fast_too(fast):
    fast.tester.makepyfile(HEAD + PLAIN.format(backend="aot_eager").replace("test_a()", "test_a(compile_options)"))
    done = other_process(fast.tester.path, "--compile-fast", "--compile-isolate")
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_plain_check_goes_by_the_backend_of_the_options(project, backend):
    project(PLAIN.format(backend=backend), f"--compile-backend={backend}").assert_outcomes(passed=1)


@pytest.mark.usefixtures("new_interpreters")
def test_plain_check_imports_no_pytest():
    import subprocess
    import sys

    code = "import sys, pytest_torch_compile as p; p.check_compile; sys.exit('pytest' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_help_is_plain_text(project):
    for option in ("--help", "--fixtures"):
        text = project.tester.runpytest_inprocess(*OPTIONS, option).stdout.str()
        ours = [line for line in text.splitlines() if "compile" in line]
        assert ours and not [line for line in ours if "``" in line], option
