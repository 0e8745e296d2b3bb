"""Compile a generated kernel for the GPU, with Triton's compiler and the ``ptxas`` in Triton's wheel.

With a driver, the number of registers that a kernel uses is known once the driver has loaded the kernel. Without a
driver, ``ptxas`` reports this number.

This module uses these private torch names, checked with torch 2.11, 2.13 and 2.15:
``CachingAutotuner._precompile_config`` and ``configs``, ``PyCodeCache.load``; in Triton, ``triton.compile`` and the
folder ``backends/nvidia/bin``.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any


@dataclass(frozen=True)
class Build:
    """The result of compiling a kernel: registers per thread, bytes spilled per thread, and bytes of shared memory; or
    an ``error``.
    """

    registers: int = 0
    spills: int = 0
    shared_memory: int = 0
    error: str = ""


def built(name: str, source: str) -> Build:
    """Compile all of a kernel's candidate configurations, and return the result of the candidate that spills least.
    On a GPU, Inductor is most likely to choose this candidate.
    """
    from torch._inductor.codecache import PyCodeCache

    try:
        tuner: Any = getattr(PyCodeCache.load(source), name)
        builds = [_build(tuner, config) for config in tuner.configs]
    except Exception as error:
        return Build(error=f"{type(error).__name__}: {error}")
    return min(builds, key=lambda build: (bool(build.error), build.spills, build.shared_memory))


def _build(tuner: Any, config: Any) -> Build:
    import triton

    made: list[Any] = []
    compile_: Callable[..., Any] = triton.compile

    def noted(*args: Any, **kwargs: Any) -> Any:
        made.append(compile_(*args, **kwargs))
        return made[-1]

    triton.compile = noted
    try:
        tuner._precompile_config(config)
    except Exception as error:
        if not made:  # only the steps after compilation need the GPU
            return Build(error=f"{type(error).__name__}: {error}")
    finally:
        triton.compile = compile_
    registers, spills = _usage(made[-1].asm["ptx"])
    return Build(registers, spills, int(made[-1].metadata.shared))


def _usage(ptx: str) -> tuple[int, int]:
    """Return the numbers of registers and of spilled bytes, both per thread."""
    import triton.backends.nvidia

    target = re.search(r"\.target\s+(\w+)", ptx)
    architecture = target[1] if target else "sm_90a"
    folder = Path(next(iter(triton.backends.nvidia.__path__))) / "bin"
    text = ""
    with TemporaryDirectory(prefix="torch-compile-ptx-") as name:
        file = Path(name) / "kernel.ptx"
        file.write_text(ptx, encoding="utf-8")
        # Triton's wheel contains two versions of ptxas, and the newer version can read all code.
        for tool in (tool for tool in (folder / "ptxas-blackwell", folder / "ptxas") if tool.exists()):
            command = [str(tool), "-v", f"--gpu-name={architecture}", str(file), "-o", str(Path(name) / "cubin")]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            text = done.stderr + done.stdout
            registers, spills = re.search(r"Used (\d+) registers", text), re.search(r"(\d+) bytes spill stores", text)
            if registers is not None:
                return int(registers[1]), int(spills[1]) if spills else 0
    raise RuntimeError(f"ptxas: {text.strip()[-300:]}")
