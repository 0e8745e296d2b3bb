"""Parse the code that Inductor generates: find a graph's kernel launches and library calls, and the line of user code
behind each launch or call.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass

from .._torch.planning.ptxas import Build
from .._torch.user_lines import parse_stack, user_location
from ..observation import Location
from .records import LibraryCall, PlannedKernel

_LAUNCH = re.compile(r"^\s+(?P<name>\w+)\.run\(")
_LIBRARY = re.compile(r"^\s+(?:[\w, ]+ = )?(?P<name>(?:extern_kernels|torch\.ops|aten|inductor_ops)\.[\w.]+)\(")
_OPS = re.compile(r"Original ATen: \[(?P<ops>[^\]]*)\]")

_FLOAT64 = re.compile(r"\bfp64\b|\bfloat64\b")


@dataclass(frozen=True)
class Kernel:
    """The properties of a kernel that are the same in all of its launches."""

    source: str
    blocks: tuple[Mapping[str, int], ...]
    build: Build | None = None


def launches(
    source: str, stacks: Mapping[int, str], known: Mapping[str, Kernel]
) -> tuple[tuple[PlannedKernel, ...], tuple[LibraryCall, ...]]:
    """Return a graph's kernel launches and its library calls, each in the order in which they run.

    ``stacks`` maps line numbers of the source to stacks of user code; each stack applies from its line up to the next
    line in ``stacks``.
    """
    kernels: list[PlannedKernel] = []
    libraries: list[LibraryCall] = []
    ops: tuple[str, ...] = ()
    for number, line in enumerate(source.splitlines(), 1):
        if comment := _OPS.search(line):
            ops = tuple(op.strip() for op in comment["ops"].split(",") if op.strip())
        elif found := _LAUNCH.match(line):
            kernel = known.get(found["name"], Kernel("", ()))
            float64 = _FLOAT64.search(kernel.source) is not None
            build = kernel.build
            usage = (build.registers, build.spills, build.shared_memory) if build and not build.error else ()
            place = _location(stacks, number)
            kernels.append(PlannedKernel(found["name"], ops, place, kernel.blocks, float64, *usage))
        elif found := _LIBRARY.match(line):
            libraries.append(LibraryCall(found["name"], ops, _location(stacks, number)))
    return tuple(kernels), tuple(libraries)


def lines_of_ops(stacks: Mapping[str, str]) -> dict[str, Location]:
    """Return the line of user code that calls each op. Ops without a known line are omitted."""
    frames = {op: parse_stack(stack) for op, stack in stacks.items()}
    return {op: user_location(own) for op, own in frames.items() if own}


def _location(stacks: Mapping[int, str], line: int) -> Location | None:
    lines = sorted(stacks)
    position = bisect_right(lines, line)
    frames = parse_stack(stacks[lines[position - 1]]) if position else []
    return user_location(frames) if frames else None
