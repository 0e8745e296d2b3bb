"""Run opcheck on the custom ops of torchvision, with the inputs that torchvision's own layers and models pass to them.

The results are listed in docs/how-to/custom-ops.md.
"""

import pytest
import torch

pytest.importorskip("torchvision", reason="this suite needs torchvision")

import torchvision as tv

from pytest_torch_compile import CompileCheckFailed, check_compile

BOXES = torch.tensor([[0.0, 0.0, 0.0, 8.0, 8.0], [1.0, 4.0, 4.0, 16.0, 12.0]])


class Align(torch.nn.Module):
    def __init__(self, op):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 1)
        self.op = op

    def forward(self, x):
        return self.op(self.conv(x), BOXES.to(x.device), output_size=(2, 2))


class Deform(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.offset = torch.nn.Conv2d(3, 18, 3, padding=1)
        self.conv = tv.ops.DeformConv2d(3, 4, 3, padding=1)

    def forward(self, x):
        return self.conv(x, self.offset(x))


class Suppress(torch.nn.Module):
    def forward(self, x):
        corners = x.flatten(2).mean(-1)
        boxes = torch.cat([corners[:, :2], corners[:, :2] + 1], 1)
        return tv.ops.nms(boxes, corners[:, 2], 0.5)


X = torch.randn(2, 3, 16, 16)
MODELS = {
    "roi_align": lambda: Align(tv.ops.roi_align),
    "roi_pool": lambda: Align(tv.ops.roi_pool),
    "ps_roi_align": lambda: Align(tv.ops.ps_roi_align),
    "ps_roi_pool": lambda: Align(tv.ops.ps_roi_pool),
    "deform_conv2d": Deform,
    "nms": Suppress,
}


def opcheck_findings(name, train, device="cpu"):
    """The opcheck tests that fail, by op; findings of the check itself are ignored."""
    options = {"train": train, "backend": "eager", "fullgraph": False, "diagnose": "off"}
    try:
        report = check_compile(MODELS[name]().to(device), X.to(device), custom_ops=True, **options)
        findings = report.findings
    except CompileCheckFailed as failed:
        report, findings = failed.report, failed.findings
    assert any(f"torchvision.{name}.default" in remark for remark in report.remarks)
    return {finding.message for finding in findings if finding.kind == "custom-op"}


CASES = [(name, train) for name in MODELS for train in (False, True) if (name, train) != ("nms", True)]
each_op = pytest.mark.parametrize(
    ("name", "train"), CASES, ids=[f"{n}-{'training' if t else 'inference'}" for n, t in CASES]
)


@each_op
def test_ops(name, train):
    assert opcheck_findings(name, train) == set()


@pytest.mark.gpu
@each_op
def test_ops_on_a_gpu(name, train):
    assert opcheck_findings(name, train, "cuda") == set()
