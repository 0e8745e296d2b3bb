"""The Python that the tests run in: one that is there and has torch, or a new one made with uv."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .inputs import Inputs

_LOOK = """
import importlib.metadata as m, json, sys
def version(name):
    try: return m.version(name)
    except m.PackageNotFoundError: return ""
print(json.dumps([sys.executable, version("torch"), version("pytest-torch-compile")]))
"""


class SetupFailed(RuntimeError):
    """The environment could not be made."""


@dataclass(frozen=True)
class Environment:
    """A Python with the versions of torch and of the plugin in it; empty where there is none."""

    python: str
    torch: str
    plugin: str


def look(python: str, variables: Mapping[str, str], folder: Path) -> Environment | None:
    """What an interpreter has, or None if it does not run."""
    command = [python, "-c", _LOOK]
    try:
        done = subprocess.run(command, env=variables, cwd=folder, capture_output=True, text=True, check=False)
        return Environment(*json.loads(done.stdout)) if done.returncode == 0 else None
    except (OSError, ValueError):
        return None


def existing(inputs: Inputs, variables: Mapping[str, str], folder: Path) -> Environment | None:
    """The environment that is active and has torch, unless the inputs ask for a certain torch or Python."""
    if inputs.torch or inputs.python:
        return None
    found = look("python", variables, folder) or look("python3", variables, folder)
    return found if found is not None and found.torch else None


def complete(
    found: Environment, inputs: Inputs, action: Path, variables: Mapping[str, str], folder: Path
) -> Environment:
    """The same environment with the plugin in it; its torch stays."""
    if found.plugin:
        return found
    wanted = [plugin(inputs, action), f"torch=={found.torch}"]
    if shutil.which("uv", path=variables.get("PATH")):
        _run(["uv", "pip", "install", "--python", found.python, *wanted], variables, folder)
    else:
        _run([found.python, "-m", "pip", "install", *wanted], variables, folder)
    return _made(found.python, variables, folder)


def make(inputs: Inputs, action: Path, target: Path, variables: Mapping[str, str], folder: Path) -> Environment:
    """A new environment: torch for this machine's device, the plugin, and the project with its extras."""
    version = ["--python", inputs.python] if inputs.python else []
    _run(["uv", "venv", *version, str(target)], variables, folder)
    python = str(target / "bin" / "python")
    install = ["uv", "pip", "install", "--python", python]
    torch = f"torch=={inputs.torch}" if inputs.torch else "torch"
    _run([*install, "--torch-backend=auto", torch], variables, folder)
    made = _made(python, variables, folder)
    wanted = [f"torch=={made.torch}", plugin(inputs, action), "pytest-xdist", *project(inputs, folder)]
    _run([*install, *wanted], variables, folder)
    return _made(python, variables, folder)


def plugin(inputs: Inputs, action: Path) -> str:
    """The plugin with the extras that the inputs need."""
    extras = ["report"]
    extras += ["speed"] if inputs.perf != "off" or inputs.compare_with else []
    extras += ["cache"] if "://" in inputs.cache else []
    return f"{action}[{','.join(extras)}]"


def project(inputs: Inputs, folder: Path) -> list[str]:
    """The project under test, if the folder is one that can be installed."""
    if not any((folder / name).exists() for name in ("pyproject.toml", "setup.py")):
        return []
    return ["-e", f".[{inputs.extras.replace(' ', '')}]" if inputs.extras else "."]


def _made(python: str, variables: Mapping[str, str], folder: Path) -> Environment:
    found = look(python, variables, folder)
    if found is None or not found.torch:
        raise SetupFailed(f"{python} has no torch after the installation")
    return found


def _run(command: Sequence[str], variables: Mapping[str, str], folder: Path) -> None:
    done = subprocess.run(command, env=variables, cwd=folder, check=False)
    if done.returncode:
        raise SetupFailed(f"{' '.join(command[:3])} ended with status {done.returncode}")
