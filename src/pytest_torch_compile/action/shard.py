"""A pytest plugin for ``shard: 2/4``: every fourth test, starting with the second, in the order of the ids."""

from __future__ import annotations

import os

import pytest

VARIABLE = "PYTEST_TORCH_COMPILE_SHARD"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep only this shard's tests, independent of the collection order."""
    number, total = map(int, os.environ.get(VARIABLE, "1/1").split("/"))
    ids = sorted(item.nodeid for item in items)
    mine = set(ids[number - 1 :: total])
    dropped = [item for item in items if item.nodeid not in mine]
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = [item for item in items if item.nodeid in mine]
