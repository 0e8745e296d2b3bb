"""The cases of the sweep: every model of the vision and transformers suites in fp32, and a few models also with
Inductor.
"""

from __future__ import annotations

from dataclasses import dataclass

from suites._models import LIGHT_BACKEND, Case, Model
from suites.transformers.models import MODELS as TRANSFORMERS
from suites.vision.models import MODELS as VISION

FOLDERS = {"vision": VISION, "transformers": TRANSFORMERS}


@dataclass(frozen=True)
class Test:
    """One table of the page: the suites' test (training or inference) and the backend."""

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
    """Return each case and its backend, keyed by names such as ``vision/resnet inference``. The cheapest cases come
    first.
    """
    return {
        f"{folder}/{model.name} {name}": (Case(model, test.suite, "fp32"), test.backend)
        for name, test in TESTS.items()
        for folder, models in FOLDERS.items()
        for model in models
        if runs(model, test)
    }


def runs(model: Model, test: Test) -> bool:
    """Return whether the suites run this test of the model in fp32 and, for Inductor, whether ``IN_INDUCTOR`` lists the
    model.
    """
    held = not model.only or f"{test.suite}-fp32" in model.only
    return held and (test.backend != "inductor" or model.name in IN_INDUCTOR[test.suite])
