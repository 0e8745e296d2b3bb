"""The recorded cases that come from the suites: their models, inputs, losses, modes and optimizers, by their definitions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from tests.plan.recorded_cases import BF16, Recorded, square

# Recorded in bfloat16, and without the optimizer in which a step ends.
PLAIN_SPEED = (
    "resnet18-forward-default",
    "bert-forward-default",
    "gpt2-forward-default",
    "llama-forward-default",
    "convnext-forward-default",
    "mobilenet-forward-default",
    "vit-forward-default",
    "captioner-forward-default",
    "resnet18-step-default",
    "bert-step-default",
    "vit-backward-default",
    "llama-step-default",
    "captioner-step-default",
)
LOGS = ("gpt2-backward-default",)  # transformers logs a warning when it computes the loss, which breaks the graph
READS = ("conv-captioner-forward-default",)  # torch's decoder layer reads on the host whether its mask is causal
# The cases of each model in the tables of the suites. A case is missing if its graphs depend on values (the experts of
# Mixtral in backward, the layer drop of Whisper, the CTC loss of wav2vec2), or if the model cannot be pickled (SegFormer,
# whose hooks refer to a context variable).
BOTH = ("inference-bf16", "training-fp32")
ALL = ("inference-fp32", "inference-bf16", "training-fp32", "training-bf16")
TRANSFORMERS = {
    **dict.fromkeys(("bert", "llama"), ALL),
    **dict.fromkeys(("deberta_v2", "modernbert", "gpt2", "gemma3", "mamba", "t5", "dinov2", "clip"), BOTH),
    "vision_encoder_decoder": BOTH,
    **dict.fromkeys(("mixtral", "wav2vec2", "whisper"), ("inference-bf16",)),
}
VISION = {
    "resnet": ALL,
    **dict.fromkeys(("regnet", "densenet", "mobilenet_v3", "shufflenet_v2", "efficientnet", "convnext", "vit"), BOTH),
    **dict.fromkeys(("swin", "deeplab_v3", "lraspp", "video_resnet"), BOTH),
}
# One call at the first size, and one at the second, for which torch compiles a graph with dynamic sizes.
TWO_SIZES = ("transformers/bert", "transformers/llama", "transformers/t5", "vision/resnet", "vision/vit")


def _speed(name: str, *, plain: bool = False) -> Recorded:
    from suites.speed.cases import CASES

    model, arguments, options = CASES[name].build(torch.device("cpu"))
    arguments = {key: value.to(BF16) if value.is_floating_point() else value for key, value in arguments.items()}
    more = {} if plain else {"mode": options["mode"], "optimizer": options.get("optimizer")}
    return Recorded(
        model.to(BF16), arguments, options.get("train"), **more, breaks=int(name in LOGS), reads_a_value=name in READS
    )


def _of_table(suite: str, name: str, case_name: str, sizes: int = 1) -> Recorded:
    from importlib import import_module

    from suites._models import Case

    models = {model.name: model for model in import_module(f"suites.{suite}.models").MODELS}
    case = Case(models[name], *case_name.split("-"))
    first, *later = (call.kwargs for call in case.calls()[:sizes])
    train = (models[name].loss or every_output) if case.test == "training" else None
    return Recorded(case.target(), first, train, later=tuple(later))


def every_output(output: Any) -> torch.Tensor:
    """A loss of every output that requires a gradient."""
    leaves = torch.utils._pytree.tree_leaves(dict(output) if hasattr(output, "keys") else output)
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    return torch.stack([tensor.float().square().mean() for tensor in tensors]).sum()


def _tiny_captioner(autocast: bool = False, mode: str | None = None) -> Recorded:
    from suites.captioning.models import captions, loss_of, tiny

    model = Autocasting(tiny(dropout=0.1)) if autocast else tiny()
    return Recorded(model, captions([16, 12]), loss_of, mode=mode)


class Autocasting(torch.nn.Module):
    """A model that runs under autocast to bfloat16."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, **batch: torch.Tensor) -> Any:
        with torch.autocast("cuda", BF16):
            return self.model(**batch)


def _denoiser(dtype: torch.dtype = torch.float32, train: bool = False, mode: str | None = None) -> Recorded:
    from suites.denoiser.test_memory import Denoiser, inputs

    x, time = (tensor.to(dtype) for tensor in inputs())
    return Recorded(Denoiser().to(dtype).train(train), {"x": x, "time": time}, square if train else None, mode=mode)


def _regression(optimizer: Callable[[Any], torch.optim.Optimizer]) -> Recorded:
    from suites.training.models import Regression

    return Recorded(Regression(), {"x": torch.randn(4, 8), "y": torch.randn(4, 4)}, _loss, optimizer=optimizer)


def _loss(output: Any) -> torch.Tensor:
    return output.loss


def _named() -> dict[str, Callable[[], Recorded]]:
    from suites.speed.cases import CASES

    cases: dict[str, Callable[[], Recorded]] = {name: partial(_speed, name, plain=True) for name in PLAIN_SPEED}
    for name, case in CASES.items():
        if name not in PLAIN_SPEED or case.work == "step":
            cases[f"suites/speed/{name}"] = partial(_speed, name)
    for suite, table in (("transformers", TRANSFORMERS), ("vision", VISION)):
        for name, variants in table.items():
            for variant in variants:
                cases[f"suites/{suite}/{name}-{variant}"] = partial(_of_table, suite, name, variant)
    for name in TWO_SIZES:
        cases[f"suites/{name}-two-sizes"] = partial(_of_table, *name.split("/"), "inference-fp32", sizes=2)
    return cases


SUITES: dict[str, Callable[[], Recorded]] = {
    **_named(),
    "suites/captioning/tiny-step": _tiny_captioner,
    "suites/captioning/tiny-autocast-step": partial(_tiny_captioner, autocast=True),
    "suites/captioning/tiny-reduce-overhead-step": partial(_tiny_captioner, mode="reduce-overhead"),
    "suites/denoiser/denoiser": _denoiser,
    "suites/denoiser/denoiser-half-step": partial(_denoiser, BF16, train=True),
    "suites/denoiser/denoiser-half-reduce-overhead": partial(_denoiser, BF16, mode="reduce-overhead"),
    "suites/training/regression-adamw": partial(_regression, torch.optim.AdamW),
    "suites/training/regression-sgd": partial(_regression, partial(torch.optim.SGD, lr=0.1, momentum=0.9)),
}
