"""Start Python processes of the tests by forking a process that has imported torch, which saves 3 s of CPU time each.

``subprocess.Popen`` starts ``launch.py`` in place of Python. The launcher passes its arguments, environment, folder and
files to the server (``server.py``), which forks a process for them. The launcher forwards signals, and ends as the
forked process ends. Processes that a forked process starts are forked as well, and so are the processes that
``multiprocessing`` spawns. A process that needs another interpreter is started as usual, for example with options such
as ``-X``, or with other variables that torch reads during its import. Tests of the import of torch turn this off with
the fixture ``new_interpreters``.
"""

from __future__ import annotations

import atexit
import multiprocessing.util
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

SOCKET = "TESTS_PRELOADED_SOCKET"
# torch reads this variable during its import. In a forked process, the server changes the setting instead. Scripts that
# reproduce a failure run with this variable.
DISABLE_CACHES = "TORCHINDUCTOR_FORCE_DISABLE_CACHES"
GC_THRESHOLDS = 20_000, 20, 20
_FOLDER = Path(__file__).parent
# Python or torch reads these variables when it starts, apart from the second pattern.
_READ_AT_START = re.compile("TORCH|PYTORCH|AOT|TRITON|OMP_|MKL_|KMP_|CUDA|LD_|PYTHON|CC$|CXX$")
_READ_LATE = (
    f"{DISABLE_CACHES}|PYTHONPATH|TORCHINDUCTOR_CACHE_DIR|TRITON_CACHE_DIR|PYTORCH_TEST|PYTHON.*HISTORY|TORCHELASTIC_.*|"
    "CUDA_VISIBLE_DEVICES"  # without a driver, nothing reads this variable
)
_started: dict[str, Any] = {}
_interpreters: dict[str, dict[str, str]] = {}
_spawned: list[subprocess.Popen[Any]] = []
_usual_spawn = multiprocessing.util.spawnv_passfds


class Popen(subprocess.Popen[Any]):
    """Like ``subprocess.Popen``, but a Python process is forked where possible."""

    def __init__(self, args: Any, *others: Any, **options: Any) -> None:
        if isinstance(args, (list, tuple)) and args[0] == sys.executable and "-mpytest" in args[1:2]:  # from pytester
            args = [args[0], "-m", "pytest", *args[2:]]
        environment = options.get("env")
        if isinstance(args, (list, tuple)) and (variables := _interpreters.get(os.fspath(args[0]))):
            environment = options["env"] = {**(os.environ if environment is None else environment), **variables}
            args = [sys.executable, *args[1:]]
        if not others and _can_be_forked(args, options, os.environ if environment is None else environment):
            options["env"] = {**(os.environ if environment is None else environment), SOCKET: _server()}
            files = ",".join(map(str, options.get("pass_fds", ())))
            args = [sys.executable, "-I", "-S", str(_FOLDER / "launch.py"), files, *map(os.fspath, args[1:])]
        super().__init__(args, *others, **options)


def interpreter(path: Path, **variables: str) -> str:
    """Write a script that starts this Python with these environment variables, and return its path. This process forks
    the processes that run the script.
    """
    exports = "".join(f"export {name}={value}\n" for name, value in variables.items())
    path.write_text(f'#!/bin/sh\n{exports}exec "{sys.executable}" "$@"\n')
    path.chmod(0o755)
    _interpreters[str(path)] = variables
    return str(path)


def install(address: str = "") -> None:
    """Fork the Python processes that this process starts from now on. A forked process passes the ``address`` of the
    server that forked it. With an NVIDIA driver, no process is forked, because CUDA does not work in a process whose
    parent has used it.
    """
    has_driver = Path("/dev/nvidiactl").exists()
    if sys.platform == "linux" and subprocess.Popen is not Popen and not has_driver:
        _started["environment"], _started["variables"] = dict(os.environ), _read_at_start(os.environ)
        if address:
            _started.update({"in": os.getpid(), "address": address})
        subprocess.Popen = Popen  # type: ignore[misc]
        multiprocessing.util.spawnv_passfds = _spawn


def _spawn(path: Any, args: Any, passfds: Any) -> int:
    """Start a process for ``multiprocessing``, and return its id."""
    arguments = [sys.executable, *map(os.fsdecode, args[1:])]
    if "--multiprocessing-fork" not in arguments or not _can_be_forked(arguments, {}, os.environ):
        return int(_usual_spawn(path, args, passfds))
    # The process must not be waited for when this object is deleted, because ``multiprocessing`` waits for it.
    _spawned.append(Popen(arguments, pass_fds=passfds))
    return _spawned[-1].pid


def _can_be_forked(args: Any, options: dict[str, Any], environment: Any) -> bool:
    if not isinstance(args, (list, tuple)) or len(args) < 2 or args[0] != sys.executable:
        return False
    special = {"preexec_fn", "executable", "shell", "user", "group", "umask"} & options.keys()
    first, *others = [argument for argument in map(str, args[1:]) if argument not in ("-u", "-B")]
    usual = first in ("-m", "-c") or not first.startswith("-") or (first == "-I" and others[0][:1] != "-")
    return usual and not special and _read_at_start(environment) == _started["variables"]


def _read_at_start(environment: Any) -> dict[str, str]:
    return {k: v for k, v in environment.items() if _READ_AT_START.match(k) and not re.fullmatch(_READ_LATE, k)}


def _server() -> str:
    """Return the address of this process's server, which is started on first use."""
    if _started.get("in") != os.getpid():
        folder = tempfile.mkdtemp(prefix="preloaded-")
        address = os.path.join(folder, "socket")
        command = [sys.executable, str(_FOLDER / "server.py"), address]
        process = subprocess.Popen.__mro__[1](  # this class would ask the server
            command,
            env=_started["environment"],  # a RankGroup ends all processes that have its variables
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,  # as in most forked processes; Python's streams remember whether files can seek
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        assert process.stdout is not None
        while process.stdout.readline() not in (b"listening\n", b""):  # warnings of the import
            pass
        process.stdout.close()
        _started.update({"in": os.getpid(), "address": address, "process": process})
        atexit.register(_stop, os.getpid(), process, folder)
    return str(_started["address"])


def _stop(owner: int, process: subprocess.Popen[Any], folder: str) -> None:
    if os.getpid() == owner:
        process.kill()
        process.wait()
        Path(folder, "socket").unlink(missing_ok=True)
        os.rmdir(folder)
