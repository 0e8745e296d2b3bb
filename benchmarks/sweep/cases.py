"""The cases of the sweep: every model of the vision and transformers suites in fp32, and some models of each family in
Inductor."""

from __future__ import annotations

from dataclasses import dataclass

from suites._models import LIGHT_BACKEND, Case, Model
from suites.transformers.models import MODELS as TRANSFORMERS
from suites.vision.models import MODELS as VISION

FOLDERS = {"vision": VISION, "transformers": TRANSFORMERS}


@dataclass(frozen=True)
class Test:
    """One table of the page: a test of the suites and its backend."""

    suite: str
    backend: str


# Code generation takes ten times as long as all earlier stages, so only these models run it.
TESTS = {
    "training": Test("training", LIGHT_BACKEND),
    "inference": Test("inference", LIGHT_BACKEND),
    "inductor": Test("inference", "inductor"),
    "inductor-training": Test("training", "inductor"),
}
IN_INDUCTOR = {
    "inference": {"bert", "convnext", "gpt2", "llama", "mixtral", "resnet", "t5", "vision_encoder_decoder", "vit"},
    "training": {"bert", "vit"},
}


def cases() -> dict[str, tuple[Case, str]]:
    """Maps names such as ``vision/resnet inference`` to each case and its backend. The cheapest cases come first."""
    return {
        f"{folder}/{model.name} {name}": (Case(model, test.suite, "fp32"), test.backend)
        for name, test in TESTS.items()
        for folder, models in FOLDERS.items()
        for model in models
        if runs(model, test)
    }


def runs(model: Model, test: Test) -> bool:
    """Whether the suites run this test of the model in fp32 and, for Inductor, whether the model is among those
    selected."""
    held = not model.only or f"{test.suite}-fp32" in model.only
    return held and (test.backend != "inductor" or model.name in IN_INDUCTOR[test.suite])
