"""Every code block of the documentation and of the README does what the text around it says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_torch_compile.action import inputs
from pytest_torch_compile.report import document
from tests.plugin.projects import OPTIONS
from tests.report import documents

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# Left to others: the pages whose numbers come from measurements, and commands that install, run whole suites or need
# several hosts.
NOT_RUN = (
    *("python -m pytest -p examples.planted", "python -m pip", "python3 -m pip", "uv ", "uvx ", "nox ", "git "),
    *("pytest-torch-compile torch ", "pytest-torch-compile compare --against ", "torchrun --nnodes ", "srun "),
)
# The commands of a page, as they are started without their scripts on the path.
STARTS = {
    "python": [sys.executable],
    "torchrun": [sys.executable, "-m", "torch.distributed.run"],
    "pytest-torch-compile": [sys.executable, "-m", "pytest_torch_compile.cli"],
}
BLOCK = re.compile(r"(?:^<!-- fails: (?P<fails>[\w-]+) -->\n)?^```(?P<kind>\w+)\n(?P<text>.*?)^```$", re.M | re.S)


# What the README's suite takes for granted.
ENCODER = """
class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(1))

    def forward(self, x):
        return x.sin() * self.scale
"""


@dataclass(frozen=True)
class Block:
    """One fenced block; ``fails`` is the kind of finding that it is there to show."""

    page: Path
    number: int
    kind: str
    text: str
    fails: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT).as_posix()}-{self.number}"


def blocks(kind: str) -> list[Block]:
    found = []
    for page in PAGES:
        content = page.read_text(encoding="utf-8")
        for match in BLOCK.finditer(content):
            line = content[: match.start()].count("\n") + 1
            found.append(Block(page, line, match["kind"], match["text"], match["fails"] or ""))
    return [block for block in found if block.kind == kind]


def is_test(block: Block) -> bool:
    return bool(re.search(r"^(class Test|@pytest\.fixture|def test_)", block.text, re.M))


def names_of_the_readme() -> dict[str, object]:
    """What the README's short examples take for granted."""
    torch = pytest.importorskip("torch")

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)

        def forward(self, x, mask=None):
            return self.linear(x) if mask is None else self.linear(x) * mask

    compiled = torch.compile(torch.sin, backend="eager")
    return {
        "torch": torch,
        "model": Model(),
        "x": torch.randn(2, 4, requires_grad=True),
        "make_inputs": lambda batch, length: torch.randn(batch, length, 4),
        "a": torch.randn(2, 4),
        "b": torch.randn(3, 4),
        "m": torch.ones(2, 1),
        "pipeline": lambda prompt: compiled(torch.ones(2)),
        "prompt": "a prompt",
    }


def on_its_device(block):
    return pytest.param(block, marks=[pytest.mark.gpu] if "cuda" in block.text else [])


@pytest.mark.parametrize("block", [on_its_device(b) for b in blocks("python") if is_test(b)], ids=str)
def test_examples_of_tests_pass_or_fail_as_said(block, folder_of_tests):
    torch = pytest.importorskip("torch")
    from pytest_torch_compile._torch import planning

    if "cuda" in block.text and not torch.cuda.is_available():
        compile(block.text, block.page.name, "exec")
        pytest.skip("the example needs a CUDA device; only its syntax was checked")
    if "check_plan" in block.text and (why_not := planning.missing()):
        pytest.skip(why_not)
    name = "conftest.py" if "def test_" not in block.text and "class Test" not in block.text else "test_example.py"
    prelude = "import torch\nfrom pytest_torch_compile import *\n" if block.page.name == "README.md" else ""
    prelude += ENCODER if prelude and "class Encoder" not in block.text else ""
    (folder_of_tests.path / name).write_text(prelude + block.text, encoding="utf-8")
    if name == "conftest.py":
        (folder_of_tests.path / "test_example.py").write_text(
            "def test_it(compile_options):\n    assert compile_options\n"
        )
    done = folder_of_tests.runpytest_inprocess(*OPTIONS, "-q", "--compile-backend=eager")
    fails = block.fails or ("graph-break" if block.page.name == "README.md" and "x.amax() > 1" in block.text else "")
    assert done.ret == (1 if fails else 0), done.stdout.str()
    assert f"1. {fails}: " in done.stdout.str() or not fails


