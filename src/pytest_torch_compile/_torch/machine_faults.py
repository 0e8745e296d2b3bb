"""Faults of the machine that look like those of the code under check: no memory left, a cache that cannot be written.

Texts of torch, read on torch 2.6, 2.8, 2.11, 2.13 and 2.15.
"""

from __future__ import annotations

import errno
import os
import re
import tempfile
from collections.abc import Iterator

_NO_MEMORY = re.compile(
    r"(?:CUDA|HIP|XPU|MPS backend) out of memory|CUDA error: out of memory|can't allocate memory"
    r"|not enough memory: you tried to allocate|std::bad_alloc"
)
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
# Of the C++ compiler, or of a process that compiles for this one.
_TOLD = re.compile(r"No space left on device|Disk quota exceeded|Read-only file system")


def machine_fault(error: BaseException, *, compiling: bool) -> str:
    """What is wrong with the machine, and what to do, where that made the error; else nothing.

    ``compiling`` says that torch's compiler raised it: the code under check has files of its own.
    """
    chain = list(_chain(error))
    for one in chain:
        if isinstance(one, MemoryError) or type(one).__name__ == "OutOfMemoryError" or _NO_MEMORY.search(str(one)):
            return (
                f"out of memory ({_first_line(one)}). A check holds the target several times, for eager, compiled and "
                "the float64 reference: give smaller inputs or a smaller model, or free memory that other tests keep"
            )
    if compiling and (refused := next((one for one in chain if _is_of_cache(one)), None)):
        return (
            f"the compile cache {cache_folder()} cannot be written ({_first_line(refused)}). Free space there, or name "
            "another folder with --compile-cache or TORCHINDUCTOR_CACHE_DIR"
        )
    return ""


def cache_folder() -> str:
    """Where Inductor keeps what it compiles."""
    named = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    return named or os.path.join(tempfile.gettempdir(), "torchinductor_")


def _is_of_cache(error: BaseException) -> bool:
    if _TOLD.search(str(error)) or (isinstance(error, OSError) and error.errno in _NO_SPACE):
        return True
    file, folder = str(getattr(error, "filename", None) or ""), cache_folder()
    return isinstance(error, OSError) and bool(file) and (file.startswith(folder) or folder.startswith(file))


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = next((line for line in lines if _TOLD.search(line)), "")
    return f"{type(error).__name__}: {told or (lines or ['no message'])[0]}"


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The exception and those that it was raised from."""
    passed: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop(0)
        if isinstance(one, BaseException) and id(one) not in passed:
            passed.add(id(one))
            yield one
            waiting += [getattr(one, "inner_exception", None), one.__cause__, one.__context__]
