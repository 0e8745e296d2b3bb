"""Provide environments for torch releases: environments that are created with uv and reused, or existing
interpreters.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from urllib.parse import unquote, urlparse

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from .. import __version__
from ..disk import machine_lock

# Files that declare the dependencies of a project.
_PROJECT = ("pyproject.toml", "setup.py", "setup.cfg", "requirements.txt")


class TriageError(RuntimeError):
    """Raised when the two releases cannot be compared; the message is one line."""


@dataclass(frozen=True)
class Environment:
    """An interpreter with torch, this plugin and the tests' dependencies. ``packages`` maps packages to versions."""

    python: Path
    torch: str
    packages: Mapping[str, str] = field(default_factory=dict)

    def differences(self, other: Environment) -> list[str]:
        """Return the differences in package versions, such as ``numpy 1.26.4 -> 2.1.0``, between this environment and
        ``other``. The version of torch is not compared.
        """
        names = sorted({*self.packages, *other.packages} - {"torch"})
        versions = [(name, self.packages.get(name, "none"), other.packages.get(name, "none")) for name in names]
        return [f"{name} {old} -> {new}" for name, old, new in versions if old != new]


def environment(given: str, install: Sequence[str], folder: Path | None = None) -> Environment:
    """Return the environment for ``given``, a torch release or the path of a Python interpreter.

    Args:
        install: Additional arguments for ``uv pip install`` in a new environment.
        folder: The folder in which environments are created. By default, environments are created in the user's cache
            folder.

    Raises:
        TriageError: If the interpreter or release does not exist, uv is missing, or the plugin is not installed in that
            environment.
    """
    try:
        release = str(Version(given))
    except InvalidVersion:
        python = Path(given).expanduser().absolute()  # not resolved: the symlink identifies the environment
        if not os.access(python, os.X_OK) or python.is_dir():
            raise TriageError(f"{given!r} is neither a torch release, such as 2.13.0, nor an interpreter") from None
        return _examined(python)
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return _made(release, install, folder or caches / "pytest-torch-compile" / "environments")


def default_install() -> list[str]:
    """Return uv arguments that install the current folder's project, or an empty list if the folder has no project."""
    return ["-e ."] if any(Path(name).exists() for name in ("pyproject.toml", "setup.py")) else []


def releases_between(old: str, new: str, named: Sequence[str] = ()) -> list[str]:
    """Return the releases from ``old`` to ``new`` (inclusive), oldest first: the releases in ``named``, or all releases
    that pip finds.

    Raises:
        TriageError: If pip could not list the releases, a named release is invalid, or both releases are the same.
    """
    if Version(old).public == Version(new).public:
        raise TriageError(f"both environments have torch {Version(old).public}: there are no releases to bisect")
    known = list(named) or _listed()
    first, last = Version(old).public, Version(new).public
    try:
        versions = [*map(Version, known)]
    except InvalidVersion as error:
        raise TriageError(f"--releases: {error}") from None
    inner = {v for v in versions if Version(first) < v < Version(last) and not v.is_prerelease}
    return [first, *map(str, sorted(inner)), last]


def _listed() -> list[str]:
    command = [sys.executable, "-m", "pip", "index", "versions", "torch"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    match = re.search(r"Available versions: (.+)", done.stdout)
    if done.returncode or match is None:
        raise TriageError(
            "pip cannot list the torch releases: pass the releases between the old and the new version, for example "
            "--releases 2.14.0,2.14.1"
        )
    return [release.strip() for release in match[1].split(",")]


def _made(release: str, install: Sequence[str], folder: Path) -> Environment:
    """Return the environment for a release. The environment is created unless an environment with the same requirements
    exists.
    """
    uv = shutil.which("uv")
    if uv is None:
        raise TriageError("uv is not on PATH: run pip install uv, or pass interpreters instead of releases")
    try:
        needs = [f"torch=={release}", "pytest-xdist", *_ours(), *(word for one in install for word in shlex.split(one))]
    except ValueError as error:
        raise TriageError(f"--install {' '.join(install)!r}: {error}") from None
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    # If the project's dependencies change later, a new environment is created.
    project = [file.read_text(encoding="utf-8", errors="replace") for file in map(Path, _PROJECT) if file.is_file()]
    known_by = json.dumps([version, needs, os.getcwd(), project])
    home = folder / f"torch-{release}-{hashlib.sha256(known_by.encode()).hexdigest()[:12]}"
    python, complete = home / "bin" / "python", home / "complete"
    folder.mkdir(parents=True, exist_ok=True)
    with machine_lock(f"environment-{home.name}"):
        if not complete.exists():
            _run([uv, "venv", "--quiet", "--clear", "--python", version, str(home)])
            _run([uv, "pip", "install", "--quiet", "--python", str(python), *needs])
            complete.touch()  # missing after an interrupted installation, which is then started again
    made = _examined(python)
    if Version(made.torch).public != Version(release).public:
        raise TriageError(
            f"torch {release} was requested, but {python} has {made.torch}: check --install and PYTHONPATH"
        )
    return made


def _ours() -> list[str]:
    """Return the requirement for the plugin: the folder or file from which it was installed, or otherwise its
    version.
    """
    try:
        text = metadata.distribution("pytest-torch-compile").read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        text = None
    source = json.loads(text) if text else {}
    if (url := urlparse(source.get("url", ""))).scheme == "file":
        path = unquote(url.path)
        extras = "[ranks,report,speed]"
        return ["-e", path + extras] if source.get("dir_info", {}).get("editable") else [path + extras]
    return [f"pytest-torch-compile[ranks,report,speed]=={__version__}"]


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        raise TriageError(f"{' '.join(command[:3])} failed: {' '.join(said[-4:]) or 'no output'}")


def _examined(python: Path) -> Environment:
    """Return the environment of an interpreter, which must have torch and this plugin."""
    # In reverse order, because of several distributions with the same name, Python uses the first.
    code = (
        "import json; from importlib.metadata import distributions, entry_points, version; "
        "plugin = any(one.name == 'torch_compile' for one in entry_points(group='pytest11')); "
        "print(json.dumps([version('torch'), plugin, "
        "{one.name: one.version for one in [*distributions()][::-1] if one.name}]))"
    )
    done = subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise TriageError(f"{python} has no working installation of torch: {said}")
    release, installed, packages = json.loads(done.stdout.splitlines()[-1])
    if not installed:
        raise TriageError(f"pytest-torch-compile is not installed for {python}: install it in that environment too")
    return Environment(python, release, {canonicalize_name(name): version for name, version in packages.items()})
