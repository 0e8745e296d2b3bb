"""What the sweep runs: every model of the breadth suites in fp32, for inference in Inductor and for training."""

from __future__ import annotations

from suites._models import LIGHT_BACKEND, Case, Model
from suites.transformers.models import MODELS as TRANSFORMERS
from suites.vision.models import MODELS as VISION

# Training stops before code generation, which would take hours for the backward graphs of all models.
BACKENDS = {"training": LIGHT_BACKEND, "inference": "inductor"}
FOLDERS = {"vision": VISION, "transformers": TRANSFORMERS}


def cases() -> dict[str, Case]:
    """Each case under a name such as ``vision/resnet inference``, the cheap ones first."""
    found = [
        (f"{folder}/{model.name} {test}", Case(model, test, "fp32"))
        for test in BACKENDS
        for folder, models in FOLDERS.items()
        for model in models
        if runs(model, test)
    ]
    return dict(found)


def runs(model: Model, test: str) -> bool:
    """Whether a model of the suites has this test in fp32."""
    return not model.only or f"{test}-fp32" in model.only
