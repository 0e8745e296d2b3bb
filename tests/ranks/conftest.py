"""Ranks for all of these tests: to start them takes seconds."""

import pytest


@pytest.fixture(scope="session")
def ranks():
    from pytest_torch_compile import RankGroup

    with RankGroup(2, timeout=60) as group:
        yield group
