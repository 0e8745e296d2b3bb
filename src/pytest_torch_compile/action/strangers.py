"""Programs that run a stranger's code: tests, conftest files, the build of a project, whatever an environment imports.

They run as the user who runs the job, so what that user may do they may do. What they are kept from is to speak to the
runner: they do not get the names of its files, those files are put back as they were once they have ended, nothing that
they started goes on, and nothing that they print is a command.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from . import runner
from .inputs import VARIABLE as INPUTS

# The runner reads these after each step: what is in them becomes an output, a variable or a path of later steps.
FILES = ("GITHUB_OUTPUT", "GITHUB_ENV", "GITHUB_PATH", "GITHUB_STATE", "GITHUB_STEP_SUMMARY")
# They let a program speak to GitHub in the name of the job.
TOKENS = ("ACTIONS_RUNTIME_TOKEN", "ACTIONS_RUNTIME_URL", "ACTIONS_RESULTS_URL", "ACTIONS_CACHE_URL")
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER
_SECONDS = 10.0


def variables() -> dict[str, str]:
    """The environment for such a program."""
    left_out = (INPUTS, *FILES, *TOKENS)
    ours = {name for name in os.environ if name.startswith("TORCH_COMPILE_")}
    return {name: value for name, value in os.environ.items() if name not in left_out and name not in ours}


def run(
    command: Sequence[str], folder: Path, more: dict[str, str] | None = None, *, capture: bool = False
) -> subprocess.CompletedProcess[bytes]:
    """Run such a program to its end, and end what it leaves running."""
    with _kept(), runner.commands_off():
        done = subprocess.run(
            command,
            cwd=folder,
            env={**variables(), **(more or {})},
            stdout=subprocess.PIPE if capture else None,
            check=False,
        )
        if capture:
            runner.say(done.stdout.decode("utf-8", "replace"))
    return done


@contextmanager
def _kept() -> Iterator[None]:
    """Put the runner's files back after the body, when nothing that it started is there to write to them again."""
    paths = [Path(os.environ[name]) for name in FILES if os.environ.get(name)]
    before = {path: path.read_bytes() if path.exists() else b"" for path in paths}
    _adopt_orphans()
    try:
        yield
    finally:
        _end_children()
        for path, content in before.items():
            if path.is_symlink() or not path.is_file() or path.read_bytes() != content:
                with suppress(FileNotFoundError):
                    path.unlink()
                path.write_bytes(content)


def _adopt_orphans() -> None:
    """A process whose parent has ended becomes a child of this one, and can be ended."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)


def _end_children() -> None:
    deadline = time.monotonic() + _SECONDS
    while (children := _children()) and time.monotonic() < deadline:
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(child, 0)


def _children() -> list[int]:
    """The processes whose parent this one is."""
    children = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            # The name of the program is in brackets, and may hold anything.
            if int(status.read_text(errors="replace").rpartition(")")[2].split()[1]) == os.getpid():
                children.append(int(status.parent.name))
    return children
