"""Report which checks can run on this machine, and why others cannot."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from ..report.safe_text import terminal

OLDEST, NEWEST = (2, 6), (2, 15)


@dataclass(frozen=True)
class Line:
    """One inspected component; ``needed`` means that no check works without this component."""

    status: Literal["yes", "no", "note"]
    subject: str
    text: str
    needed: bool = False

    def __str__(self) -> str:
        return f"{self.status:4}  {self.subject:18}  {self.text}"


def run(options: argparse.Namespace) -> int:
    """Print the inspected components. Return 1 if something that every check requires is missing, and 0 otherwise."""
    lines = examine()
    print(*(terminal(str(line)) for line in lines), sep="\n")
    return int(any(line.status == "no" and line.needed for line in lines))


def examine() -> list[Line]:
    """Inspect all components, in the order of their dependencies."""
    python, triton = ".".join(map(str, sys.version_info[:3])), _version("triton")
    benchmark, jinja, xdist = (_version(name) for name in ("pytest-benchmark", "jinja2", "pytest-xdist"))
    no_triton = "is not installed: backend inductor cannot compile for a GPU"
    no_benchmark = "is not installed, so compile_benchmark is not available: pip install 'pytest-torch-compile[speed]'"
    no_jinja = (
        "is not installed, so --compile-report does not write the HTML page: pip install 'pytest-torch-compile[report]'"
    )
    return [
        Line("yes" if sys.version_info >= (3, 10) else "no", "Python", python, needed=True),
        _torch(),
        _compiler(),
        _accelerator(),
        Line("yes" if triton else "no", "Triton", triton or no_triton),
        Line("yes" if benchmark else "no", "pytest-benchmark", benchmark or no_benchmark),
        Line("yes" if jinja else "no", "Jinja2", jinja or no_jinja),
        Line("yes" if xdist else "note", "pytest-xdist", xdist or "is not installed, so tests run sequentially"),
        _cache(),
    ]


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""


def _torch() -> Line:
    version = _version("torch")
    if not version:
        return Line("no", "torch", "is not installed: pip install torch", needed=True)
    minor = tuple(int(part) for part in version.split("+")[0].split(".")[:2])
    if minor < OLDEST:
        return Line("no", "torch", f"{version} is older than 2.6, the oldest supported version", needed=True)
    if minor > NEWEST:
        newer = (
            f"{version} is newer than 2.15, the latest tested version; information that this version does not "
            "provide is reported as not observable"
        )
        return Line("note", "torch", newer)
    return Line("yes", "torch", version)


def _compiler() -> Line:
    chosen = os.environ.get("CXX")
    paths = map(shutil.which, [chosen] if chosen else ["g++", "clang++", "c++", "cl"])
    if path := next(filter(None, paths), None):
        return Line("yes", "C++ compiler", path)
    why = f"CXX={chosen} does not exist" if chosen else "no g++ or clang++ was found"
    return Line(
        "no",
        "C++ compiler",
        (f"{why}: backend inductor cannot compile for the CPU; backends eager and aot_eager are available"),
    )


def _accelerator() -> Line:
    """Return the line about the accelerator. For ROCm and XPU, the line states which features are untested or not
    supported.
    """
    if not _version("torch"):
        return Line("no", "CUDA", "unknown, because torch is not installed")
    import torch

    from .._torch.accelerator import accelerator, kind_of

    module = accelerator()
    if module is None:
        why = (
            "this build of torch does not support CUDA"
            if torch.version.cuda is None
            else "torch found no device or no driver"
        )
        return Line("no", "CUDA", f"{why}: device time, CUDA graphs and GPU kernels cannot be checked")
    kind = kind_of(module)
    names = ", ".join(module.get_device_name(number) for number in range(module.device_count()))
    if kind == "cuda" and torch.version.hip:
        return Line("note", "ROCm", f"{torch.version.hip}: {names}; checks use CUDA code, which is untested on ROCm")
    if kind == "cuda":
        return Line("yes", "CUDA", f"{torch.version.cuda}: {names}")
    untested = (
        f"{names}; checks use torch.accelerator, which is untested on this device; not "
        "supported: device time, kernels, CUDA graphs, peak memory, and communication through the device's backend"
    )
    return Line("note", kind.upper(), untested)


def _cache() -> Line:
    folder = Path(os.environ.get("TORCHINDUCTOR_CACHE_DIR") or tempfile.gettempdir())
    place = next(parent for parent in (folder, *folder.parents) if parent.exists())
    free = shutil.disk_usage(place).free / 2**30
    if not os.access(place, os.W_OK):
        return Line("no", "compile cache", f"{folder} is not writable")
    return Line("yes" if free > 1 else "note", "compile cache", f"{folder}, {free:.1f} GiB free")
