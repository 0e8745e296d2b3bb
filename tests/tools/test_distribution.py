"""What is built is compared with what is tracked, and its description with the site."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from tools import distribution

NAME, INFO = "pytest_torch_compile", "pytest_torch_compile-0.2.0.dist-info"
TRACKED = ["README.md", "src/pytest_torch_compile/__init__.py", "src/pytest_torch_compile/py.typed"]


@pytest.fixture
def build(tmp_path: Path):
    """Build what is tracked, with additions and without omissions; returns the complaints."""

    def make(version="0.2.0", without="", sdist=(), wheel=(), description="text", named="0.2.0") -> list[str]:
        metadata = f"Name: {NAME}\nVersion: {named}\n\n{description}\n"
        in_wheel = {name.removeprefix("src/"): "" for name in TRACKED if name.startswith("src/")}
        in_wheel |= {f"{INFO}/METADATA": metadata, f"{INFO}/entry_points.txt": "", f"{INFO}/licenses/LICENSE": ""}
        with zipfile.ZipFile(tmp_path / f"{NAME}-0.2.0-py3-none-any.whl", "w") as archive:
            for name, text in {**in_wheel, **dict.fromkeys(wheel, "")}.items():
                if name != without:
                    archive.writestr(name, text)
        with tarfile.open(tmp_path / f"{NAME}-0.2.0.tar.gz", "w:gz") as archive:
            for name in (*TRACKED, "PKG-INFO", ".gitignore", *sdist):
                if name != without:
                    archive.addfile(tarfile.TarInfo(f"{NAME}-0.2.0/{name}"), io.BytesIO())
        source, built = distribution.built(tmp_path)
        found = [*distribution._problems_of_sdist(source, TRACKED, version)]
        return [*found, *distribution._problems_of_wheel(built, TRACKED, version)]

    return make


def test_what_is_whole_has_no_problems(build):
    assert build() == []


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"without": "README.md"}, "sdist: README.md is missing"),
        ({"sdist": [".env"]}, "sdist: .env is not tracked"),
        ({"without": "pytest_torch_compile/py.typed"}, "wheel: pytest_torch_compile/py.typed is missing"),
        ({"wheel": ["pytest_torch_compile/scratch.py"]}, "wheel: pytest_torch_compile/scratch.py is not tracked"),
        ({"wheel": ["tests/test_it.py"]}, "wheel: tests/test_it.py is not tracked"),
        ({"without": f"{INFO}/entry_points.txt"}, f"wheel: {INFO}/entry_points.txt is missing"),
        ({"named": "0.1.0"}, "wheel: its metadata has version 0.1.0"),
        ({"version": "0.3.0"}, f"sdist: {NAME}-0.2.0.tar.gz is not version 0.3.0"),
        ({"description": "[x](docs/tutorial.md)"}, "wheel: description: docs/tutorial.md: the link is relative"),
    ],
)
def test_what_is_missing_or_too_much_is_named(given, problem, build):
    assert problem in "\n".join(build(**given))


def test_a_folder_with_an_older_build_beside_it_is_refused(tmp_path):
    for name in ("a-1.tar.gz", "a-1.whl", "a-2.whl"):
        (tmp_path / name).touch()
    with pytest.raises(distribution.ReleaseError, match="one sdist and one wheel"):
        distribution.built(tmp_path)


def test_the_first_test_of_the_tutorial_is_found():
    assert "def test_encoder(compile_check):" in distribution.tutorial_test()


def test_the_new_environment_does_not_see_this_one():
    given = {"PYTHONPATH": "src", "PYTEST_ADDOPTS": "-x", "VIRTUAL_ENV": "/here", "PATH": "/bin"}
    assert distribution._clean(given) == {"PATH": "/bin"}
