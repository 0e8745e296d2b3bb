"""Find broken links in the Markdown files of a clone and in the pages of the built site.

``python -m tools.links`` checks the clone, ``python -m tools.links SITE_FOLDER`` a built site. Links to the project's
own site and repository are resolved to files. Links to other hosts are not checked, because that needs a network.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from markdown_it import MarkdownIt

from .install import NAME, REPOSITORY

ROOT = Path(__file__).parents[1]
SITE = f"https://{NAME}.github.io/{NAME}/"
VERSIONED = f"{SITE}latest/"
# Pages of the repository that are not files.
_PAGES_OF_THE_REPOSITORY = ("", "issues", "actions", "releases")


@dataclass(frozen=True)
class Broken:
    """A broken link."""

    page: str
    link: str
    reason: str

    def __str__(self) -> str:
        return f"{self.page}: {self.link}: {self.reason}"


class _Page(HTMLParser):
    """The links and the anchors of an HTML page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.links.append(value)
            if name == "id" or (name == "name" and tag == "a"):
                self.anchors.add(value or "")


@cache
def _markdown(path: Path) -> tuple[list[str], set[str]]:
    """Return the links of a Markdown file, and the anchors of its headings."""
    links, anchors = _parsed(path.read_text(encoding="utf-8"))
    return links, anchors


def _parsed(text: str) -> tuple[list[str], set[str]]:
    links: list[str] = []
    anchors: set[str] = set()
    tokens = MarkdownIt("commonmark", {"html": True}).enable("table").parse(text)
    for before, token in zip([None, *tokens], tokens, strict=False):
        if token.type == "html_block":
            page = _Page(token.content)
            links, anchors = links + page.links, anchors | page.anchors
        if token.type != "inline":
            continue
        for child in token.children or []:
            links += [str(child.attrs[name]) for name in ("href", "src") if name in child.attrs]
            links += _Page(child.content).links if child.type == "html_inline" else []
        if before is not None and before.type == "heading_open":
            words = "".join(child.content for child in token.children or [] if child.type in ("text", "code_inline"))
            anchors.add(_unused(re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-"), anchors))
    return links, anchors


def _unused(slug: str, used: set[str]) -> str:
    """Return a heading's anchor, with a number if the page already has the same heading."""
    numbered = (f"{slug}-{number}" for number in range(1, len(used) + 1))
    return slug if slug not in used else next(one for one in numbered if one not in used)


def in_clone(root: Path = ROOT) -> Iterator[Broken]:
    """Yield the broken links of the tracked Markdown files."""
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=root, capture_output=True, text=True, check=True)
    for name in listed.stdout.split():
        path = root / name
        for link in _markdown(path)[0]:
            if reason := _wrong_in_clone(root, path, link):
                yield Broken(name, link, reason)


def _wrong_in_clone(root: Path, page: Path, link: str) -> str:
    place = _local(link, root)
    if place is None:
        return ""
    path, fragment = place
    target = (root / path.lstrip("/")) if link.startswith("http") else (page.parent / path if path else page)
    if not target.exists():
        return "there is no such file"
    if not target.resolve().is_relative_to(root.resolve()):
        return "the link leads outside the repository"
    if fragment and target.suffix == ".md" and fragment not in _markdown(target)[1]:
        return f"{target.name} has no heading #{fragment}"
    return ""


def _local(link: str, root: Path) -> tuple[str, str] | None:
    """Return the path and the fragment of a link to a file in the repository or a page of the site; None for other
    hosts.
    """
    parts = urlsplit(link)
    path = unquote(parts.path)
    if not parts.scheme and not parts.netloc:
        return path, parts.fragment
    bare = link.partition("#")[0]
    if bare.startswith(SITE):
        page = bare.removeprefix(VERSIONED).removeprefix(SITE).strip("/")
        found = [name for name in (f"docs/{page}.md", f"docs/{page}/index.md") if (root / name).exists()]
        return (found[0] if found else f"docs/{page}.md", "") if page else ("docs/index.md", "")
    if bare.startswith(REPOSITORY):
        inner = bare.removeprefix(REPOSITORY).removesuffix(".git").strip("/")
        if inner in _PAGES_OF_THE_REPOSITORY:
            return "README.md", ""
        return re.sub(r"^(blob|tree)/main/", "", inner), parts.fragment
    return None


def in_description(text: str, root: Path = ROOT) -> Iterator[Broken]:
    """Yield the links in a package's description that are broken or work only in the repository."""
    for link in _parsed(text)[0]:
        if not urlsplit(link).scheme and not link.startswith("#"):
            yield Broken("description", link, "the link is relative, but a package index has no files next to the page")
        elif reason := _wrong_in_clone(root, root / "README.md", link):
            yield Broken("description", link, reason)


def in_site(folder: Path) -> Iterator[Broken]:
    """Yield the broken links of a built site. ``folder`` is served at the address of the site."""
    pages = {path: _Page(path.read_text(encoding="utf-8")) for path in sorted(folder.rglob("*.html"))}
    for path, page in pages.items():
        for link in dict.fromkeys(page.links):
            if reason := _wrong_in_site(folder, path, link, pages):
                yield Broken(path.relative_to(folder).as_posix(), link, reason)


def _wrong_in_site(folder: Path, page: Path, link: str, pages: dict[Path, _Page]) -> str:
    base = urlsplit(SITE)
    parts = urlsplit(link)
    path = unquote(parts.path)
    if parts.netloc == base.netloc or (not parts.scheme and not parts.netloc):
        if path.startswith("/") or parts.netloc:
            if not path.startswith(base.path):
                return "the link leads outside the site"
            target = folder / path.removeprefix(base.path)
        else:
            target = (page.parent / path).resolve() if path else page
    elif link.startswith(REPOSITORY):
        return _wrong_in_clone(ROOT, ROOT / "README.md", link)
    else:
        return ""
    target = target / "index.html" if target.is_dir() else target
    if not target.exists():
        return "there is no such page"
    # The 404 page may be shown at any depth, so its links start at the root; fragments used by scripts are not anchors.
    if parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
        return f"the page has no #{parts.fragment}"
    return ""


def main(arguments: list[str]) -> int:
    """Print the broken links. Returns 1 if there are any."""
    broken = list(in_site(Path(arguments[0]).resolve()) if arguments else in_clone())
    print(*broken, sep="\n", end="\n" if broken else "")
    return int(bool(broken))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
