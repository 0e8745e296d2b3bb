"""Generated parts are in step with code and data in the repository, and rendered in full on the site."""

from __future__ import annotations

import pytest

pytest.importorskip("yaml", reason="docs/generate.py reads YAML")
pytest.importorskip("griffe", reason="docs/generate.py reads docstrings with griffe")

from tests.docs.generated import generate

PAGE = "# Page\n\n<!-- begin: kinds -->\nold\n<!-- end: kinds -->\n"


def test_pages_of_the_repository_are_in_step(capsys):
    assert generate.main(["--check"]) == 0, capsys.readouterr().out


def test_a_page_out_of_step_is_named_by_the_check_and_written_without_it(monkeypatch, tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    monkeypatch.setattr(generate, "ROOT", tmp_path)
    monkeypatch.setattr(generate, "PAGES", [page])
    monkeypatch.setattr(generate, "practices", dict)
    assert generate.main(["--check"]) == 1
    assert capsys.readouterr().out == "page.md is out of date: run python docs/generate.py\n"
    assert page.read_text() == PAGE
    assert generate.main([]) == 0
    assert "`graph-break`, " in page.read_text()
    assert generate.main(["--check"]) == 0


def test_the_site_renders_python_with_mkdocstrings_and_the_other_parts_as_they_are():
    page = PAGE + "<!-- begin: python pytest_torch_compile.call -->\nwritten out\n<!-- end: python -->\n"
    shown = generate.rendered_by_mkdocstrings(page)
    assert "old" in shown
    assert "::: pytest_torch_compile.call\n" in shown
    assert "written out" not in shown


def test_members_are_options_of_mkdocstrings():
    page = "<!-- begin: python pytest_torch_compile.observation members=Graph,GraphBreak -->\n<!-- end: python -->\n"
    assert "      members: [Graph, GraphBreak]\n" in generate.rendered_by_mkdocstrings(page)


@pytest.mark.parametrize(
    ("page", "link", "shown"),
    [
        ("how-to/cache.md", "../speed.md", "../speed.md"),
        ("how-to/cache.md", "../../README.md#install", f"{generate.install.REPOSITORY}/blob/main/README.md#install"),
        ("speed.md", "../noxfile.py", f"{generate.install.REPOSITORY}/blob/main/noxfile.py"),
        (
            "reference/report.md",
            "../../src/pytest_torch_compile/report/report.schema.json",
            "../report.schema.json",
        ),
    ],
)
def test_links_out_of_the_documentation_lead_to_the_repository_on_the_site(page, link, shown):
    assert generate.links_to_repository(f"[link]({link})", page) == f"[link]({shown})"


def test_every_command_has_a_table_of_its_arguments_and_its_exit_statuses():
    commands = generate.command()
    assert "\n| `--against REF` | " in commands
    assert "## baselines prune\n" in commands
    names = {line.split()[1] for line in commands.splitlines() if line.startswith("## ")}
    assert names == set(generate.cli.STATUSES)
