"""Whether the code that is about to run comes from a fork, and whether this machine may run it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

REFUSAL = (
    "This is the pull request of a fork, and this runner is self-hosted: a stranger's code would run on your machine. "
    "Let a maintainer push the branch to this repository, or set allow-forks: true on ephemeral runners only."
)


def refusal(environment: Mapping[str, str], allowed: bool) -> str:
    """Why the run is refused, or nothing. A runner that does not say what it is counts as self-hosted."""
    if allowed or environment.get("RUNNER_ENVIRONMENT") == "github-hosted":
        return ""
    path = environment.get("GITHUB_EVENT_PATH")
    event = json.loads(Path(path).read_text(encoding="utf-8")) if path else {}
    heads = []
    if request := event.get("pull_request"):
        heads.append((request.get("head") or {}).get("repo"))
    if run := event.get("workflow_run"):
        heads.append(run.get("head_repository"))
    # A repository that was deleted since has no name, and counts as a fork.
    own = environment.get("GITHUB_REPOSITORY", "")
    return REFUSAL if any((head or {}).get("full_name") != own for head in heads) else ""
