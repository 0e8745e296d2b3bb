"""Decide whether the code to test comes from a fork, and whether this code may run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SELF_HOSTED = (
    "This pull request comes from a fork, and this runner is self-hosted: the fork's untrusted code would run on "
    "your machine. Ask a maintainer to push the branch to this repository, or set allow-forks: true (only on ephemeral "
    "runners)."
)
PRIVILEGED = (
    "This pull request comes from a fork, and {event} gives it access to the permissions, secrets and caches of this "
    "repository: run the action on pull_request instead."
)
# Workflows for these events have the permissions of the base repository, and write caches that its main branch reads.
PRIVILEGED_EVENTS = ("pull_request_target", "workflow_run", "issue_comment")


def refusal(environment: Mapping[str, str], allowed: bool) -> str:
    """Return the reason to refuse this run, or an empty string. An unknown kind of runner counts as self-hosted."""
    if not is_fork(environment):
        return ""
    if is_privileged(environment):
        return PRIVILEGED.format(event=environment["GITHUB_EVENT_NAME"])
    hosted = environment.get("RUNNER_ENVIRONMENT") == "github-hosted"
    return "" if allowed or hosted else SELF_HOSTED


def is_privileged(environment: Mapping[str, str]) -> bool:
    """Return whether workflows for this event have the permissions of the base repository, regardless of who triggered
    the event.
    """
    return environment.get("GITHUB_EVENT_NAME") in PRIVILEGED_EVENTS


def is_fork(environment: Mapping[str, str]) -> bool:
    """Return whether the event could involve code from another repository."""
    path = environment.get("GITHUB_EVENT_PATH")
    event: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8")) if path else {}
    heads = []
    if request := event.get("pull_request"):
        heads.append((request.get("head") or {}).get("repo"))
    if run := event.get("workflow_run"):
        heads.append(run.get("head_repository"))
    if (event.get("issue") or {}).get("pull_request"):
        heads.append(None)
    # A deleted repository has no name, so it counts as a fork.
    own = environment.get("GITHUB_REPOSITORY", "")
    return any((head or {}).get("full_name") != own for head in heads)
