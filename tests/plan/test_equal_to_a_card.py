"""A plan is equal to the character to the code that an H200 and an H100 generated."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
import torch

from pytest_torch_compile import CompileCheckFailed, Plan, call, check_plan
from pytest_torch_compile._torch.planning.attention import Inputs, kernel_of
from tests.plan.code import different
from tests.plan.every_case import built
from tests.plan.record import LETTERS, points, tensors
from tests.plan.recorded_cases import OWN, Recorded

RECORDED = Path(__file__).parent / "recorded"
RECORD = json.loads((RECORDED / "NVIDIA-H200_torch-2.11.json").read_text(encoding="utf-8"))
ATTENTION = json.loads((RECORDED / "NVIDIA-H200_torch-2.11.attention.json").read_text(encoding="utf-8"))
WITHOUT_TRANSFORMERS = re.compile(r"resnet18|mobilenet|suites/(speed/(resnet18|conv-)|vision|denoiser|training)")
H100 = json.loads((RECORDED / "NVIDIA-H100-80GB-HBM3_torch-2.11.json").read_text(encoding="utf-8"))
# Some library calls take memory for their work, which only the card knows: convolutions, the backward pass of attention
# in float32, and grouped products. `torch.cuda.memory._snapshot` on an H100 showed which call holds it at the peak.
NEEDS_MORE = re.compile(
    r"residual-(one-pixel|.*step)|resnet18-forward|convolution-3d|suites/vision/((densenet|mobilenet_v3)-training|video_resnet-inf)|"
    r"suites/captioning/tiny-autocast|"
    r"attention-(float32-(boolean-)?|head-20-)step|suites/transformers/llama-training-bf16|suites/vision/vit-training|"
    r"suites/transformers/(bert|llama|gpt2|modernbert|gemma3|dinov2|t5|clip|vision_encoder_decoder)-training-fp32|"
    r"suites/transformers/mixtral"
)
# dynamo numbers the inputs of a graph by their first use, and Python before 3.12 reads the mask of these models first.
ORDERED_BY_PYTHON = re.compile(r"suites/transformers/(bert|gpt2)-")

pytestmark = pytest.mark.skipif(
    not torch.__version__.startswith(f"{RECORD['torch']}."),
    reason=f"the code was recorded with torch {RECORD['torch']}",
)


@pytest.mark.parametrize("name", RECORD["cases"])
def test_the_code_is_that_of_the_card(name: str) -> None:
    _require_packages_of_the_record(name)
    case = built(name)
    if ORDERED_BY_PYTHON.match(name) and sys.version_info < (3, 12):
        pytest.skip("before Python 3.12, dynamo orders the inputs of this model differently")
    plan = _plan(case)
    recorded = RECORD["cases"][name]
    assert plan.code and (len(plan.code) == len(recorded) or case.reads_a_value)
    found = [different(code, hashes) for code, hashes in zip(plan.code, recorded, strict=False)]
    assert found == [""] * len(plan.code)
    measured = RECORD["measured"][name]
    assert plan.launches[-1] <= measured["kernels"]
    if case.mode is not None:
        assert plan.cudagraphs == measured["cudagraphs"]
        return
    peak = measured.get("requested_memory", measured["peak_memory"])
    if NEEDS_MORE.match(name) or case.reads_a_value:
        assert plan.peak_memory < peak
    else:
        assert plan.peak_memory == pytest.approx(peak, rel=0.02)


@pytest.mark.parametrize("name", ["encoder-step", "attention-boolean-step", "residual-last-step", "pointwise-dynamic"])
def test_the_code_for_an_h100_is_that_of_the_card(name: str) -> None:
    plan = _plan(built(name), gpu="H100")
    found = [different(code, hashes) for code, hashes in zip(plan.code, H100["cases"][name], strict=True)]
    assert found == [""] * len(plan.code)


def _plan(case: Recorded, gpu: str = "H200") -> Plan:
    allowed = {"max_graph_breaks": case.breaks, "max_recompiles": len(case.later)}
    options = {"optimizer": case.optimizer, "dynamic": case.dynamic, "mode": case.mode, **allowed}
    calls = [call(**arguments) for arguments in case.calls]
    if not case.reads_a_value:
        return check_plan(case.model, calls=calls, gpu=gpu, train=case.train or False, **options)
    with pytest.raises(CompileCheckFailed) as failed:
        check_plan(case.model, calls=calls, gpu=gpu, train=case.train or False, **options)
    plan = failed.value.report
    assert isinstance(plan, Plan) and {finding.kind for finding in plan.findings} == {"host-sync", "graph-break"}
    return plan


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
        if package == "transformers" and not WITHOUT_TRANSFORMERS.match(name) and version(package) != wanted:
            pytest.skip(f"the code was recorded with {package} {wanted}, not with {version(package)}")
