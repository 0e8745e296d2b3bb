"""Build the sdist and the wheel, check their contents, and use the wheel in a new environment."""

from __future__ import annotations

import email
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from . import links

ROOT = Path(__file__).parents[1]
PACKAGE = "pytest_torch_compile"
# Files of a clone that are not part of the sdist.
_NOT_SHIPPED = (".ci/", ".gitignore", "shared/")
_FIRST_TEST = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)


class ReleaseError(RuntimeError):
    """Raised if a requirement for a release is not met."""


def built(folder: Path) -> tuple[Path, Path]:
    """Return the sdist and the wheel in a folder."""
    found = [sorted(folder.glob(pattern)) for pattern in ("*.tar.gz", "*.whl")]
    if [len(files) for files in found] != [1, 1]:
        raise ReleaseError(f"{folder} must contain one sdist and one wheel")
    return found[0][0], found[1][0]


def problems(folder: Path, version: str) -> Iterator[str]:
    """Yield problems with the contents of the distributions."""
    sdist, wheel = built(folder)
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    yield from _problems_of_sdist(sdist, [name for name in tracked if not name.startswith(_NOT_SHIPPED)], version)
    yield from _problems_of_wheel(wheel, tracked, version)


def _problems_of_sdist(sdist: Path, tracked: Sequence[str], version: str) -> Iterator[str]:
    with tarfile.open(sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()} - {"PKG-INFO"}
    yield from (f"sdist: {name} is missing" for name in sorted(set(tracked) - inside))
    # Hatchling adds the .gitignore file.
    yield from (f"sdist: {name} is not tracked" for name in sorted(inside - {*tracked, ".gitignore"}))
    if sdist.name != f"{PACKAGE}-{version}.tar.gz":
        yield f"sdist: {sdist.name} is not version {version}"


def _problems_of_wheel(wheel: Path, tracked: Sequence[str], version: str) -> Iterator[str]:
    info = f"{PACKAGE}-{version}.dist-info"
    with zipfile.ZipFile(wheel) as archive:
        inside = {name for name in archive.namelist() if not name.startswith(f"{info}/")}
        names = {f"{info}/METADATA", f"{info}/entry_points.txt", f"{info}/licenses/LICENSE"}
        missing = sorted(names - set(archive.namelist()))
        metadata = "" if missing else archive.read(f"{info}/METADATA").decode("utf-8")
    expected = {name.removeprefix("src/") for name in tracked if name.startswith("src/")}
    yield from (f"wheel: {name} is missing" for name in [*sorted(expected - inside), *missing])
    yield from (f"wheel: {name} is not tracked" for name in sorted(inside - expected))
    if metadata:
        yield from _problems_of_metadata(metadata, version)


def _problems_of_metadata(text: str, version: str) -> Iterator[str]:
    metadata = email.message_from_string(text)
    if metadata["Version"] != version:
        yield f"wheel: its metadata has version {metadata['Version']}"
    yield from (f"wheel: {broken}" for broken in links.in_description(str(metadata.get_payload())))


def tutorial_test() -> str:
    """Return the first test of the tutorial."""
    found = _FIRST_TEST.search((ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8"))
    if found is None:
        raise ReleaseError("the tutorial has no example")
    return found[1]


def try_out(wheel: Path, python: str, torch: Sequence[str]) -> str:
    """Install the wheel into an empty environment and run the first test of the tutorial there; returns the output.

    Raises:
        ReleaseError: If a step failed. The message contains the step's output.
    """
    with tempfile.TemporaryDirectory() as place:
        environment, project = Path(place, "environment"), Path(place, "project")
        tests = project / "tests"
        tests.mkdir(parents=True)
        (tests / "test_encoder.py").write_text(tutorial_test(), encoding="utf-8")
        _run(["uv", "venv", "--quiet", "--python", python, str(environment)], project)
        install = ["uv", "pip", "install", "--quiet", "--python", str(environment)]
        _run([*install, f"{wheel.absolute()}[report]", *torch], project)
        interpreter = str(environment / "bin" / "python")
        shown = _run([str(environment / "bin" / "pytest-torch-compile"), "--version"], project)
        # Extras can be added by name afterwards, as messages suggest, without looking up installed packages.
        _run([*install, "--dry-run", "pytest-torch-compile[speed]"], project)
        tested = _run([interpreter, "-m", "pytest", "tests/test_encoder.py", "--compile-report=report"], project)
        if "1 passed" not in tested or not (project / "report" / "report.html").exists():
            raise ReleaseError(tested)
        return f"{shown.strip()} on Python {python} with {' '.join(torch)}: the first test of the tutorial passes"


def _run(command: Sequence[str], folder: Path) -> str:
    done = subprocess.run(
        command, cwd=folder, env=_clean(os.environ), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode:
        raise ReleaseError(f"{' '.join(command)} ended with status {done.returncode}:\n{done.stdout}")
    return done.stdout


def _clean(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables without those that refer to this checkout or another environment."""
    return {n: v for n, v in environment.items() if not n.startswith(("PYTEST_", "PYTHONPATH", "VIRTUAL_ENV"))}


def build(folder: Path, constraints: Path) -> tuple[Path, Path]:
    """Build the sdist, and the wheel from it, with the build requirements that the constraints pin by hash."""
    shutil.rmtree(folder, ignore_errors=True)
    pinned = ["--build-constraints", str(constraints), "--require-hashes"]
    _run(["uv", "build", "--quiet", *pinned, "--out-dir", str(folder.absolute())], ROOT)
    (folder / ".gitignore").unlink(missing_ok=True)
    return built(folder)
