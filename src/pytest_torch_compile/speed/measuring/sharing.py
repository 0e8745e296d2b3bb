"""Compile while other processes measure on the same GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

from ..._torch.compiling_on_device import reporting_use, timing_in
from . import cores, turns


@contextmanager
def sharing_the_device(uuid: str) -> Iterator[None]:
    """Inside the ``with`` block, a compilation shares the device and the cores with other processes.

    Choices that the compiler makes by timing are timed in a turn. While the compilation needs only the CPU, processes
    that measure do not pause this process, if they have cores of their own.
    """
    with ExitStack() as stack:
        if uuid.startswith("GPU-"):
            stack.enter_context(timing_in(partial(turns.choosing, uuid)))
        if turns.can_be_paused(uuid) and cores.are_free():
            stack.enter_context(reporting_use(partial(turns.stop_using, uuid), partial(turns.use_again, uuid)))
        yield
