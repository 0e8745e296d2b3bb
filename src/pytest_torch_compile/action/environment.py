"""The tests' Python environment: an existing environment with torch, or a new environment created with uv."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from . import strangers
from .inputs import Inputs

_LOOK = """
import importlib.metadata as m, json, sys
def version(name):
    try: return m.version(name)
    except m.PackageNotFoundError: return ""
print(json.dumps([sys.executable, version("torch"), version("pytest-torch-compile")]))
"""


class SetupFailed(RuntimeError):
    """Raised when the environment cannot be created."""


@dataclass(frozen=True)
class Environment:
    """A Python interpreter, and its versions of torch and the plugin. A version is an empty string if the package is
    not installed.
    """

    python: str
    torch: str
    plugin: str


@dataclass(frozen=True)
class Setup:
    """Finds or creates the environment for these inputs. ``action`` is the action's folder, and ``folder`` is the
    folder in which pytest runs.
    """

    inputs: Inputs
    action: Path
    folder: Path

    def existing(self) -> Environment | None:
        """Return the active environment if it contains torch, and if the inputs do not request a torch version or a
        Python version; otherwise None.
        """
        if self.inputs.torch or self.inputs.python:
            return None
        active = self._look("python") or self._look("python3")
        return active if active is not None and active.torch else None

    def complete(self, active: Environment) -> Environment:
        """Install the plugin in the environment, without changing torch."""
        if active.plugin:
            return active
        has_uv = shutil.which("uv")
        pip = ["uv", "pip", "install", "--python", active.python] if has_uv else [active.python, "-m", "pip", "install"]
        self._run(*pip, plugin(self.inputs, self.action), f"torch=={active.torch}")
        return self._installed(active.python)

    def make(self, target: Path) -> Environment:
        """Create an environment, and install torch, the plugin and the project. If the input ``plan`` is set, install
        torch's default build; otherwise, install the build for this machine's device.
        """
        inputs, python = self.inputs, str(target / "bin" / "python")
        install = ["uv", "pip", "install", "--python", python]
        self._run("uv", "venv", *(["--python", inputs.python] if inputs.python else []), str(target))
        # Plans need the default wheel, which is built with CUDA, even on a machine without a GPU.
        backend = [] if inputs.plan else ["--torch-backend=auto"]
        self._run(*install, *backend, f"torch=={inputs.torch}" if inputs.torch else "torch")
        wanted = [f"torch=={self._installed(python).torch}", plugin(inputs, self.action), "pytest-xdist"]
        if any((self.folder / name).exists() for name in ("pyproject.toml", "setup.py")):
            wanted += ["-e", f".[{inputs.extras.replace(' ', '')}]" if inputs.extras else "."]
        self._run(*install, *wanted)
        return self._installed(python)

    def _look(self, python: str) -> Environment | None:
        """Return an interpreter and its versions, or None if the interpreter cannot run. The interpreter is started in
        the action's folder, where it cannot import the tests' modules.
        """
        command = [python, "-c", _LOOK]
        try:
            done = subprocess.run(
                command, env=strangers.variables(), cwd=self.action, capture_output=True, text=True, check=False
            )
            words = json.loads(done.stdout) if done.returncode == 0 else None
        except (OSError, ValueError):
            return None
        if not (isinstance(words, list) and len(words) == 3 and all(isinstance(word, str) for word in words)):
            return None
        return Environment(*words)

    def _installed(self, python: str) -> Environment:
        environment = self._look(python)
        if environment is None or not environment.torch:
            raise SetupFailed(f"the installation finished, but {python} does not find torch")
        return environment

    def _run(self, *command: str) -> None:
        done = strangers.run(command, self.folder)
        if done.returncode:
            raise SetupFailed(f"{' '.join(command[:3])} ended with status {done.returncode}")


def plugin(inputs: Inputs, action: Path) -> str:
    """Return the pip requirement for the plugin, with the extras that the inputs need."""
    extras = ["report"]
    extras += ["speed"] if inputs.perf != "off" or inputs.plan or inputs.compare_with else []
    extras += ["ranks", "speed"] if inputs.torch_old else []
    extras += ["cache"] if "://" in inputs.cache else []
    return f"{action}[{','.join(dict.fromkeys(extras))}]"
