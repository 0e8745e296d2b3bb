"""What this machine can check, and what it cannot and why."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

OLDEST, NEWEST = (2, 6), (2, 15)


@dataclass(frozen=True)
class Line:
    """One thing that was looked at; ``needed`` means that no check works without it."""

    status: Literal["yes", "no", "note"]
    subject: str
    text: str
    needed: bool = False

    def __str__(self) -> str:
        return f"{self.status:4}  {self.subject:18}  {self.text}"


def examine() -> list[Line]:
    """Look at everything, in the order in which one thing needs the other."""
    looks: list[Callable[[], Line]] = [_python, _torch, _compiler, _cuda, _triton, _benchmark, _jinja, _xdist, _cache]
    return [look() for look in looks]


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""


def _python() -> Line:
    found = ".".join(map(str, sys.version_info[:3]))
    return Line("yes" if sys.version_info >= (3, 10) else "no", "Python", found, needed=True)


def _torch() -> Line:
    found = _version("torch")
    if not found:
        return Line("no", "torch", "is not installed: pip install torch", needed=True)
    minor = tuple(int(part) for part in found.split("+")[0].split(".")[:2])
    if minor < OLDEST:
        return Line("no", "torch", f"{found} is older than 2.6, the first one supported", needed=True)
    if minor > NEWEST:
        return Line(
            "note", "torch", f"{found} is newer than 2.15, the last one tested; checks say what they cannot see"
        )
    return Line("yes", "torch", found)


def _compiler() -> Line:
    chosen = os.environ.get("CXX")
    found = (
        shutil.which(chosen) if chosen else next(filter(None, map(shutil.which, ("g++", "clang++", "c++", "cl"))), None)
    )
    if found:
        return Line("yes", "C++ compiler", found)
    why = f"CXX={chosen} is not there" if chosen else "no g++ or clang++"
    return Line("no", "C++ compiler", f"{why}: backend inductor cannot compile for the CPU; eager and aot_eager can")


def _cuda() -> Line:
    if not _version("torch"):
        return Line("no", "CUDA", "unknown without torch")
    import torch

    if torch.cuda.is_available():
        names = ", ".join(torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count()))
        return Line("yes", "CUDA", f"{torch.version.cuda}: {names}")
    why = "this torch is built without CUDA" if torch.version.cuda is None else "torch sees no device or no driver"
    return Line("no", "CUDA", f"{why}: device time, CUDA graphs and GPU kernels cannot be checked")


def _triton() -> Line:
    found = _version("triton")
    if found:
        return Line("yes", "Triton", found)
    return Line("no", "Triton", "is not installed: backend inductor cannot compile for a GPU")


def _benchmark() -> Line:
    found = _version("pytest-benchmark")
    missing = "is not installed, so compile_benchmark is not there: pip install 'pytest-torch-compile[speed]'"
    return Line("yes" if found else "no", "pytest-benchmark", found or missing)


def _jinja() -> Line:
    found = _version("jinja2")
    missing = "is not installed, so --compile-report writes no page: pip install 'pytest-torch-compile[report]'"
    return Line("yes" if found else "no", "Jinja2", found or missing)


def _xdist() -> Line:
    found = _version("pytest-xdist")
    return Line("yes" if found else "note", "pytest-xdist", found or "is not installed; tests run one after the other")


def _cache() -> Line:
    chosen = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    folder = Path(chosen) if chosen else Path(tempfile.gettempdir())
    place = next(parent for parent in (folder, *folder.parents) if parent.exists())
    free = shutil.disk_usage(place).free / 2**30
    if not os.access(place, os.W_OK):
        return Line("no", "compile cache", f"{folder} cannot be written")
    return Line("yes" if free > 1 else "note", "compile cache", f"{folder}, {free:.1f} GiB free")
