"""Deployment artifacts of a vision model and a text model match eager. They are built in this process and loaded in a
fresh process.

Each artifact is built from one shape and run with three other shapes. Results must match eager by the same rule as in
`check_compile`, nothing may be compiled after loading, and calls that fail in eager must also fail in the artifact.
"""

import os
import shutil
import subprocess

import pytest
import torch

pytest.importorskip("torchvision", reason="this suite needs torchvision")
pytest.importorskip("transformers", reason="this suite needs transformers")

from pytest_torch_compile import Tolerances, call, check_artifact
from pytest_torch_compile._torch.deployment import unavailable

from ..transformers.inputs import tokens
from ..transformers.models import make_bert
from ..vision.models import images, make_resnet

# An artifact returns new tensors where eager may return views.
OWN_MEMORY = Tolerances(aliasing=False)
SHAPES = [(4, 64), (6, 80), (3, 96), (5, 72)]
LENGTHS = [(4, 16), (6, 24), (3, 40), (5, 9)]

NO_PRECOMPILE = pytest.mark.skipif(bool(unavailable("precompile")), reason=unavailable("precompile"))
NOT_SERIALIZED = pytest.mark.compile_known_failure("torch cannot save an ID_MATCH guard", kind="compile-error")


def vision(device="cpu"):
    calls = [call(images(batch, side)["x"].to(device)) for batch, side in SHAPES]
    return make_resnet().eval().to(device), {"calls": calls, "dynamic_dims": {"x": (0, 2, 3)}}


class Logits(torch.nn.Module):
    """A text model for deployment, which maps ids and a mask to logits."""

    def __init__(self):
        super().__init__()
        self.model = make_bert()

    def forward(self, input_ids, attention_mask):
        return self.model(input_ids=input_ids, attention_mask=attention_mask).logits


def text(device="cpu"):
    calls = [call(*(value.to(device) for value in tokens(batch, length).values())) for batch, length in LENGTHS]
    return Logits().eval().to(device), {"calls": calls, "dynamic_dims": {"input_ids": (0, 1), "attention_mask": (0, 1)}}


CASES = [
    *(
        pytest.param(make, via, id=f"{make.__name__}-{via}")
        for make in (vision, text)
        for via in ("aot_inductor", "export")
    ),
    pytest.param(vision, "precompile", id="vision-precompile", marks=NO_PRECOMPILE),
    pytest.param(text, "precompile", id="text-precompile", marks=[NO_PRECOMPILE, NOT_SERIALIZED]),
]


@pytest.fixture(scope="module")
def shared_cpp_library(tmp_path_factory):
    """Inductor's options for a compiler that links ``libstdc++.so`` dynamically, because a second copy next to torch's
    crashes."""
    folder = tmp_path_factory.mktemp("linked")
    source, library = folder / "probe.cpp", folder / "probe.so"
    source.write_text('#include <regex>\nbool probe(const char* s) { return std::regex_match(s, std::regex("a+")); }\n')
    for name in dict.fromkeys([os.environ.get("CXX", "g++"), "/usr/bin/g++", "g++-13", "g++-12", "c++", "clang++"]):
        command = [name, "-shared", "-fPIC", str(source), "-o", str(library)]
        linked = shutil.which(name) and subprocess.run(command, capture_output=True, check=False).returncode == 0
        if linked and b"libstdc++.so" in library.read_bytes():
            return {"cpp.cxx": (None, name)}
    pytest.skip(
        "no C++ compiler on this machine links libstdc++.so dynamically, so a package would crash because of a "
        "second copy"
    )


def check(make, via, record_property, request, device="cpu"):
    model, options = make(device)
    if via == "aot_inductor":
        options["options"] = request.getfixturevalue("shared_cpp_library")
    report = check_artifact(model, via=via, tolerances=OWN_MEMORY, **options)
    assert [row.outcome for row in report.calls] == ["built from this call, ran", "ran", "ran", "ran"]
    figures = {"megabytes": report.bytes / 1e6, "built": report.build_seconds, "loaded": report.load_seconds}
    record_property("artifact", {name: round(value, 2) for name, value in figures.items()})


@pytest.mark.parametrize(("make", "via"), CASES)
def test_on_a_cpu(make, via, record_property, request):
    check(make, via, record_property, request)


@pytest.mark.gpu
@pytest.mark.parametrize(("make", "via"), CASES)
def test_on_a_gpu(make, via, record_property, request):
    check(make, via, record_property, request, "cuda")


def test_what_eager_refuses_is_refused():
    model, options = vision()
    options["calls"] += [call(torch.randn(2, 4, 64, 64))]
    report = check_artifact(model, via="export", tolerances=OWN_MEMORY, **options)
    assert report.calls[-1].outcome == "rejected, as in eager"
