"""Shorten long names in the middle while keeping them distinct."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sequence

LEAST = 20


def shortened(names: Sequence[str], width: int, mark: str = "...") -> list[str]:
    """Shorten the names to ``width`` characters. If they would no longer be distinct, shorten them less.

    A name keeps its beginning and end. If several names would look the same, each of them also keeps the characters
    where they start to differ.
    """
    longest = max(map(len, names), default=0)
    for size in range(max(LEAST, width), longest, LEAST):
        short = _cut(names, size, mark)
        if len(set(short)) == len(set(names)):
            return short
    return list(names)


def _cut(names: Sequence[str], width: int, mark: str) -> list[str]:
    """Shorten the names to ``width``; names that would look the same keep the characters where they start to differ."""
    short = {name: _middle_out(name, width, mark) for name in names}
    alike = defaultdict(set)
    for name, cut in short.items():
        alike[cut].add(name)
    for group in alike.values():
        if len(group) > 1:
            # A prefix of characters, not of path components, because these are names rather than paths.
            shared = len(os.path.commonprefix(sorted(group)))  # noqa: RUF071
            room = width - 2 * len(mark)
            head, tail = room // 4, room // 3
            for name in group:
                start = max(head, min(shared, len(name) - (room - head)))
                short[name] = name[:head] + mark + name[start : start + room - head - tail] + mark + name[-tail:]
    return [short[name] for name in names]


def _middle_out(name: str, width: int, mark: str) -> str:
    """Shorten a name in the middle. One third of the width is used for the beginning, and the rest for the end, which
    contains the name of the test function.
    """
    if len(name) <= width:
        return name
    room = width - len(mark)
    head = room // 3
    return name[:head] + mark + name[head - room :]
