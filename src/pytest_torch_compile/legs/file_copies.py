"""Keep copies of large tensors in a temporary file. The operating system can remove the file's contents from memory
while they are not needed.
"""

from __future__ import annotations

import ctypes
import mmap
import tempfile
from dataclasses import dataclass
from typing import IO

import torch


@dataclass
class FileCopy:
    """A copy of a tensor's bytes, in a temporary file that other copies may share."""

    file: IO[bytes]
    start: int
    size: int
    dtype: torch.dtype

    def loaded(self) -> torch.Tensor:
        """Return the bytes. They are in memory only while the result is in use."""
        view = mmap.mmap(self.file.fileno(), self.size, access=mmap.ACCESS_COPY, offset=self.start)
        return torch.frombuffer(view, dtype=self.dtype)


class FileCopies:
    """A temporary file for copies of tensors. The file is deleted when the last copy is."""

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None

    def saved(self, content: torch.Tensor) -> FileCopy | torch.Tensor:
        """Write a contiguous CPU tensor to the file. If the file cannot be written, for example because the disk is
        full, return the tensor itself.
        """
        size = content.nbytes
        try:
            self._file = self._file or tempfile.TemporaryFile(prefix="pytest-torch-compile-")  # noqa: SIM115
            end = self._file.seek(0, 2)
            start = self._file.seek(-(-end // mmap.ALLOCATIONGRANULARITY) * mmap.ALLOCATIONGRANULARITY)
            self._file.write((ctypes.c_char * size).from_address(content.data_ptr()))
            self._file.flush()
        except OSError:
            return content
        return FileCopy(self._file, start, size, content.dtype)
