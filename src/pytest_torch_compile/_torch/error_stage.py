"""Find the stage of torch.compile that was running when an exception was raised, and the line that raised it.

The folders and files of the stages were checked with torch 2.6, 2.11, 2.13 and 2.15. Frames of dynamo are around the
frames of AOTAutograd, and these are around most frames of Inductor, so the innermost of these frames belongs to the
stage that was running. All stages also run other code: implementations of custom ops, methods of tensor classes,
functions that a backend passes to torch, and passes over the graph.
"""

from __future__ import annotations

import re
import traceback
from dataclasses import dataclass
from typing import Literal

from ..observation import Location
from .support import root_cause
from .user_lines import is_torch

Stage = Literal["dynamo", "the backend", "AOTAutograd", "Inductor"]
_STAGES: tuple[tuple[Stage, re.Pattern[str]], ...] = (
    ("Inductor", re.compile(r"/torch/_inductor/(?!decomposition\.py|compile_fx\.py)")),
    ("AOTAutograd", re.compile(r"/torch/_functorch/(?:aot_autograd\.py|_aot_autograd/|partitioners\.py)")),
    ("the backend", re.compile(r"/torch/_dynamo/backends/(?!common\.py|debugging\.py|inductor\.py|registry\.py)")),
    ("dynamo", re.compile(r"/torch/_dynamo/(?:symbolic_convert|output_graph|variables/|convert_frame|guards)")),
)


@dataclass(frozen=True)
class RaisedAt:
    """The ``stage`` that was running when an exception was raised, and the ``place`` that shows most about it.

    If code outside torch raised the exception, ``by_other_code`` is true, and the place is its line. Otherwise, the
    place is the innermost line of the stage: ``torch/_inductor/ir.py:3012 in create``. It is empty if dynamo ran an op
    that raised the exception, because dynamo's line is of no help.
    """

    stage: Stage
    place: str = ""
    by_other_code: bool = False


def raised_at(error: BaseException) -> RaisedAt | None:
    """Return where an exception was raised while torch.compile compiled code, or None if the traceback shows no
    stage.
    """
    root = root_cause(error)
    frames = traceback.extract_tb(error.__traceback__)
    frames += traceback.extract_tb(root.__traceback__) if root is not error else []
    found = [(stage, frame) for frame in frames if (stage := _stage_of(frame.filename))]
    if not found:
        return None
    # Frames of dynamo's helpers can be inside the frames of the other stages.
    stage, frame = next((one for one in reversed(found) if one[0] != "dynamo"), found[-1])
    last = frames[-1]
    if not is_torch(last.filename):
        stage = "the backend" if stage == "dynamo" and type(error).__name__ == "BackendCompilerFailed" else stage
        place = Location(last.filename, last.lineno or 0, last.name)
        return RaisedAt(stage, place.shown(), by_other_code=True)
    if stage == "dynamo" and frame is not last:
        return RaisedAt("dynamo")
    file = frame.filename.replace("\\", "/").rpartition("/torch/")[2]
    return RaisedAt(stage, str(Location(f"torch/{file}", frame.lineno or 0, frame.name)))


def _stage_of(file: str) -> Stage | None:
    path = file.replace("\\", "/")
    return next((stage for stage, pattern in _STAGES if pattern.search(path)), None)
