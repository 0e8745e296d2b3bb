"""``pytest-torch-compile diagnose``: from a model to its page, and one line for everything that cannot be used."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from types import SimpleNamespace

import pytest

from pytest_torch_compile.cli import commands as cli
from pytest_torch_compile.cli import cost, one_model
from pytest_torch_compile.cli.model_page import text_of_test
from pytest_torch_compile.speed.sample import Paired

torch = pytest.importorskip("torch")

MODELS = """
import torch
from pytest_torch_compile import call


class Clean(torch.nn.Module):
    def forward(self, x, scale=1.0):
        return x.sin() * scale


class Printing(torch.nn.Module):
    def forward(self, x):
        x = x.sin()
        print("shape", x.shape)
        return x.cos()


class Wrong(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.sin()

    @staticmethod
    def backward(ctx, grad):
        return grad * (2 if torch.compiler.is_compiling() else 1)


def with_a_wrong_gradient():
    layer = torch.nn.Linear(4, 4)
    return (lambda x: Wrong.apply(layer(x))), torch.ones(2, 4, requires_grad=True)


class Counting(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.steps = 0

    def forward(self, x):
        self.steps += 1
        return x * self.steps


def clean():
    return Clean(), torch.randn(4)


def by_name():
    return Clean(), {"x": torch.randn(4), "scale": 2.0}


def as_dict():
    return {"model": Clean(), "inputs": (torch.randn(4), 2.0)}


def sizes():
    return torch.nn.Linear(4, 4), [torch.randn(n, 4) for n in (2, 3, 5)]


def calls():
    return Clean(), [call(torch.randn(4)), call(torch.randn(4), scale=2.0).under(torch.no_grad)]


def make_inputs():
    return torch.randn(4), 2.0


ready = Clean()


def of_four():
    return torch.nn.Linear(4, 4)


number = 3


def broken():
    raise ValueError("no such width")


def of_width(width):
    return torch.nn.Linear(width, width)


def gives_text():
    return "a model"


def none_at_all():
    return Clean(), []


def fails_in_eager():
    return torch.nn.Linear(4, 4), torch.randn(2, 5)
"""


@pytest.fixture
def diagnose(tmp_path, monkeypatch, capsys):
    """Run the command with backend eager; gives the status, the page and what went to the error stream."""
    (tmp_path / "models.py").write_text(MODELS)
    (tmp_path / "unfinished.py").write_text("import torch\n\ndef make(:\n    pass\n")
    (tmp_path / "lacking.py").write_text("import torch\nimport a_module_that_is_not_there\n")
    (tmp_path / "leaving.py").write_text("import sys\nsys.exit('used as a script')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(cost, "SECONDS", 0.05)

    def run(*words, backend="eager"):
        for name in ("models", "unfinished", "lacking", "leaving"):
            sys.modules.pop(name, None)
        chosen = ["--backend", backend] if backend else []
        status = cli.main(["diagnose", *words, *chosen])
        return (status, *capsys.readouterr())

    return run


CLEAN = {
    "class with shapes": (["models:Clean", "--input", "4"], "compile_check(Clean(), calls=[torch.randn(4,)] * 2, "),
    "class with inputs": (["models:Clean", "--inputs", "models:make_inputs"], "calls=[make_inputs()] * 2"),
    "function": (["models:clean"], "calls=[inputs] * 2"),
    "keyword arguments": (["models:by_name"], "calls=[inputs] * 2"),
    "dict": (["models:as_dict"], 'model, inputs = as_dict()["model"], as_dict()["inputs"]'),
    "list of calls": (["models:calls", "--calls", "1"], "calls=(inputs * 1)[:1]"),
    "module": (["models:ready", "--input", "4", "--calls", "3"], "compile_check(ready, calls=[torch.randn(4,)] * 3"),
    "other inputs": (["models:clean", "--input", "2,3"], "compile_check(clean()[0], calls=[torch.randn(2, 3)] * 2"),
    "train": (["models:of_four", "--input", "2,4", "--train"], ", train=True, backend='eager')"),
}


@pytest.mark.parametrize("case", CLEAN)
def test_a_clean_model_is_status_0_with_a_test_to_copy(case, diagnose):
    words, expected = CLEAN[case]
    status, page, _ = diagnose(*words)
    assert status == 0, page
    assert expected in page.partition("As a test\n")[2]
    assert "passed the torch.compile check" in page.splitlines()[0]
    assert "What helps" not in page


def test_the_tests_to_copy_pass(diagnose, tmp_path, monkeypatch):
    written = []
    monkeypatch.setattr(
        one_model, "_looked_at", lambda *both: (written.append(both), (SimpleNamespace(findings=[]), []))[1]
    )
    monkeypatch.setattr(one_model, "_print", lambda *_: None)
    for words, _ in CLEAN.values():
        assert diagnose(*words)[0] == 0
    for number, (example, options) in enumerate(written):
        text = text_of_test(example, one_model._chosen(options))
        (tmp_path / f"test_copied_{number}.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--import-mode=prepend"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert f"{len(CLEAN)} passed" in done.stdout, done.stdout


def test_a_break_has_its_line_and_its_fix(diagnose, tmp_path):
    status, page, error = diagnose("models:Printing", "--input", "4", "--json", "report.json")
    assert status == 1
    line = MODELS.splitlines().index('        print("shape", x.shape)') + 1
    assert f"models.py:{line} in forward" in page
    assert "call to print or a logger" in page and "fix: remove the call" in page
    assert "2 graphs" in page and "1 graph break" in page
    assert "shape torch.Size" not in page, "what the model prints is no part of the page"
    assert "compiling and checking 2 calls of models:Printing" in error
    written = json.loads((tmp_path / "report.json").read_text())
    assert [finding["kind"] for finding in written["findings"]] == ["graph-break"]


def test_recompiles_are_a_table_with_the_guard_and_with_what_helps(diagnose):
    status, page, _ = diagnose("models:sizes")
    assert status == 1
    assert "1 recompile in 3 calls" in page
    assert "size mismatch at index 0. expected 2, actual 3" in page
    assert "tried: dynamic_dims={'input': 0}: 0 recompiles instead of 1" in page
    status, page, _ = diagnose("models:sizes", "--dynamic")
    assert status == 0 and "dynamic=True" in page


def test_a_counter_recompiles_in_the_second_of_two_equal_calls(diagnose):
    status, page, _ = diagnose("models:Counting", "--input", "4")
    assert status == 1
    assert "1 recompile in 2 calls" in page and "python-number" in page


def test_a_wrong_gradient_is_found_in_training_only(diagnose):
    assert diagnose("models:with_a_wrong_gradient", backend="aot_eager")[0] == 0
    status, page, _ = diagnose("models:with_a_wrong_gradient", "--train", backend="aot_eager")
    assert status == 1
    assert ". gradient: " in page


USAGE = {
    "no such module": (["nowhere:x"], "nowhere cannot be imported: ModuleNotFoundError: No module named 'nowhere'"),
    "no such name": (["models:nothing"], "models has no nothing; it defines "),
    "a path": (["models/net.py:Net"], "such as models.net:Net"),
    "no name": (["models"], "'models' does not have the form package.module:name, such as models:make_model"),
    "syntax error": (["unfinished:make"], "unfinished cannot be imported: SyntaxError: "),
    "missing import": (["lacking:make"], "(lacking.py:2: import a_module_that_is_not_there)"),
    "a script": (["leaving:make"], "leaving cannot be imported: SystemExit: used as a script"),
    "not callable": (["models:number"], "models:number is 3, which is not callable"),
    "raises": (["models:broken"], "ValueError: no such width (models.py:"),
    "takes arguments": (["models:of_width"], "it must be callable without arguments"),
    "no model": (["models:gives_text"], "models:gives_text returns 'a model', which is not a model"),
    "no inputs": (["models:Clean"], "returns a model without inputs: return (model, inputs), pass --inputs"),
    "empty list": (["models:none_at_all"], "returns an empty list of inputs"),
    "inputs raise": (["models:Clean", "--inputs", "models:broken"], "models:broken() raised ValueError"),
    "negative size": (["models:clean", "--input=-1,3"], "(-1, 3) is not a valid input shape: pass sizes of 0 or more"),
    "no such device": (["models:clean", "--device", "nonsense"], "device 'nonsense' is not available"),
    "no such mode": (["models:clean", "--mode", "nonsense"], "nonsense"),
    "eager fails": (["models:fails_in_eager"], "mat1 and mat2 shapes cannot be multiplied"),
}


@pytest.mark.parametrize("case", USAGE)
def test_what_cannot_be_used_is_one_line_and_status_2(case, diagnose):
    words, expected = USAGE[case]
    status, page, error = diagnose(*words)
    assert (status, page) == (2, ""), error
    assert expected in error.splitlines()[-1]
    assert [line for line in error.splitlines() if line.startswith("error: ")] == error.splitlines()[-1:]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["models:clean", "--calls", "0"], "'0' is not a valid number of calls; it must be 1 or more"),
        (["models:clean", "--input", "2,x"], "'2,x' is not a shape; pass sizes such as 2,3,224,224"),
        ([], "the following arguments are required"),
    ],
)
def test_options_that_cannot_be_read_are_refused(words, expected, diagnose, capsys):
    with pytest.raises(SystemExit) as refused:
        diagnose(*words)
    assert refused.value.code == 2
    assert expected in capsys.readouterr().err


@pytest.mark.usefixtures("new_interpreters")
def test_help_and_the_parser_import_no_torch():
    program = (
        "import sys\nfrom pytest_torch_compile.cli import main\n"
        "try:\n    main(['diagnose', '--help'])\nexcept SystemExit:\n    pass\nassert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "package.module:factory" in done.stdout


@pytest.mark.parametrize(
    ("eager", "compiled", "width", "rounds", "expected"),
    [
        (2.0, 1.0, 0.1, 20, "pays off after about 10 calls"),
        (1.0, 2.0, 0.1, 20, "does not pay off: compiled code is slower than eager here"),
        (1.01, 1.0, 0.1, 20, "does not pay off: the difference is within the spread"),
        (2.0, 1.0, 0.0, 3, "3 rounds are too few"),
    ],
)
def test_compilation_is_paid_back_only_by_what_is_beyond_the_spread(eager, compiled, width, rounds, expected):
    lines = cost._paid_back(10.0, Paired(eager, compiled, math.log(compiled / eager), width), rounds)
    assert expected in lines[-1]


def test_cost_says_what_it_was_measured_on(diagnose):
    page = diagnose("models:clean")[1]
    costs = page.partition("Cost\n")[2].partition("\n\n")[0]
    assert "with an empty compile cache" in costs and "middle 50% of the rounds" in costs
    assert "measured on a CPU with" in costs and "do not affect the result" in costs


def test_cost_that_cannot_be_measured_is_said(diagnose, monkeypatch):
    def fails(*_):
        raise RuntimeError("out of something\nmore")

    monkeypatch.setattr(one_model, "measured", fails)
    status, page, _ = diagnose("models:clean")
    assert status == 0
    assert "not measured: RuntimeError: out of something\n" in page
