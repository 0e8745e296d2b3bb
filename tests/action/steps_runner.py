"""Runs the steps of a composite action as a GitHub runner does, as far as ``action.yml`` needs it.

Expressions are evaluated, and ``run`` steps run in bash with the same flags and files. Of the actions that it uses, those that
keep something (artifacts, caches) do so in a folder, which stands for GitHub and outlives the machine of a job.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

ACTION = Path(__file__).parents[2] / "action.yml"


@dataclass
class Step:
    name: str
    outcome: str = "skipped"
    status: int = 0
    outputs: dict[str, str] = field(default_factory=dict)
    log: str = ""
    given: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    links: list[str] = field(default_factory=list)


@dataclass
class Job:
    steps: list[Step]
    outputs: dict[str, str]
    summary: str

    @property
    def failed(self) -> bool:
        return any(step.outcome == "failure" for step in self.steps)

    def __getitem__(self, name: str) -> Step:
        return next(step for step in self.steps if step.name == name)

    @property
    def commands(self) -> list[str]:
        """The workflow commands that a runner would have obeyed."""
        return [line for step in self.steps for line in obeyed(step.log)]


def obeyed(log: str) -> list[str]:
    found, token = [], ""
    for line in re.split(r"\r\n|\r|\n", log):
        stop = re.match(r"\s*::stop-commands::(.+)", line)
        if token:
            token = "" if line.strip() == f"::{token}::" else token
        elif stop:
            token = stop[1]
        elif re.match(r"\s*(::[a-z-]+( [^:]*)?::|##\[)", line):
            found.append(line.strip())
    return found


def run(
    workspace: Path, temporary: Path, environment: dict[str, str], github: Path | None = None, **inputs: str
) -> Job:
    """Run the action with these inputs (underscores for hyphens), in the order of its steps.

    ``github`` is the folder for artifacts and caches; by default it is below ``temporary``, and goes with it.
    """
    action = yaml.safe_load(ACTION.read_text(encoding="utf-8"))
    given = {name: str(spec.get("default", "")) for name, spec in action["inputs"].items()}
    given |= {name.replace("_", "-"): value for name, value in inputs.items()}
    context = _Context(given, temporary, temporary / "github" if github is None else github)
    summary = temporary / "summary.md"
    summary.touch()
    base = {**environment, "GITHUB_STEP_SUMMARY": str(summary), "GITHUB_WORKSPACE": str(workspace)}
    base |= {"RUNNER_TEMP": str(temporary), "GITHUB_ACTIONS": "true", "CI": "true"}
    for number, spec in enumerate(action["runs"]["steps"]):
        files = {name: temporary / f"github_{name.lower()}-{number}" for name in ("OUTPUT", "ENV", "PATH", "STATE")}
        for file in files.values():
            file.touch()
        own = {f"GITHUB_{name}": str(file) for name, file in files.items()}
        _run_step(spec, context, {**base, **context.variables, **own}, workspace)
        context.variables |= read_outputs(files["ENV"])
        if added := files["PATH"].read_text(encoding="utf-8").split():
            base["PATH"] = os.pathsep.join([*added, base["PATH"]])
        context.steps[-1].files = {name: file.read_text(encoding="utf-8") for name, file in files.items()}
        context.steps[-1].links = [name for name, file in files.items() if file.is_symlink()]
        for file in files.values():  # the next step has files of its own
            file.unlink()
    outputs = {name: context.text(spec["value"]) for name, spec in action["outputs"].items()}
    return Job(context.steps, outputs, summary.read_text(encoding="utf-8"))


class _Context:
    def __init__(self, inputs: dict[str, str], temporary: Path, github: Path) -> None:
        self.inputs, self.temporary, self.github = inputs, temporary, github
        self.steps: list[Step] = []
        self.failed = False
        self.variables: dict[str, str] = {}

    def value(self, expression: str) -> Any:
        expression = expression.strip()
        for operator in ("&&", "=="):
            if operator in expression:
                left, right = expression.split(operator, 1)
                values = self.value(left), self.value(right)
                return all(values) if operator == "&&" else values[0] == values[1]
        if expression in ("always()", "!cancelled()"):
            return True
        if "!=" in expression:
            left, right = expression.split("!=")
            return self.value(left) != self.value(right)
        if expression.startswith("'"):
            return expression.strip("'")
        known = {
            "always()": True,
            "!cancelled()": True,
            "toJSON(inputs)": json.dumps(self.inputs),
            "github.action_path": str(ACTION.parent),
        }
        if expression in known:
            return known[expression]
        kind, _, rest = expression.partition(".")
        if kind == "inputs":
            return self.inputs[rest]
        assert kind == "steps", expression
        name, _, what = rest.partition(".")
        step = next((step for step in self.steps if step.name == name), Step(name))
        return step.outcome if what == "outcome" else step.outputs.get(what.removeprefix("outputs."), "")

    def text(self, template: str) -> str:
        return re.sub(r"\$\{\{(.*?)\}\}", lambda found: str(self.value(found[1])), template)

    def wants(self, condition: str) -> bool:
        condition = condition.removeprefix("${{").removesuffix("}}").strip()
        return bool(self.value(condition)) and (re.search(r"(always|!cancelled)\(\)", condition) or not self.failed)


def _run_step(spec: dict[str, Any], context: _Context, environment: dict[str, str], workspace: Path) -> None:
    step = Step(spec.get("id", spec["name"]))
    if context.wants(spec.get("if", "'true'")):
        step.given = {name: context.text(value) for name, value in spec.get("with", {}).items()}
        step.outcome = "success"
        if "uses" in spec:
            step.outputs = USED[spec["uses"].partition("@")[0]](step.given, context.github)
        if "run" in spec:
            assert "${{" not in spec["run"]
            variables = {**environment, **{name: context.text(value) for name, value in spec["env"].items()}}
            script = context.temporary / "step.sh"
            script.write_text(spec["run"])
            done = subprocess.run(
                ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", str(script)],
                cwd=workspace,
                env=variables,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                check=False,
            )
            step.log, step.status = done.stdout.decode("utf-8", "replace"), done.returncode
            step.outputs = read_outputs(Path(variables["GITHUB_OUTPUT"]))
            step.outcome = "success" if done.returncode == 0 else "failure"
            context.failed = context.failed or done.returncode != 0
    context.steps.append(step)


def _upload_artifact(given: dict[str, str], github: Path) -> dict[str, str]:
    source, target = Path(given["path"]), github / "artifacts" / given["name"]
    assert given["overwrite"] == "true" and given["if-no-files-found"] == "warn"
    shutil.rmtree(target, ignore_errors=True)
    if source.exists():
        shutil.copytree(source, target)
    return {}


def _restore_cache(given: dict[str, str], github: Path) -> dict[str, str]:
    caches = sorted((github / "caches").glob("*"), key=lambda path: path.stat().st_mtime, reverse=True)
    exact = [path for path in caches if path.name == given["key"]]
    found = exact or [path for path in caches if path.name.startswith(given["restore-keys"])]
    if found:
        shutil.copytree(found[0], given["path"], dirs_exist_ok=True)
    return {"cache-hit": str(bool(exact)).lower(), "cache-matched-key": found[0].name if found else ""}


def _save_cache(given: dict[str, str], github: Path) -> dict[str, str]:
    target = github / "caches" / given["key"]
    if not target.exists() and Path(given["path"]).exists():  # an entry is never written again
        shutil.copytree(given["path"], target)
    return {}


USED: dict[str, Callable[[dict[str, str], Path], dict[str, str]]] = {
    "actions/cache/restore": _restore_cache,
    "actions/cache/save": _save_cache,
    "actions/upload-artifact": _upload_artifact,
    "astral-sh/setup-uv": lambda given, github: {},
}


def read_outputs(path: Path) -> dict[str, str]:
    """The file as the runner reads it."""
    found, lines = {}, iter(path.read_text(encoding="utf-8").split("\n") if path.exists() else [])
    for line in lines:
        if "<<" in line:
            name, mark = line.split("<<", 1)
            block = []
            while (line := next(lines)) != mark:
                block.append(line)
            found[name] = "\n".join(block)
        elif "=" in line:
            name, value = line.split("=", 1)
            found[name] = value
    return found


def clean_environment() -> dict[str, str]:
    kept = ("PATH", "HOME", "LANG", "PYTHONPATH", "VIRTUAL_ENV", "TMPDIR")
    return {name: os.environ[name] for name in kept if name in os.environ}
