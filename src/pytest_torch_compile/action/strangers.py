"""Run untrusted programs: tests and conftest files, project builds, and interpreters that import installed packages.

The programs run as the job's user, with all permissions of that user. However, these programs cannot communicate with
the runner:

- They do not receive the paths of the runner's files, and these files are restored after the programs have ended.
- Processes that the programs leave running are terminated.
- The programs' output is never interpreted as a workflow command.
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

# The runner reads these files after each step: they set the step's outputs, and variables and PATH for later steps.
FILES = ("GITHUB_OUTPUT", "GITHUB_ENV", "GITHUB_PATH", "GITHUB_STATE", "GITHUB_STEP_SUMMARY")
# Credentials that let a program act on GitHub on behalf of the job.
TOKENS = ("ACTIONS_RUNTIME_TOKEN", "ACTIONS_RUNTIME_URL", "ACTIONS_RESULTS_URL", "ACTIONS_CACHE_URL")
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER
_SECONDS = 10.0


def variables() -> dict[str, str]:
    """Return the environment variables for an untrusted program."""
    left_out = (INPUTS, *FILES, *TOKENS)
    ours = {name for name in os.environ if name.startswith("TORCH_COMPILE_")}
    return {name: value for name, value in os.environ.items() if name not in left_out and name not in ours}


def run(
    command: Sequence[str], folder: Path, more: dict[str, str] | None = None, *, capture: bool = False
) -> subprocess.CompletedProcess[bytes]:
    """Run an untrusted program, and terminate any processes that it leaves running."""
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
    """After the ``with`` block, terminate the processes that the block left running, and restore the runner's files,
    which these processes might have changed.
    """
    paths = [Path(os.environ[name]) for name in FILES if os.environ.get(name)]
    before = {path: path.read_bytes() if path.exists() else b"" for path in paths}
    if sys.platform == "linux":
        # Become the parent of orphaned processes that the programs leave running, in order to terminate them.
        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        _end_children()
        for path, content in before.items():
            if path.is_symlink() or not path.is_file() or path.read_bytes() != content:
                with suppress(FileNotFoundError):
                    path.unlink()  # otherwise, the content might be written to the target of a symlink
                path.write_bytes(content)


def _end_children() -> None:
    deadline = time.monotonic() + _SECONDS
    while (children := _children()) and time.monotonic() < deadline:
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(child, 0)


def _children() -> list[int]:
    """Return the process ids of this process's children."""
    children = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            # The program name is in parentheses, and may contain any characters.
            if int(status.read_text(errors="replace").rpartition(")")[2].split()[1]) == os.getpid():
                children.append(int(status.parent.name))
    return children
