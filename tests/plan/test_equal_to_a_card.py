"""A plan is equal to the character to the code that an H200 generated."""

from __future__ import annotations

import importlib.util
import json
import re
from importlib.metadata import version
from pathlib import Path

import pytest
import torch

from pytest_torch_compile import call, check_plan
from pytest_torch_compile._torch.planning.attention import Inputs, kernel_of
from tests.plan.code import different
from tests.plan.record import LETTERS, points, tensors
from tests.plan.recorded_cases import OWN, built

RECORDED = Path(__file__).parent / "recorded"
RECORD = json.loads((RECORDED / "NVIDIA-H200_torch-2.11.json").read_text(encoding="utf-8"))
ATTENTION = json.loads((RECORDED / "NVIDIA-H200_torch-2.11.attention.json").read_text(encoding="utf-8"))
VISION = ("resnet18", "mobilenet")
# Convolutions and kernels of attention take memory for their work, which only the card knows.
NEEDS_MORE = re.compile(
    r"residual-(one-pixel|.*step)|resnet18-forward|convolution-3d|attention-(float32-(boolean-)?|head-20-)step"
)

pytestmark = pytest.mark.skipif(
    not torch.__version__.startswith(f"{RECORD['torch']}."), reason=f"the record is of torch {RECORD['torch']}"
)


@pytest.mark.parametrize("name", RECORD["cases"])
def test_the_code_is_that_of_the_card(name: str) -> None:
    _require_packages_of_the_record(name)
    case = built(name)
    calls = [call(**case.arguments)]
    plan = check_plan(case.model, calls=calls, gpu="H200", train=case.train or False, dynamic=case.dynamic)
    recorded = RECORD["cases"][name]
    assert len(plan.code) == len(recorded)
    assert [different(code, hashes) for code, hashes in zip(plan.code, recorded, strict=True)] == [""] * len(recorded)
    measured = RECORD["measured"][name]
    assert max(plan.launches) <= measured["kernels"]
    if NEEDS_MORE.match(name):
        assert plan.peak_memory < measured["peak_memory"]
    else:
        assert plan.peak_memory == pytest.approx(measured["peak_memory"], rel=0.02)


def test_attention_uses_the_kernel_of_the_card() -> None:
    wrong = []
    for point, letter in zip(points(), "".join(ATTENTION["chosen"]), strict=True):
        *inputs, dropout, causal = tensors(*point, device="meta")
        with torch.set_grad_enabled(inputs[0].requires_grad):
            kernel = kernel_of(Inputs(*inputs, dropout, causal, capability=(9, 0)))
        if LETTERS[kernel] != letter:
            wrong.append((point, kernel, letter))
    assert not wrong


def _require_packages_of_the_record(name: str) -> None:
    if name in OWN:
        return
    for package, wanted in RECORD["packages"].items():
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
        if package == "transformers" and not name.startswith(VISION) and version(package) != wanted:
            pytest.skip(f"the record is of {package} {wanted}, which may trace other code than {version(package)}")
