"""Read the code that Inductor generates: which kernels and library calls a graph makes, and for which line of the user."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping

from .._torch.user_lines import parse_stack, user_location
from ..observation import Location
from .records import LibraryCall, PlannedKernel

_LAUNCH = re.compile(r"^\s+(?P<name>\w+)\.run\(")
_LIBRARY = re.compile(r"^\s+(?:[\w, ]+ = )?(?P<name>(?:extern_kernels|torch\.ops|aten|inductor_ops)\.[\w.]+)\(")
_OPS = re.compile(r"Original ATen: \[(?P<ops>[^\]]*)\]")

Blocks = Mapping[str, tuple[Mapping[str, int], ...]]


def launches(
    source: str, stacks: Mapping[int, str], blocks: Blocks
) -> tuple[tuple[PlannedKernel, ...], tuple[LibraryCall, ...]]:
    """The kernels and library calls of a graph, in the order in which it makes them.

    ``stacks`` has the stack of the user's code for the lines of the source from which on it applies, ``blocks`` the
    block sizes by kernel.
    """
    kernels: list[PlannedKernel] = []
    libraries: list[LibraryCall] = []
    ops: tuple[str, ...] = ()
    for number, line in enumerate(source.splitlines(), 1):
        if comment := _OPS.search(line):
            ops = tuple(op.strip() for op in comment["ops"].split(",") if op.strip())
        elif found := _LAUNCH.match(line):
            name = found["name"]
            kernels.append(PlannedKernel(name, ops, _location(stacks, number), blocks.get(name, ())))
        elif found := _LIBRARY.match(line):
            libraries.append(LibraryCall(found["name"], ops, _location(stacks, number)))
    return tuple(kernels), tuple(libraries)


def _location(stacks: Mapping[int, str], line: int) -> Location | None:
    lines = sorted(stacks)
    position = bisect_right(lines, line)
    frames = parse_stack(stacks[lines[position - 1]]) if position else []
    return user_location(frames) if frames else None
