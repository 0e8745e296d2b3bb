"""Whether the code that is about to run comes from a fork, and whether this machine may run it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

REFUSAL = (
    "This is the pull request of a fork, and this runner is self-hosted: a stranger's code would run on your machine. "
    "Let a maintainer push the branch to this repository, or set allow-forks: true on ephemeral runners only."
)


def refusal(environment: Mapping[str, str], allowed: bool) -> str:
    """Why the run is refused, or nothing. A runner that does not say what it is counts as self-hosted."""
    if allowed or environment.get("RUNNER_ENVIRONMENT") == "github-hosted":
        return ""
    return REFUSAL if from_fork(_event(environment), environment.get("GITHUB_REPOSITORY", "")) else ""


def from_fork(event: Mapping[str, Any], repository: str) -> bool:
    """Whether any head that the event names lies outside ``repository``; one that was deleted counts as outside."""
    return any((head or {}).get("full_name") != repository for head in _heads(event))


def _heads(event: Mapping[str, Any]) -> Iterator[Any]:
    if request := event.get("pull_request"):
        yield (request.get("head") or {}).get("repo")
    if run := event.get("workflow_run"):
        yield run.get("head_repository")


def _event(environment: Mapping[str, str]) -> dict[str, Any]:
    path = environment.get("GITHUB_EVENT_PATH")
    found = json.loads(Path(path).read_text(encoding="utf-8")) if path else {}
    return found if isinstance(found, dict) else {}
