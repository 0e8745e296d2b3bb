"""Run the steps of a release. ``nox -s release`` rehearses them, and the release workflow runs the same steps.

``python -m tools.release prepare 0.2.0`` prepares the commit to tag: it sets the version, the date in the changelog,
and the install commands.
"""

from __future__ import annotations

import argparse
import ast
import datetime
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from packaging.version import InvalidVersion, Version

from . import changelog, distribution, links

ROOT = Path(__file__).parents[1]
VERSION = ROOT / "src" / "pytest_torch_compile" / "__init__.py"
_LINE = re.compile(r'^__version__ = "(?P<version>[^"]+)"$', re.M)
_BRANCH = "gh-pages"


def version(text: str | None = None) -> str:
    """Return the version of the package."""
    found = _LINE.findall(VERSION.read_text(encoding="utf-8") if text is None else text)
    if len(found) != 1:
        raise distribution.ReleaseError(f"{VERSION.name} must set __version__ once")
    return str(found[0])


def check(tag: str) -> list[str]:
    """Return the problems that prevent a release of this checkout under ``tag``. If ``tag`` is empty, return only the
    problems that do not depend on it.
    """
    current = version()
    released = tag.removeprefix("v")
    found = list(changelog.problems(changelog.FILE.read_text(encoding="utf-8"), released))
    if tag and tag != f"v{current}":
        found.append(f"the tag {tag} is not v{current}, the version in {VERSION.name}")
    if tag and Version(current).is_devrelease:
        found.append(f"{current} is a development version: run python -m tools.release prepare")
    return found


def prepare(released: str) -> None:
    """Set the version and the date of its changelog entry. From then on, the documentation installs the plugin by
    name."""
    text = changelog.FILE.read_text(encoding="utf-8")
    if str(Version(released)) != released or Version(released).is_devrelease:
        raise distribution.ReleaseError(f"{released} is not a release version such as 0.2.0")
    if not any(entry.items for entry in changelog.entries(text) if entry.version == changelog.UNRELEASED):
        raise distribution.ReleaseError("the changelog has no unreleased items")
    changelog.FILE.write_text(
        changelog.with_release(text, released, datetime.date.today().isoformat()), encoding="utf-8"
    )
    source = VERSION.read_text(encoding="utf-8")
    VERSION.write_text(_LINE.sub(f'__version__ = "{released}"', source), encoding="utf-8")
    subprocess.run([sys.executable, "docs/generate.py"], cwd=ROOT, check=True)


def build(folder: Path) -> list[str]:
    """Build into a folder, check the distributions, and write their hashes; returns problems."""
    files = distribution.build(folder, ROOT / ".github" / "build.txt")
    found = list(distribution.problems(folder, version()))
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *map(str, files)], check=True)
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files]
    (folder / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")
    return found


def try_out(folder: Path) -> None:
    """Use the wheel on the oldest Python with the oldest torch, and on the newest Python with the newest torch."""
    _, wheel = distribution.built(folder)
    pythons, releases = supported_pythons(), supported_torches()
    for python, torch in ((pythons[0], releases[0]), (pythons[-1], releases[-1])):
        print(distribution.try_out(wheel, python, torch), flush=True)


def supported_pythons() -> list[str]:
    """Return the supported Python versions from the package's classifiers, oldest first."""
    return re.findall(r'"Programming Language :: Python :: (3\.\d+)"', (ROOT / "pyproject.toml").read_text("utf-8"))


def supported_torches() -> list[list[str]]:
    """Return the requirements of each torch release from the table in noxfile.py, oldest first."""
    tree = ast.parse((ROOT / "noxfile.py").read_text(encoding="utf-8"))
    assigned = [node for node in tree.body if isinstance(node, ast.Assign)]
    (table,) = [node.value for node in assigned if ast.unparse(node.targets[0]) == "RELEASES"]
    kept = ("torch==", "setuptools")
    return [[name for name in needs if name.startswith(kept)] for needs in ast.literal_eval(table).values()]


def docs(folder: Path, minor: str) -> None:
    """Add this version of the documentation to the site's branch, and write the whole site to a folder."""
    deploy = ["mike", "deploy", "--branch", _BRANCH, "--alias-type=copy", "--update-aliases", minor, "latest"]
    subprocess.run(deploy, cwd=ROOT, check=True)
    subprocess.run(["mike", "set-default", "--branch", _BRANCH, "--allow-undefined", "latest"], cwd=ROOT, check=True)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    archive = subprocess.run(["git", "archive", _BRANCH], cwd=ROOT, stdout=subprocess.PIPE, check=True)
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)


