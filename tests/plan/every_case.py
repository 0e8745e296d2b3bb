"""All recorded cases by name."""

from __future__ import annotations

import torch

from tests.plan.recorded_cases import OWN, Recorded
from tests.plan.suite_cases import SUITES

CASES = {**OWN, **SUITES}


def chosen(prefixes: list[str]) -> list[str]:
    """The names of the cases that are named or begin with a prefix that ends in "/"; all names if there are no prefixes.

    Raises:
        SystemExit: If a prefix chooses nothing.
    """
    found: dict[str, None] = {}
    for prefix in prefixes or [""]:
        names = [name for name in CASES if name == prefix or (prefix[-1:] in ("/", "") and name.startswith(prefix))]
        if not names:
            raise SystemExit(f"{prefix} is not the name of a case, nor a prefix that ends in /")
        found |= dict.fromkeys(names)
    return list(found)


def built(name: str) -> Recorded:
    """The case of a name."""
    torch.manual_seed(0)
    return CASES[name]()
