"""A pytest plugin that runs one shard of the tests. Shard ``2/4`` contains every fourth test in the list of all tests
sorted by id, starting with the second test.
"""

from __future__ import annotations

import os

import pytest

VARIABLE = "PYTEST_TORCH_COMPILE_SHARD"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep only this shard's tests. The selection does not depend on the order of collection."""
    number, total = map(int, os.environ.get(VARIABLE, "1/1").split("/"))
    ids = sorted(item.nodeid for item in items)
    mine = set(ids[number - 1 :: total])
    dropped = [item for item in items if item.nodeid not in mine]
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = [item for item in items if item.nodeid in mine]
