"""The action over a real repository, with nothing replaced: it installs, compiles, gates, publishes and keeps its cache.

The steps are those of ``action.yml``, in an environment that has torch and lacks the plugin. What they install is built from
this checkout without a network.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

pytest.importorskip("yaml")
pytest.importorskip("torch")
pytest.importorskip("hatch_fancy_pypi_readme", reason="building the plugin needs the dev extra")
pytest.importorskip("virtualenv", reason="a new environment needs the dev extra")

from tests.action import steps_runner

pytestmark = pytest.mark.slow
MODEL = """import torch


class Encoder(torch.nn.Module):
    def forward(self, x):
        return torch.where(x.amax() > 1, x / x.amax(), x)
"""
BROKEN = MODEL.replace(
    "return torch.where(x.amax() > 1, x / x.amax(), x)", "return x / x.amax() if x.amax() > 1 else x"
)
FILES = {
    "pyproject.toml": "[project]\nname = 'encoders'\nversion = '1'\n\n"
    "[tool.pytest.ini_options]\npythonpath = ['src']\ncompile_backend = 'aot_eager'\n",
    "src/encoders.py": MODEL,
    "tests/compile/test_encoders.py": "import torch\nfrom encoders import Encoder\n\n\n"
    "def test_encoder(compile_check):\n    compile_check(Encoder(), torch.arange(16.0))\n",
    "tests/test_other.py": "def test_other():\n    raise AssertionError('not asked for')\n",
}
STEPS = ("guard", "install", "test", "compare", "releases", "publish")


def new_environment(path: Path) -> Path:
    """A new environment with everything that this one has, except the plugin."""
    subprocess.run([sys.executable, "-m", "virtualenv", "--quiet", str(path)], check=True)
    purelib = next(path.glob("lib/python*/site-packages"))
    present = {entry.name for entry in purelib.iterdir()}
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if "pytest_torch_compile" not in entry.name and entry.name not in present:
            (purelib / entry.name).symlink_to(entry)
    return path


@pytest.fixture
def job(tmp_path: Path):
    """Run the action on one state of the repository, each time on a machine of its own."""
    workspace = tmp_path / "work" / "encoders"
    for name, text in FILES.items():
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_text(text)
    git = ["git", "-c", "user.name=me", "-c", "user.email=me@localhost"]
    subprocess.run(["git", "init", "--quiet"], cwd=workspace, check=True)
    around = steps_runner.clean_environment()
    around.pop("PYTHONPATH", None)
    # The build finds its requirements in the environment, and nothing is looked up.
    around |= {"UV_NO_BUILD_ISOLATION": "1", "UV_OFFLINE": "1", "PIP_NO_BUILD_ISOLATION": "0", "PIP_NO_INDEX": "1"}
    around |= {"RUNNER_ENVIRONMENT": "github-hosted", "GITHUB_REPOSITORY": "me/encoders"}
    machines = iter(range(9))

    def start(model: str, path: str = around["PATH"], **inputs: str) -> steps_runner.Job:
        (workspace / "src" / "encoders.py").write_text(model)
        subprocess.run([*git, "add", "."], cwd=workspace, check=True)
        subprocess.run([*git, "commit", "--quiet", "--allow-empty", "-m", "x"], cwd=workspace, check=True)
        machine = next(machines)
        temporary = tmp_path / f"machine-{machine}"
        temporary.mkdir()
        (temporary / "event.json").write_text("{}")
        environment = new_environment(temporary / "environment")
        more = {"GITHUB_EVENT_PATH": str(temporary / "event.json"), "GITHUB_RUN_ID": str(machine)}
        more |= {"RUNNER_NAME": f"GitHub Actions {machine}"}
        more |= {"PATH": f"{environment / 'bin'}:{path}", "VIRTUAL_ENV": str(environment)}
        return steps_runner.run(
            workspace, temporary, around | more, github=tmp_path / "github", tests="tests/compile", **inputs
        )

    start.github = tmp_path / "github"
    return start


def outcomes(done: steps_runner.Job) -> dict[str, tuple[str, int]]:
    return {name: (done[name].outcome, done[name].status) for name in STEPS}


def artifact(job) -> dict:
    """The report that was uploaded, which must be whole."""
    folder = job.github / "artifacts" / "torch-compile-report"
    assert sorted(path.name for path in folder.iterdir()) == ["report.html", "report.json", "summary.md"]
    return json.loads((folder / "report.json").read_text())


def test_a_pull_request_that_keeps_compiling_passes_and_one_that_breaks_the_graph_fails(job):
    passed = job(MODEL)
    assert re.search(r"torch \S+ in \S+/environment/bin/python, pytest-torch-compile \d", passed["install"].log)
    assert outcomes(passed) == dict.fromkeys(STEPS, ("success", 0))
    report = Path(passed.outputs["json-path"]).parent
    assert passed.outputs == {
        "result": "passed",
        "regressions": "0",
        "report-path": str(report / "report.html"),
        "json-path": str(report / "report.json"),
        "speedup": "",
    }
    assert passed.commands == []
    assert passed.summary.startswith("## torch.compile: All checks passed\n")
    written = artifact(job)
    assert [test["id"] for test in written["tests"]] == ["tests/compile/test_encoders.py::test_encoder"]
    assert len(written["history"]) == 1

    failed = job(BROKEN)
    assert outcomes(failed) == dict.fromkeys(STEPS, ("success", 0)) | {"test": ("failure", 1)}
    assert failed.failed
    assert failed.outputs == {
        **passed.outputs,
        "result": "failed",
        "report-path": failed.outputs["report-path"],
        "json-path": failed.outputs["json-path"],
    }
    (annotation,) = failed.commands
    assert annotation.startswith(
        "::error file=src/encoders.py,line=6,title=torch.compile%3A graph-break::graph break 1 of 1"
    )
    assert failed.summary.startswith("## torch.compile: Some checks failed\n")
    assert "src/encoders.py:6" in failed.summary
    written = artifact(job)
    assert written["summary"]["result"] == "failed"
    # This machine is new: the earlier result came back with the cache.
    assert [point["tests"] != {} for point in written["history"]] == [True, True]
    assert sorted(path.name[-4:] for path in (job.github / "caches").iterdir()) == ["-0-1", "-1-1"]


def test_a_refused_input_installs_nothing_and_uploads_nothing(job):
    done = job(MODEL, perf="sometimes")
    assert outcomes(done) == dict.fromkeys(STEPS, ("skipped", 0)) | {"guard": ("failure", 2)}
    assert set(done.outputs.values()) == {""}
    assert done.commands == ["::error title=torch.compile::input perf is 'sometimes'; it must be off, track or gate"]
    assert not job.github.exists()


def test_without_uv_the_plugin_is_installed_with_pip(job):
    done = job(MODEL, path="/usr/bin:/bin")
    assert not done.failed
    assert "Successfully installed pytest-torch-compile-" in done["install"].log
    assert done.outputs["result"] == "passed"
