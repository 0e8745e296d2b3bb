"""Simulate the GPU for torch: its properties, device index, streams, memory sizes and random state.

This module replaces functions of ``torch.cuda`` and ``torch._C`` that query the driver. The callers of these functions
(dynamo's device interfaces, Inductor's hints, ``has_triton``) work unchanged.

This module uses the private torch names that ``put_card`` assigns in ``torch.cuda``, ``torch._C`` and
``torch._subclasses.fake_tensor``. These names were checked with torch 2.11, 2.13 and 2.15.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch
import torch._subclasses.fake_tensor

if TYPE_CHECKING:
    from ...plan.cards import Card


def put_card(card: Card) -> None:
    """Make torch in this process behave as if the GPU were installed. The change cannot be undone."""
    properties = _properties(card)
    cuda: Any = torch.cuda
    cuda._initialized = True  # so that nothing initializes CUDA
    # On some versions, importing torch's compiler counts the devices, and torch then refuses to use CUDA in a forked
    # process. A plan does not use CUDA.
    cuda._is_in_bad_fork = lambda: False
    cuda.default_generators = (torch.Generator("cpu"),)
    cuda.device_count = lambda: 1
    cuda._get_device_properties = lambda device=0: properties
    # Two separate functions, because dynamo registers a handler for each of them.
    cuda._exchange_device = lambda index: 0
    cuda._maybe_exchange_device = lambda index: 0
    cuda.synchronize = lambda device=None: None
    cuda.current_stream = lambda device=None: None
    cuda.is_current_stream_capturing = lambda: False
    cuda.memory_allocated = lambda device=None: 0
    cuda.mem_get_info = lambda device=None: (card.memory, card.memory)
    core: Any = torch._C
    core._cuda_getDeviceCount = lambda: 1
    core._cuda_getDevice = lambda: 0
    core._cuda_setDevice = lambda index: None
    core._cuda_getCurrentRawStream = lambda index: 0
    core._cuda_isCurrentStreamCapturing = lambda: False
    fake: Any = torch._subclasses.fake_tensor
    # With this torch option, device guards in C++ do nothing, and ``torch.tensor`` first creates its tensor on the CPU.
    fake.FakeTensorMode.avoid_device_init = property(lambda self: True)
    # Otherwise, torch creates a real tensor on the device before the first fake tensor.
    fake.init_gpu_context = lambda *device: None


def _properties(card: Card) -> SimpleNamespace:
    """Return the properties that ``torch.cuda.get_device_properties`` must return for the GPU."""
    major, minor = card.capability
    return SimpleNamespace(
        name=card.name,
        major=major,
        minor=minor,
        multi_processor_count=card.processors,
        total_memory=card.memory,
        L2_cache_size=card.l2_cache,
        shared_memory_per_block=48 * 1024,
        shared_memory_per_block_optin=card.shared_memory_per_block,
        shared_memory_per_multiprocessor=card.shared_memory_per_processor,
        max_threads_per_multi_processor=card.threads_per_processor,
        max_threads_per_block=1024,
        regs_per_multiprocessor=65536,
        warp_size=32,
        gcnArchName="",
        is_integrated=0,
        is_multi_gpu_board=0,
    )
