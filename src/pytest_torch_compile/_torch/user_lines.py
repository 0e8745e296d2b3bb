"""Find the line of user code in a stack. This module does not import torch."""

from __future__ import annotations

import functools
import importlib.util
import re
import sys
import sysconfig
import types
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..observation import Location
from .object_text import message_of

_FRAME = re.compile(r'^\s*File "(?P<file>.+?)", line (?P<line>\d+)(?:, in (?P<function>.+))?$')
_INSTALLED_TORCH = re.compile("/(site|dist)-packages/(torch|triton)/")
_RESUME = re.compile(r"^torch_dynamo_resume_in_(?P<name>.+?)_at_(?P<line>\d+)$")
OWN_FOLDER = str(Path(__file__).resolve().parents[1])
_STDLIB = sysconfig.get_paths()["stdlib"]


def function_name(name: str) -> str:
    """Return the original name of a resume function, such as ``f`` for ``torch_dynamo_resume_in_f_at_3``. Any other
    name is returned unchanged.
    """
    match = _RESUME.match(name)
    return match["name"] if match else name


def resumed_at(name: str) -> int:
    """Return the line number of the graph break, parsed from the name of a resume function, or 0 for any other
    function.
    """
    match = _RESUME.match(name)
    return int(match["line"]) if match else 0


def parse_stack(text: str) -> list[Location]:
    """Parse the text of a Python traceback into locations, outermost first. If the traceback contains frames of this
    package, only the frames after the last frame of this package are included.
    """
    return [readable(frame) for frame in below_own(raw_frames(text))]


def raw_frames(text: str) -> list[Location]:
    """Return all frames of a traceback text. Dynamo's names of resume functions are kept unchanged."""
    frames: list[Location] = []
    lines = text.splitlines()
    for index, line in enumerate(lines):
        match = _FRAME.match(line)
        if match is None:
            continue
        source = lines[index + 1].strip() if index + 1 < len(lines) and not _FRAME.match(lines[index + 1]) else ""
        frames.append(Location(match["file"], int(match["line"]), (match["function"] or "").strip(), source))
    return frames


def readable(frame: Location) -> Location:
    """Return the frame with its original function name."""
    return replace(frame, function=function_name(frame.function))


def below_own(frames: list[Location]) -> list[Location]:
    """Return the frames after the last frame of this package, or all frames if none belongs to this package."""
    own = [index for index, frame in enumerate(frames) if frame.file.startswith(OWN_FOLDER)]
    return frames[own[-1] + 1 :] if own else frames


def user_location(frames: list[Location]) -> Location:
    """Return the location of the innermost user frame. If this frame called library code, ``library`` of the returned
    location is the innermost frame of the whole stack.

    If there is no user frame (for example, for a model from an installed library), return the innermost frame outside
    torch.
    """
    innermost = frames[-1]
    own = [frame for frame in frames if not is_library(frame.file)]
    own = own or [frame for frame in frames if not is_torch(frame.file)] or frames
    user = own[-1]
    library = None if user == innermost else innermost
    return Location(user.file, user.line, user.function, user.source, library)


def error_location(error: BaseException) -> Location | None:
    """Return the line of user code at which dynamo raised an exception, or None if the line is unknown."""
    frames = parse_stack(message_of(error))
    real = getattr(error, "real_stack", None)
    if not frames and real:
        frames = [Location(f.filename, f.lineno or 0, function_name(f.name), f.line or "") for f in real]
    return user_location(frames) if frames else None


def is_torch(file: str) -> bool:
    """Return whether a file belongs to torch or to Triton, torch's compiler for GPU kernels. Torch and Triton may be
    installed packages, or may be imported from a source folder.
    """
    path = file.replace("\\", "/")
    return _INSTALLED_TORCH.search(path) is not None or path.startswith(_torch_folders())


@functools.cache
def _torch_folders() -> tuple[str, ...]:
    """Return the folders from which torch and Triton are imported, each with a slash at the end."""
    folders = []
    for name in ("torch", "triton"):
        with suppress(ValueError):  # a module of this name that was not imported from a file
            spec = importlib.util.find_spec(name)
            if spec is not None and spec.origin:
                folders.append(spec.origin.replace("\\", "/").rpartition("/")[0] + "/")
    return tuple(folders)


def is_library(file: str) -> bool:
    """Return whether a file belongs to torch, to another installed package or to Python's standard library."""
    path = file.replace("\\", "/")
    installed = "/site-packages/" in path or "/dist-packages/" in path
    return installed or path.startswith((_STDLIB, "<frozen")) or is_torch(path)


def is_own(file: str, packages: frozenset[str] = frozenset()) -> bool:
    """Return whether code belongs to the user: it is not installed, or is in one of the installed ``packages`` that
    count as user code. The result is always False for torch and for this package.
    """
    path = file.replace("\\", "/")
    if not path or path.startswith(OWN_FOLDER) or is_torch(path):
        return False
    for marker in ("/site-packages/", "/dist-packages/"):
        if marker in path:
            return path.split(marker, 1)[1].split("/")[0].removesuffix(".py") in packages
    return not path.startswith((_STDLIB, "<frozen"))


def file_of_code(code: types.CodeType, namespace: dict[str, Any]) -> str:
    """Return the file that code belongs to. Code that was generated at run time, such as the ``__init__`` of a
    dataclass, belongs to the module in whose namespace it runs.
    """
    file = code.co_filename
    return str(namespace.get("__file__") or file) if file.startswith("<") else file


def is_guard(code: types.CodeType, namespace: dict[str, Any]) -> bool:
    """Return whether code is an expression in a guard, which dynamo evaluates with the local variables as ``L`` and the
    global variables as ``G``.
    """
    return code.co_filename == "<string>" and "G" in namespace and "__name__" not in namespace


def is_of_python(file: str) -> bool:
    """Return whether a file belongs to Python's standard library, or is code generated at run time."""
    path = file.replace("\\", "/")
    in_packages = "/site-packages/" in path or "/dist-packages/" in path
    return path.startswith("<") or (path.startswith(_STDLIB) and not in_packages)


def module_of(file: str) -> str:
    """Return the dotted module name of a file: the name under which the file was imported, or else a name derived from
    its folders.
    """
    for name, module in list(sys.modules.items()):
        if name != "__main__" and getattr(module, "__dict__", {}).get("__file__") == file:
            return name
    path = Path(file)
    folders = []
    while path.parent.name and (path.parent / "__init__.py").exists():
        path = path.parent
        folders.append(path.name)
    names = [*reversed(folders), Path(file).stem]
    return ".".join(name for name in names if name != "__init__")
