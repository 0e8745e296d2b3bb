"""A release is prepared by one command, and a tag that does not fit the checkout is refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("packaging")

from tools import changelog, release
from tools.distribution import ReleaseError

ROOT = Path(__file__).parents[2]
SOURCE = '"""A package."""\n\n__version__ = "0.2.0.dev0"\n'
CHANGELOG = "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- A check.\n"


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout in which only what a release changes is there."""
    source, log = tmp_path / "__init__.py", tmp_path / "CHANGELOG.md"
    source.write_text(SOURCE)
    log.write_text(CHANGELOG)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "generate.py").write_text("open('generated', 'w').close()\n")
    monkeypatch.setattr(release, "ROOT", tmp_path)
    monkeypatch.setattr(release, "VERSION", source)
    monkeypatch.setattr(changelog, "FILE", log)
    return tmp_path


def test_preparing_sets_the_version_dates_the_changelog_and_writes_the_documentation(checkout):
    assert release.main(["prepare", "0.2.0"]) == 0
    assert '__version__ = "0.2.0"' in (checkout / "__init__.py").read_text()
    assert changelog.is_released((checkout / "CHANGELOG.md").read_text())
    assert (checkout / "generated").exists()
    assert release.main(["check", "--tag=v0.2.0"]) == 0


@pytest.mark.parametrize("version", ["0.2.0.dev1", "v0.2.0", "0.2.00", "two"])
def test_only_a_plain_version_is_prepared(version, checkout, capsys):
    assert release.main(["prepare", version]) == 1
    assert "error: " in capsys.readouterr().err
    assert (checkout / "CHANGELOG.md").read_text() == CHANGELOG


def test_a_release_without_changes_is_refused(checkout, capsys):
    release.main(["prepare", "0.2.0"])
    assert release.main(["prepare", "0.3.0"]) == 1
    assert "no unreleased items" in capsys.readouterr().err


def test_a_checkout_that_was_not_prepared_is_refused_under_a_tag_only(checkout, capsys):
    assert release.main(["check"]) == 0
    assert release.main(["check", "--tag=v0.2.0"]) == 1
    said = capsys.readouterr().err
    assert "there is no entry for 0.2.0" in said
    assert "the tag v0.2.0 is not v0.2.0.dev0" in said
    assert "0.2.0.dev0 is a development version" in said


def test_a_tag_of_another_version_is_refused(checkout, capsys):
    release.main(["prepare", "0.2.0"])
    assert release.main(["check", "--tag=v0.3.0"]) == 1
    assert "the tag v0.3.0 is not v0.2.0" in capsys.readouterr().err


def test_the_version_has_one_place():
    assert release.version() == __import__("pytest_torch_compile").__version__
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert "\nversion = " not in project.partition("[tool.")[0]
    with pytest.raises(ReleaseError, match="once"):
        release.version(SOURCE * 2)


def test_the_oldest_and_the_newest_python_and_torch_are_those_of_the_tables():
    pythons, torches = release.supported_pythons(), release.supported_torches()
    assert f'requires-python = ">={pythons[0]}"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert torches[0] == ["torch==2.6.0", "setuptools"]
    assert all(name.startswith(("torch==", "setuptools")) for needs in torches for name in needs)


def test_patch_releases_share_the_documentation_of_their_minor():
    assert [release.minor_of(version) for version in ("0.2.0", "0.2.7", "1.10.0.dev0")] == ["0.2", "0.2", "1.10"]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (("latest", "newest"), "the site has the versions"),
        (('"provider": "mike"', ""), "have no version switch"),
        (("latest/", "0.0/"), "does not redirect to the latest version"),
    ],
)
def test_a_site_whose_versions_cannot_be_switched_is_refused(change, problem, tmp_path):
    versions = f'[{{"version": "{release.minor_of(release.version())}", "aliases": ["latest"]}}, '
    files = {"versions.json": versions + '{"version": "0.0", "aliases": []}]', "index.html": "<a href='latest/'>"}
    files |= {f"{name}/tutorial/index.html": '{"provider": "mike"}' for name in ("0.0", "latest")}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert list(release._problems_of_site(tmp_path)) == []
    for name, text in files.items():
        (tmp_path / name).write_text(text.replace(*change))
    assert problem in "\n".join(release._problems_of_site(tmp_path))


def test_the_notes_of_a_release_are_its_entry_with_each_item_on_one_line(checkout):
    text = changelog.with_release(CHANGELOG.replace("A check.", "A check\n  of two lines."), "0.2.0", "2026-01-31")
    assert changelog.notes(text, "0.2.0") == "### Added\n\n- A check of two lines.\n"


def test_the_notes_need_nothing_but_python():
    """The job that writes the release has no environment."""
    command = [sys.executable, "-I", "-S", "-c", "import sys; sys.path.insert(0, '.'); import tools.changelog"]
    subprocess.run(command, cwd=ROOT, check=True)
