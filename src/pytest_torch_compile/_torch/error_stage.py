"""Find the stage of torch.compile that raised an exception, and the line in torch.

The folders and files of the stages were checked with torch 2.6, 2.11, 2.13 and 2.15. Frames of dynamo are around the
frames of AOTAutograd, and these are around most frames of Inductor, so the innermost of these frames belongs to the
stage that raised the exception. Inductor's decompositions are Python code that AOTAutograd runs.
"""

from __future__ import annotations

import re
import traceback
from dataclasses import dataclass
from typing import Literal

from .support import root_cause

Stage = Literal["dynamo", "the backend", "AOTAutograd", "Inductor"]
_STAGES: tuple[tuple[Stage, re.Pattern[str]], ...] = (
    ("Inductor", re.compile(r"/torch/_inductor/(?!decomposition\.py|compile_fx\.py)")),
    ("AOTAutograd", re.compile(r"/torch/_functorch/(?:aot_autograd\.py|_aot_autograd/|partitioners\.py)")),
    ("dynamo", re.compile(r"/torch/_dynamo/(?:symbolic_convert|output_graph|variables/|convert_frame|guards)")),
)


@dataclass(frozen=True)
class RaisedAt:
    """The ``stage`` that raised an exception, and the innermost line of its code: ``torch/_inductor/ir.py:3012 in
    create``. The place is empty if this line is of no help: dynamo ran an op, which raised the exception, or the
    backend is the user's.
    """

    stage: Stage
    place: str = ""


def raised_at(error: BaseException) -> RaisedAt | None:
    """Return where torch.compile raised an exception while it compiled code, or None if the traceback shows no
    stage.
    """
    root = root_cause(error)
    frames = traceback.extract_tb(error.__traceback__)
    frames += traceback.extract_tb(root.__traceback__) if root is not error else []
    found = [(stage, frame) for frame in frames if (stage := _stage_of(frame.filename))]
    # Frames of dynamo's helpers can be inside the frames of the other stages.
    stage, frame = next((one for one in reversed(found) if one[0] != "dynamo"), found[-1] if found else (None, None))
    if stage is None or frame is None:
        return None
    if stage == "dynamo" and type(error).__name__ == "BackendCompilerFailed":
        return RaisedAt("the backend")
    if stage == "dynamo" and frame is not frames[-1]:
        return RaisedAt("dynamo")
    file = frame.filename.replace("\\", "/").rpartition("/torch/")[2]
    return RaisedAt(stage, f"torch/{file}:{frame.lineno} in {frame.name}")


def _stage_of(file: str) -> Stage | None:
    path = file.replace("\\", "/")
    return next((stage for stage, pattern in _STAGES if pattern.search(path)), None)
