"""Run one job in the fresh process, and write its result to a file."""

from __future__ import annotations

import faulthandler
import os
import pickle
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

from .. import settings
from .._torch.object_text import message_of
from .._torch.process_state import ProcessState
from .._torch.stuck import place_of
from ..observation import Location
from ..ranks.rank import Raised
from ..ranks.transport import ModulesOfParent
from .process import Job


def main(folder: Path) -> None:
    """Run the job that is stored in ``folder``, and store its result there."""
    import torch

    def end_with_parent() -> None:
        # The system closes stdin, which is a pipe, when the parent process exits.
        while os.read(0, 1):
            pass
        os._exit(1)

    faulthandler.enable()
    threading.Thread(target=end_with_parent, daemon=True, name="parent watch").start()
    modules = ModulesOfParent()
    sys.meta_path.insert(0, modules)
    job: Job = pickle.loads((folder / "job").read_bytes())
    modules.specs, settings.current = job.modules, job.options
    value: Any = None
    raised = None
    try:
        with ProcessState.kept():  # the modes must not apply to what this function does afterwards
            job.torch.put()
            with torch.inference_mode(False):  # otherwise, the arguments would be inference tensors
                function, args, kwargs = pickle.loads(job.payload)
            value = function(*args, **kwargs)
    except Exception as error:
        raised = raised_by(error)
    # The file gets its final name only when it is complete.
    torch.save((value, raised), folder / "answer.part")
    (folder / "answer.part").rename(folder / "answer")


def raised_by(error: BaseException) -> Raised:
    """Convert an exception to a form that can be sent to the parent process, because many exceptions cannot be
    pickled.
    """
    frames = traceback.extract_tb(error.__traceback__)
    place = place_of([Location(f.filename, f.lineno or 0, f.name, f.line or "") for f in frames])
    return Raised(type(error).__name__, message_of(error).strip() or "no message", place)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
