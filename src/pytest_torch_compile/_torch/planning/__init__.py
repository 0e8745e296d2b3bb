"""Stand-ins that let torch compile for a CUDA GPU on a machine without that GPU. Use this package only in a fresh
process.

The result is a plan: the code that Inductor generates for the GPU, and predictions of the kernels and the peak memory.

The stand-ins replace names in torch for the rest of the process, so ``put_all`` runs only in a process that was started
for planning. The docstring of each module describes what the module replaces and why:

- ``card``: information that torch requests from the driver;
- ``triton_target``: Triton's driver;
- ``engine``: autograd's C++ engine, which requests CUDA streams;
- ``attention``, ``convolution``: choices that C++ code makes based on device properties;
- ``recorded``: the GPUs and torch versions for which the rules for these choices were verified;
- ``constant_values``: constants, which torch would compute on the GPU;
- ``optimizers``: the operators of an optimizer's step;
- ``generated``: compiled kernels, which would need the GPU;
- ``fake``: fake CUDA tensors;
- ``valued``: fake CUDA tensors that also have values, because each operator is also computed on the CPU;
- ``ptxas``: compiling generated kernels for the GPU;
- ``interpret``, ``language``, ``mathematics``, ``block``, ``pointer``: running generated kernels on the CPU;
- ``choices``: fixed values for decisions that Inductor normally makes by timing.
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

OLDEST = Version("2.11")  # the stand-ins have not been tested with older versions of torch
COMPILER = "torch._inductor.compile_fx"  # importing this module takes most of the time that a plan needs
VARIABLE = "PYTEST_TORCH_COMPILE_PLANNING"  # set in a process that the stand-ins may change permanently


def missing() -> str:
    """Return the reason why this machine cannot create a plan, or an empty string if it can."""
    if Version(Version(torch.__version__).base_version) < OLDEST:
        return f"plans require torch {OLDEST} or newer, but this is torch {torch.__version__}"
    if not hasattr(torch._C, "_cuda_getCurrentRawStream"):
        return f"torch {torch.__version__} was built without CUDA; install the default wheel (pip install torch)"
    if find_spec("triton") is None:
        return "Triton is not installed (pip install triton)"
    return ""


def put_all(card: Card, assume: Callable[[str], None]) -> Generator:
    """Make this process compile for the GPU that ``card`` describes.

    Torch's choices of kernels and memory formats are predicted by rules. If a rule was not verified for this GPU and
    torch version, ``assume`` is called with a description each time the rule is used.
    """
    if os.environ.get(VARIABLE) != "1":
        raise RuntimeError("the stand-ins for a GPU can be installed only in a process that was started for planning")
    from . import attention, choices, constant_values, convolution, engine, generated, optimizers, triton_target
    from . import card as of_card

    of_card.put_card(card)
    triton_target.put_target(card)
    engine.put_engine()
    attention.put_attention(card, assume)
    convolution.put_convolutions(card, assume)
    constant_values.compute_constants_on_cpu()
    optimizers.allow_foreach()
    choices.fix_choices()
    return generated.put_generator()
