"""Create the install commands in the documentation. ``tools/changelog.py`` determines whether they use the package
name.
"""

from __future__ import annotations

from . import changelog

NAME = "pytest-torch-compile"
REPOSITORY = f"https://github.com/{NAME}/{NAME}"


def command(extras: str = "", others: str = "", *, released: bool | None = None) -> str:
    """Return a console block that installs the plugin with these extras, and other packages."""
    wanted = f"{NAME}[{extras}]" if extras else NAME
    if not _released(released):
        wanted += f" @ git+{REPOSITORY}"
    words = [f'"{wanted}"' if set(wanted) & set("[ @") else wanted, *others.split()]
    return f"```console\n$ python -m pip install {' '.join(words)}\n```"


def section(*, released: bool | None = None) -> str:
    """Return the text of the "Install" section in the README."""
    if _released(released):
        return f'{command(released=True)}\n\nTo install extras, list them in brackets: `"{NAME}[report,speed]"`.'
    lines = [
        "The plugin is not on a package index yet. Install it from a clone:",
        "```console\n$ python -m pip install .\n```",
        "or from the repository's URL:",
        command(released=False),
        'To install extras, list them in brackets after the dot or after the package name: `".[report,speed]"`.',
    ]
    return "\n\n".join(lines)


def _released(given: bool | None) -> bool:
    return changelog.is_released(changelog.FILE.read_text(encoding="utf-8")) if given is None else given