@pytest.mark.parametrize("block", [on_its_device(b) for b in blocks("python") if not is_test(b)], ids=str)
def test_other_examples_run(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if "torch" in block.text or block.page.name == "README.md":
        pytest.importorskip("torch")
    (tmp_path / "example.py").write_text(block.text, encoding="utf-8")
    namespace = names_of_the_readme() if block.page.name == "README.md" else {}
    namespace["__name__"] = "example"
    if block.page.name == "README.md":
        run_with_small_backend(block, namespace, monkeypatch)
    else:
        exec(compile(block.text, str(tmp_path / "example.py"), "exec"), namespace)


def run_with_small_backend(block: Block, namespace: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    """The README shows the default backend; its examples are run with one that needs no C++ compiler."""
    from functools import partial

    import pytest_torch_compile

    small = partial(pytest_torch_compile.check_compile, backend="eager")
    monkeypatch.setattr(pytest_torch_compile, "check_compile", small, raising=False)
    exec(compile(block.text, "README.md", "exec"), namespace)


def commands() -> list[tuple[str, str]]:
    found = [
        (str(block), line[2:]) for block in blocks("console") for line in block.text.splitlines() if line[:2] == "$ "
    ]
    return [(where, command) for where, command in found if not command.startswith(NOT_RUN)]


@pytest.mark.parametrize(("where", "command"), commands(), ids=lambda text: text)
def test_commands_run(where, command, tmp_path):
    words = command.split()
    for name in ("old", "new", "shards/one", "shards/two", "compile-report"):
        document.write(documents.made(documents.case(name)), tmp_path / name / "report.json")
    document.write(documents.made(documents.case("new")), tmp_path / "old" / "report.json")
    for file in ("tests/test_encoder.py", "tests/test_train.py", "tests/compile/test_compile.py"):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text("def test_it(): pass\n")
    (tmp_path / "mypackage.py").write_text("")
    if words[1] == "diagnose":
        pytest.importorskip("torch")
        page = ROOT / "docs" / "how-to" / "diagnose-a-model.md"
        (tmp_path / "models").mkdir()
        (tmp_path / "models" / "encoder.py").write_text(next(b.text for b in blocks("python") if b.page == page))
        words.append("--backend=eager")
    if words[0] == "torchrun":
        pytest.importorskip("torch")
    done = run([*STARTS[words[0]], *words[1:]], tmp_path)
    if words[1] == "doctor":  # says no where there is no torch
        assert "Python" in done.stdout
    else:
        assert done.returncode == 0, done.stdout + done.stderr


def workflow_of(block: Block) -> dict:
    """A page's workflow; steps alone become those of its one job."""
    yaml = pytest.importorskip("yaml")
    written = yaml.safe_load(block.text)
    if isinstance(written, dict):
        return written
    return {"on": "push", "jobs": {"test": {"runs-on": "ubuntu-latest", "steps": written}}}


@pytest.mark.parametrize("block", blocks("yaml"), ids=str)
def test_workflows_keep_to_the_schema_and_pin_what_they_use(block, tmp_path):
    pytest.importorskip("check_jsonschema")
    file = tmp_path / "workflow.yml"
    # JSON is YAML; as JSON the key "on" stays a string, which PyYAML would read as true.
    file.write_text(json.dumps({"on" if k is True else k: v for k, v in workflow_of(block).items()}), encoding="utf-8")
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", str(file)]
    done = run(check, tmp_path)
    assert done.returncode == 0, done.stdout
    used = re.findall(r"uses: (\S+)", block.text)
    assert all(re.search(r"@([0-9a-f]{40}|COMMIT)$", name) for name in used)


@pytest.mark.parametrize("block", blocks("yaml"), ids=str)
def test_workflows_give_the_action_only_inputs_that_it_has(block):
    yaml = pytest.importorskip("yaml")
    declared = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))["inputs"]
    jobs = workflow_of(block)["jobs"].values()
    ours = [step for job in jobs for step in job["steps"] if "pytest-torch-compile/" in step.get("uses", "")]
    assert ours or block.page.name != "action.md"
    for step in ours:
        given = {name: str(value) for name, value in step.get("with", {}).items() if "${{" not in str(value)}
        assert set(step.get("with", {})) <= set(declared)
        inputs.read({inputs.VARIABLE: json.dumps(given)})


def test_the_page_of_the_action_starts_with_a_short_file_for_each_of_the_two_usual_runners():
    hosted, own, *_ = [block for block in blocks("yaml") if block.page.name == "action.md"]
    assert max(len(block.text.splitlines()) for block in (hosted, own)) <= 11
    (on_hosted,), (on_own,) = (workflow_of(block)["jobs"].values() for block in (hosted, own))
    assert on_hosted["runs-on"] == "ubuntu-latest"
    assert on_own["runs-on"][0] == "self-hosted"
    assert on_own["steps"][1]["with"] == {**on_hosted["steps"][1]["with"], "perf": "gate"}


def test_the_schema_of_the_report_is_valid():
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads(
        (ROOT / "src" / "pytest_torch_compile" / "report" / "report.schema.json").read_text(encoding="utf-8")
    )
    jsonschema.Draft202012Validator.check_schema(schema)


def test_no_kind_of_block_is_left_out():
    kinds = {match["kind"] for page in PAGES for match in BLOCK.finditer(page.read_text(encoding="utf-8"))}
    assert kinds <= {"python", "console", "yaml", "text", "mermaid"}


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    variables = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)
