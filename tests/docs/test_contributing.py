"""CONTRIBUTING and the page about numbers name files and constants that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "pytest_torch_compile"
MAP = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
NUMBERS = (ROOT / "docs" / "numerics.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`([\w./-]+(?:/|\.py|\.json|\.yaml|\.yml))`", MAP))))
def test_file_of_contributing_exists(path):
    rows = [line for line in MAP.splitlines() if f"`{path}`" in line]
    folders = re.findall(r"`([\w/]+/)`", " ".join(rows))  # a bare name is in the folder that its row begins with
    assert any((base / path).exists() for base in (PACKAGE, ROOT, *(PACKAGE / folder for folder in folders)))


def test_every_folder_of_the_package_is_in_the_map():
    folders = {file.parent.name for file in PACKAGE.glob("*/__init__.py")}
    assert [name for name in sorted(folders) if f"`{name}/" not in MAP] == []


def test_every_constant_of_the_page_about_numbers_exists():
    modules = [
        "numerics/rule",
        "legs/extra_legs",
        "_torch/perturbed_rounding",
        "_torch/tf32",
        "_torch/narrow_rounding",
        "_torch/sum_errors",
    ]
    trees = [ast.parse((PACKAGE / f"{module}.py").read_text(encoding="utf-8")) for module in modules]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    defined = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    rows = re.findall(r"^\| (`[A-Z].*?) \|", NUMBERS, re.M)
    named = {name for row in rows for name in re.findall(r"`([A-Z_0-9]+)`", row)}
    assert named - defined == set()
