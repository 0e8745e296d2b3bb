"""Detect machine problems that look like errors in the checked code.

The problems are a lack of memory, an unwritable cache, and a C or C++ compiler that is missing, killed or incomplete.
These problems are recognized by the error messages of torch (checked on 2.6, 2.8, 2.11, 2.13 and 2.15), g++, clang++,
and Triton (checked on 3.2 and 3.9).
"""

from __future__ import annotations

import errno
import os
import re
import tempfile
from collections.abc import Iterator

from .object_text import message_of, text_of_error

_NO_MEMORY = re.compile(
    r"(?:CUDA|HIP|XPU|MPS backend) out of memory|CUDA error: out of memory|can't allocate memory"
    r"|not enough memory: you tried to allocate|std::bad_alloc"
)
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# Messages from the C++ compiler or from a compile worker.
_TOO_LARGE = r"\[Errno 27\] File too large|: File too large$|File size limit exceeded"
_TOLD = re.compile(rf"No space left on device|Disk quota exceeded|Read-only file system|{_TOO_LARGE}", re.M)
_NO_COMPILER = ("InvalidCxxCompiler", "No working C++ compiler", "CppCompileError: ['g++'")
_NO_C_COMPILER = "Failed to find C compiler"  # from Triton
# C++ compiler messages that indicate a problem with the machine, each with advice.
_OF_COMPILER = {
    r"Killed signal terminated|virtual memory exhausted|out of memory allocating": (
        "The compiler ran out of memory: free some memory, or use fewer pytest-xdist workers"
    ),
    r"fatal error: '?Python\.h": "Install Python's headers (for example the package python3-dev or python3-devel)",
    r"fatal error: \S+(: No such file or directory| file not found)": "Install the missing file",
    r"cannot find -l[gi]?omp": "Install the compiler's OpenMP library (for example libgomp or libomp-dev)",
    r"cannot execute .cc1plus": "Install the compiler's C++ support (for example the package g++)",
    r"(unrecognized|unknown|invalid).* '?-std=": (
        "The compiler is too old for this torch version: install a newer compiler, or set CXX to its path"
    ),
}


def machine_fault(error: BaseException, *, compiling: bool) -> str:
    """If a machine problem caused the error, return a description of the problem and of a fix; otherwise, return an
    empty string.

    ``compiling`` is true if torch's compiler raised the error. If ``compiling`` is false, only a lack of memory is
    detected, because other errors may come from the checked code.
    """
    chain = list(_chain(error))
    for one in chain:
        is_known = isinstance(one, MemoryError) or type(one).__name__ == "OutOfMemoryError"
        if is_known or _NO_MEMORY.search(message_of(one)):
            return (
                f"out of memory ({_first_line(one)}). A check needs memory for the eager run, the compiled run and "
                "the float64 reference: use smaller inputs or a smaller model, or free memory that other tests still "
                "hold"
            )
    if compiling and (refused := next((one for one in chain if _is_of_cache(one)), None)):
        line = _first_line(refused)
        limited = re.search(_TOO_LARGE, line)
        advice = "Raise the file size limit (ulimit -f)" if limited else "Free space there"
        return (
            f"the compile cache {cache_folder()} cannot be written ({line}). {advice}, or choose another folder with "
            "--compile-cache or TORCHINDUCTOR_CACHE_DIR"
        )
    return next(filter(None, map(_compiler_fault, chain)), "") if compiling else ""


def _compiler_fault(error: BaseException) -> str:
    text = text_of_error(error)
    if any(sign in text for sign in _NO_COMPILER):
        return (
            "Inductor found no working C++ compiler: install a compiler (for example g++), set CXX to its path, or "
            f"use backend='aot_eager', which does not need a compiler ({_first_line(error)})"
        )
    if _NO_C_COMPILER in text:
        return (
            "Triton found no C compiler: install a compiler (for example gcc), or set CC to its path "
            f"({_first_line(error)})"
        )
    if type(error).__name__ == "CppCompileError":
        for pattern, what_to_do in _OF_COMPILER.items():
            if said := re.search(f"^.*(?:{pattern}).*$", message_of(error), re.M):
                return f"the C++ compiler on this machine failed ({said[0].strip()}). {what_to_do}"
    return ""


def cache_folder() -> str:
    """Return the folder of Inductor's compile cache. If ``TORCHINDUCTOR_CACHE_DIR`` is not set, return only the part of
    the default path before the user name.
    """
    named = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    return named or os.path.join(tempfile.gettempdir(), "torchinductor_")


def _is_of_cache(error: BaseException) -> bool:
    if _TOLD.search(message_of(error)) or (isinstance(error, OSError) and error.errno in _NO_SPACE):
        return True
    file, folder = str(getattr(error, "filename", None) or ""), cache_folder()
    return isinstance(error, OSError) and bool(file) and (file.startswith(folder) or folder.startswith(file))


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in message_of(error).splitlines() if line.strip()]
    told = next((line for line in lines if _TOLD.search(line)), "")
    return f"{type(error).__name__}: {told or (lines or ['no message'])[0]}"


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield the exception and its causes."""
    passed: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop(0)
        if isinstance(one, BaseException) and id(one) not in passed:
            passed.add(id(one))
            yield one
            waiting += [getattr(one, "inner_exception", None), one.__cause__, one.__context__]