def rehearse_docs() -> list[str]:
    """Deploy two versions of the documentation in a clone of this checkout, and check every link of the site."""
    with tempfile.TemporaryDirectory() as place:
        clone, site = Path(place, "clone"), Path(place, "site")
        copy_of_checkout(clone)
        for name in ("0.0", minor_of(version())):
            command = [sys.executable, "-m", "tools.release", "docs", "--out", str(site), "--minor", name]
            subprocess.run(command, cwd=clone, check=True)
        return [*_problems_of_site(site), *(str(broken) for broken in links.in_site(site))]


def _problems_of_site(site: Path) -> Iterator[str]:
    """Yield problems with the version switch: the list of versions, the alias ``latest`` of the newest version, and
    pages that do not read the list.
    """
    listed = json.loads((site / "versions.json").read_text(encoding="utf-8"))
    found = {entry["version"]: entry["aliases"] for entry in listed}
    if found != {minor_of(version()): ["latest"], "0.0": []}:
        yield f"the site has the versions {found}"
    for name in ("0.0", "latest"):
        if '"provider": "mike"' not in (site / name / "tutorial" / "index.html").read_text(encoding="utf-8"):
            yield f"the pages of {name} have no version switch"
    if "latest/" not in (site / "index.html").read_text(encoding="utf-8"):
        yield "the root of the site does not redirect to the latest version"


def copy_of_checkout(target: Path) -> None:
    """Create a repository in ``target`` with one commit: the tracked files, including uncommitted changes."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    git = ["git", "-c", "user.name=release", "-c", "user.email=release@localhost"]
    for words in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "--message=copy"]):
        subprocess.run([*git, *words], cwd=target, check=True)
    for name in ("name", "email"):
        subprocess.run(["git", "config", f"user.{name}", "release@localhost"], cwd=target, check=True)


def minor_of(released: str) -> str:
    """Return the minor version, such as ``0.2`` for ``0.2.1``. A patch release replaces the documentation of its minor
    version.
    """
    return ".".join(map(str, Version(released).release[:2]))


def main(arguments: list[str] | None = None) -> int:
    """Run one step, and print the problems found. Returns 1 if there are any."""
    options = _parser().parse_args(arguments)
    try:
        found = _step(options)
    except (distribution.ReleaseError, InvalidVersion, ValueError, subprocess.CalledProcessError) as error:
        found = [str(error)]
    print(*(f"error: {problem}" for problem in found), sep="\n", end="\n" if found else "", file=sys.stderr)
    return int(bool(found))


def _step(options: argparse.Namespace) -> list[str]:
    if options.step == "check":
        return check(options.tag)
    if options.step == "build":
        return build(options.out)
    if options.step == "prepare":
        prepare(options.version)
    elif options.step == "try":
        try_out(options.out)
    elif options.step == "docs":
        docs(options.out, options.minor or minor_of(version()))
    else:
        return rehearse_docs()
    return []


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.release", description=__doc__)
    steps = parser.add_subparsers(dest="step", required=True)
    steps.add_parser("prepare", help="set the version and the date of the changelog entry").add_argument("version")
    checked = steps.add_parser("check", help="compare version, tag and changelog")
    checked.add_argument("--tag", default="", help="the tag, such as v0.2.0 (default: a rehearsal)")
    for name, text in (
        ("build", "build the sdist and the wheel, and check them"),
        ("try", "install and use the wheel"),
    ):
        steps.add_parser(name, help=text).add_argument("--out", type=Path, default=ROOT / "dist")
    made = steps.add_parser("docs", help="add this version to the branch of the documentation")
    made.add_argument("--out", type=Path, default=ROOT / "site")
    made.add_argument("--minor", default="", help="the version to add (default: this one)")
    steps.add_parser("rehearse-docs", help="build two versions of the documentation and follow their links")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
