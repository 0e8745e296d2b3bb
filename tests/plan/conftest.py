"""These tests need a torch that can plan; each is skipped with the reason where it cannot."""

import pytest

from pytest_torch_compile._torch import planning


@pytest.fixture(autouse=True, scope="session")
def plans_are_possible() -> None:
    if why_not := planning.missing():
        pytest.skip(why_not)
