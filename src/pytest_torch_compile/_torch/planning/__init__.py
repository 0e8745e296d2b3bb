"""Stand-ins that let torch compile for a CUDA card without the card. For use only in a fresh process.

They replace names of torch for the rest of the process, so ``put_all`` refuses to run anywhere else. Each file says
what it replaces and why:

- ``card``: the driver's answers about the device;
- ``triton_target``: Triton's driver;
- ``engine``: the C++ engine of autograd, which asks for streams;
- ``attention``, ``convolution``: choices that C++ makes by properties of the device;
- ``recorded``: the cards and torch versions for which these choices were checked;
- ``constants``: constant folding, which really runs operators;
- ``generated``: compiled kernels, which would need the card;
- ``fake``: tensors on the card;
- ``valued``: tensors on the card that have values too, and what the CPU computes for the card's own operators;
- ``ptxas``: generated kernels, compiled for the card;
- ``interpret``, ``language``: generated kernels, run on the CPU;
- ``choices``: decisions that Inductor makes by timing, which are fixed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING

import torch
from packaging.version import Version

if TYPE_CHECKING:
    from ...plan.cards import Card
    from .generated import Generator

OLDEST = Version("2.11")  # the stand-ins were not tried with older versions of torch
VARIABLE = "PYTEST_TORCH_COMPILE_PLANNING"  # set in the environment of a process that may be changed permanently


def missing() -> str:
    """The reason why this machine cannot create a plan, or an empty string."""
    if Version(Version(torch.__version__).base_version) < OLDEST:
        return f"plans need torch {OLDEST} or newer, this is {torch.__version__}"
    if not hasattr(torch._C, "_cuda_getCurrentRawStream"):
        return f"torch {torch.__version__} is built without CUDA; install the usual wheel (pip install torch)"
    if find_spec("triton") is None:
        return "Triton is not installed (pip install triton)"
    return ""


def put_all(card: Card, assume: Callable[[str], None]) -> Generator:
    """Make this process compile for the card; ``assume`` is called for each rule that is not recorded."""
    if os.environ.get(VARIABLE) != "1":
        raise RuntimeError("stand-ins for a card may be installed only in a process that was started for a plan")
    from . import attention, choices, constants, convolution, engine, generated, triton_target
    from . import card as of_card

    of_card.put_card(card)
    triton_target.put_target(card)
    engine.put_engine()
    attention.put_attention(card, assume)
    convolution.put_convolutions(card, assume)
    constants.fold_on_cpu()
    choices.fix_choices()
    return generated.put_generator()
