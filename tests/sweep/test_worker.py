"""What the sweep measures for one case."""

from __future__ import annotations

import pytest
import torch

for library in ("torchvision", "transformers"):
    pytest.importorskip(library)

from benchmarks.sweep.worker import measured  # noqa: E402
from pytest_torch_compile import call  # noqa: E402


class Doubled:
    """A case whose compiled code may be wrong."""

    def __init__(self, wrong: bool) -> None:
        self.wrong = wrong

    def target(self):
        return lambda x: x * (2.1 if self.wrong and torch.compiler.is_compiling() else 2)

    def calls(self):
        return [call(torch.ones(3)), call(torch.ones(4))]

    def options(self):
        return {"max_recompiles": 1}


@pytest.mark.parametrize("wrong", [False, True])
def test_case_is_checked_with_an_empty_cache(wrong):
    found = measured(Doubled(wrong), "eager")
    assert (found["graphs"], found["fallbacks"], len(found["recompiles"])) == (2, 0, 1)
    assert [one["kind"] for one in found["wrong"]] == (["numerics"] if wrong else [])
    assert found["seconds"] >= 0
