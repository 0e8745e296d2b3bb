"""Communicate with the GitHub runner through outputs, the step summary and workflow commands."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ..report.github import Annotation
from ..report.markdown import STEP_LIMIT


def set_outputs(values: Mapping[str, str]) -> None:
    """Set the step's outputs. Each value is in a block with a random end marker, so a value cannot create another
    output.
    """
    with Path(os.environ["GITHUB_OUTPUT"]).open("a", encoding="utf-8") as file:
        for name, value in values.items():
            mark = f"end-{secrets.token_hex(16)}"
            file.write(f"{name}<<{mark}\n{value}\n{mark}\n")


def summary_room() -> int:
    """Return the number of bytes left for this step's summary."""
    path = Path(os.environ["GITHUB_STEP_SUMMARY"])
    return STEP_LIMIT - (path.stat().st_size if path.exists() else 0)


def add_summary(text: str) -> None:
    """Add Markdown to the step summary."""
    with Path(os.environ["GITHUB_STEP_SUMMARY"]).open("a", encoding="utf-8") as file:
        file.write(text)


def annotate(level: str, message: str) -> None:
    """Add an annotation to the workflow run; the annotation does not refer to a file."""
    say(Annotation(level, "", 0, "torch.compile", message).command())


def say(text: str) -> None:
    """Write a line immediately, so that it appears before the output of a child process."""
    sys.stdout.write(text.encode("utf-8", "backslashreplace").decode("utf-8") + "\n")
    sys.stdout.flush()


@contextmanager
def commands_off() -> Iterator[None]:
    """Inside the ``with`` block, make the runner ignore workflow commands in the output. Only a random token, which
    cannot be guessed, turns these commands on again.
    """
    token = secrets.token_hex(16)
    say(f"::stop-commands::{token}")
    try:
        yield
    finally:
        say(f"\n::{token}::")
