"""An environment for each release, made with uv once; an interpreter; what cannot be used is one clear line."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from packaging.version import Version

from pytest_torch_compile.triage import environments
from pytest_torch_compile.triage.environments import TriageError, environment, releases_between


@pytest.fixture
def uv(tmp_path, monkeypatch):
    """A uv that makes environments out of this interpreter, and notes what it was asked for."""
    log, folder = tmp_path / "uv.log", tmp_path / "bin"
    folder.mkdir()
    (folder / "uv").write_text(
        f'#!/bin/sh\necho "$@" >> "{log}"\n[ -e "{tmp_path}/broken" ] && echo "no such release" >&2 && exit 1\n'
        'if [ "$1" = venv ]; then for last; do :; done; mkdir -p "$last/bin"; '
        f'printf \'#!/bin/sh\\nexec "{sys.executable}" "$@"\\n\' > "$last/bin/python"; chmod +x "$last/bin/python"; fi\n'
    )
    (folder / "uv").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    return log


needs_plugin = pytest.mark.skipif(
    not environments.metadata.entry_points(group="pytest11", name="torch_compile"), reason="the plugin is not installed"
)


@needs_plugin
def test_environment_is_made_with_what_was_asked_for_and_kept(uv, tmp_path):
    torch = pytest.importorskip("torch")
    for _ in range(2):
        made = environment(Version(torch.__version__).public, ["-e .[test]", "torchvision"], tmp_path / "kept")
        assert made.python.is_relative_to(tmp_path / "kept")
    made, installed = uv.read_text().splitlines()
    assert made.startswith("venv") and "torch==" in installed and installed.endswith("-e .[test] torchvision")


def test_release_that_uv_cannot_install_is_named(uv, tmp_path):
    (tmp_path / "broken").touch()
    with pytest.raises(TriageError, match="no such release"):
        environment("2.99.0", [], tmp_path / "kept")


def test_missing_uv_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TriageError, match="pip install uv, or pass interpreters"):
        environment("2.13.0", [], tmp_path)


@pytest.mark.parametrize("given", ["newest", "/no/such/python", "/tmp"])
def test_neither_release_nor_interpreter_is_refused(given):
    with pytest.raises(TriageError, match=r"neither a torch release, such as 2\.13\.0, nor an interpreter"):
        environment(given, [])


def test_interpreter_without_torch_is_refused(tmp_path):
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec "{Path(sys.executable).resolve()}" -I -S "$@"\n')
    python.chmod(0o755)
    with pytest.raises(TriageError, match="has no working installation of torch"):
        environment(str(python), [])


@pytest.mark.parametrize(
    ("named", "said"), [(["x"], "--releases: Invalid version"), (["2.14.0"], "no releases to bisect")]
)
def test_releases_that_cannot_be_bisected_are_one_line(named, said):
    with pytest.raises(TriageError, match=said):
        releases_between("2.13.0", "2.15.0" if named == ["x"] else "2.13.0+cu130", named)


def test_release_that_is_not_the_one_asked_for_is_refused(uv, tmp_path, monkeypatch):
    monkeypatch.setattr(environments, "_examined", lambda python: environments.Environment(python, "9.9.9"))
    with pytest.raises(TriageError, match=r"torch 2\.13\.0 was requested, but .* has 9\.9\.9"):
        environment("2.13.0", [], tmp_path / "kept")


def test_dependency_that_the_project_gets_later_makes_another_environment(uv, tmp_path, monkeypatch):
    monkeypatch.setattr(environments, "_examined", lambda python: environments.Environment(python, "2.13.0"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("[project]")
    first = environment("2.13.0", ["-e ."], tmp_path / "kept")
    (tmp_path / "pyproject.toml").write_text("[project]\ndependencies = ['numpy']")
    assert environment("2.13.0", ["-e ."], tmp_path / "kept") != first


def test_packages_that_differ_are_named():
    old = environments.Environment(Path("old"), "2.13.0", {"numpy": "1.26.4", "torch": "2.13.0", "six": "1.0"})
    new = environments.Environment(
        Path("new"), "2.15.0", {"numpy": "2.1.0", "torch": "2.15.0", "six": "1.0", "new": "1"}
    )
    assert old.differences(new) == ["new none -> 1", "numpy 1.26.4 -> 2.1.0"]


def test_releases_between_are_sorted_and_final():
    named = ["2.14.1", "2.15.0", "2.13.0", "2.9.0", "2.14.0", "2.14.0rc1", "2.16.0"]
    assert releases_between("2.13.0+cpu", "2.15.0", named) == ["2.13.0", "2.14.0", "2.14.1", "2.15.0"]
