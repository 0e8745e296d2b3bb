"""What the wheel gives to a repository that installs it, and what it spares one that does not use it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("hatchling", reason="building the wheel needs the dev extra")
pytest.importorskip("hatch_fancy_pypi_readme", reason="the description of the package needs the dev extra")
pytest.importorskip("virtualenv", reason="a new environment needs the dev extra")

from tests.once import once
from tools import links
from tools.install import REPOSITORY

ROOT = Path(__file__).parent.parent


@once
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out), cwd=ROOT)
    (built,) = out.glob("*.whl")
    return built


@once
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment with the wheel, and everything that this one has but the project itself."""
    return new_environment(tmp_path_factory.mktemp("environment"), wheel)


def test_wheel_is_typed_licensed_and_holds_the_package_only(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "pytest_torch_compile/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert {name.split("/")[0].split("-")[0] for name in names} == {"pytest_torch_compile"}


def test_wheel_names_where_its_documentation_source_changelog_and_issues_are(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        urls = re.findall(r"^Project-URL: (\w+), https://\S+$", archive.read(metadata).decode(), re.M)
    assert sorted(urls) == ["Changelog", "Documentation", "Issues", "Source"]


def test_links_of_the_readme_become_links_to_the_site_and_the_repository(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        description = archive.read(metadata).decode().partition("\n\n")[2]
    assert list(links.in_description(description)) == []
    assert f"[Tutorial]({links.VERSIONED}tutorial/)" in description
    assert f"[Python]({links.VERSIONED}reference/)" in description
    assert f"[CONTRIBUTING.md]({REPOSITORY}/blob/main/CONTRIBUTING.md)" in description


def test_outside_repository_gets_the_fixtures(environment: Path, tmp_path: Path) -> None:
    repository = outside_repository(tmp_path)
    result = run_pytest(environment, repository, "--compile-backend=aot_eager", check=True)
    assert "6 passed" in result.stdout, result.stdout
    assert "backend aot_eager" in result.stdout


def test_outside_repository_is_told_of_a_new_graph_break(environment: Path, tmp_path: Path) -> None:
    repository = outside_repository(tmp_path)
    encoder = repository / "src/tinynet/encoder.py"
    source = encoder.read_text()
    encoder.write_text(
        source.replace("        return x + self", '        print("shape", x.shape)\n        return x + self')
    )
    line = next(number for number, text in enumerate(encoder.read_text().splitlines(), 1) if "print(" in text)
    result = run_pytest(environment, repository, "--compile-backend=aot_eager", "-k", "test_inference")
    assert result.returncode == 1, result.stdout
    assert f"encoder.py:{line}" in result.stdout


def test_unused_plugin_imports_no_torch(environment: Path, tmp_path: Path) -> None:
    project = project_without_torch(tmp_path)
    script = "import sys, pytest; code = pytest.main(['--collect-only']); print(*sys.modules); sys.exit(code)"
    imported = run(python_of(environment), "-c", script, cwd=project).stdout.splitlines()[-1].split()
    assert "pytest_torch_compile.plugin" in imported
    assert "torch" not in imported


def test_unused_plugin_works_without_torch(wheel: Path, tmp_path: Path) -> None:
    environment = new_environment(tmp_path / "environment", wheel, without="torch")
    project = project_without_torch(tmp_path)
    missing = run(python_of(environment), "-c", "import torch", cwd=project, check=False)
    assert "No module named 'torch'" in missing.stderr
    assert "1 passed" in run_pytest(environment, project, check=True).stdout


def test_unused_plugin_prints_nothing(environment: Path, tmp_path: Path) -> None:
    project = project_without_torch(tmp_path)
    with_plugin = run_pytest(environment, project, "-v", check=True)
    without = run_pytest(environment, project, "-v", "-p", "no:torch_compile", check=True)
    assert untimed(with_plugin.stdout) == untimed(without.stdout)
    assert with_plugin.stderr == without.stderr


def new_environment(path: Path, wheel: Path, without: str = "pytest_torch_compile") -> Path:
    run(sys.executable, "-m", "virtualenv", "--quiet", str(path))
    python = python_of(path)
    purelib = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").stdout.strip())
    present = {entry.name for entry in purelib.iterdir()}
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        ours = "pytest_torch_compile" in entry.name or entry.name.split("-")[0] == without
        if not ours and entry.name not in present:
            (purelib / entry.name).symlink_to(entry)
    run(python, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", str(wheel))
    return path


def outside_repository(tmp_path: Path) -> Path:
    return Path(shutil.copytree(ROOT / "examples/outside", tmp_path / "outside"))


def project_without_torch(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    project.mkdir()
    (project / "pytest.ini").write_text("[pytest]\n")
    (project / "test_plain.py").write_text("def test_plain():\n    assert True\n")
    return project


def python_of(environment: Path) -> str:
    return str(environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python"))


def run_pytest(
    environment: Path, folder: Path, *arguments: str, check: bool = False
) -> subprocess.CompletedProcess[str]:
    return run(python_of(environment), "-m", "pytest", "-p", "no:cacheprovider", *arguments, cwd=folder, check=check)


def run(*command: str, cwd: Path | None = None, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a command as a user's shell would: with no trace of the pytest that runs this test."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "PYTHONPATH"))}
    result = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=600, check=False)
    if check:
        assert result.returncode == 0, result.stdout + result.stderr
    return result


def untimed(output: str) -> str:
    return re.sub(r"in \d+\.\d+s|^plugins:.*$", "", output, flags=re.MULTILINE)
