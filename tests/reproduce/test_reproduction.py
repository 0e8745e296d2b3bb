"""`--compile-repro`: a failed check leaves a file that fails in the same way, and that was run before it was named."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from pytest_torch_compile import CompileCheckFailed, call, check_compile, settings  # noqa: E402

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


def test_smallest_module_is_what_is_written(repro, tmp_path):
    repro(Block(Block(Breaking())), X)
    text, _ = run_alone(tmp_path / "repro")
    assert "class Breaking" in text
    assert "class Block" not in text


def test_each_failing_check_has_a_file_of_its_own(repro, tmp_path):
    first, second = repro(prints, X), repro(prints, X)
    assert first != second
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
    assert line.startswith("no reproduction failed alike: ")
    assert not (tmp_path / "repro").exists()


def test_own_compile_function_has_none(repro):
    line = repro(prints, X, compile=lambda target: torch.compile(target, backend="eager"))
    assert line.startswith("no reproduction: it is written for torch.compile itself")


def test_an_error_on_the_way_does_not_hide_the_failure(repro, monkeypatch):
    monkeypatch.setattr("pytest_torch_compile.reproduce.reproduction.written", lambda *args, **options: 1 / 0)
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
    assert file.name == "test_option_of_the_command_line-py-test_it-graph-break.py"
    result.stdout.fnmatch_lines(["*reproduction: *needs only torch*"])
