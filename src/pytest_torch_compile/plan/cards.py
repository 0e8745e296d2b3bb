"""The GPUs that ``check_plan`` accepts by name, and their properties."""

from __future__ import annotations

from dataclasses import dataclass

from ..findings import CompileUsageError

KIB, MIB, GIB = 2**10, 2**20, 2**30


@dataclass(frozen=True)
class Card:
    """The properties of a CUDA GPU. While a plan is created, torch reads these values instead of the properties of a
    real GPU. ``bandwidth`` and ``tflops`` do not affect the plan.

    Args:
        name: The name that CUDA reports.
        capability: The compute capability.
        processors: The number of streaming multiprocessors (SMs).
        shared_memory_per_block: The maximum shared memory per block in bytes, for kernels that opt in to more than 48
            KiB.
        shared_memory_per_processor: The shared memory per SM in bytes.
        memory: The size of the GPU's memory in bytes.
        l2_cache: The size of the L2 cache in bytes.
        bandwidth: The memory bandwidth in bytes per second.
        tflops: Pairs of a dtype and its peak rate of dense computation in TFLOPS. The rate for ``float32`` assumes that
            TF32 is turned off.
        threads_per_processor: The maximum number of resident threads per SM.
    """

    name: str
    capability: tuple[int, int]
    processors: int
    shared_memory_per_block: int
    shared_memory_per_processor: int
    memory: int
    l2_cache: int
    bandwidth: float
    tflops: tuple[tuple[str, float], ...] = ()
    threads_per_processor: int = 2048


def _rates(half: float, tf32: float, float32: float) -> tuple[tuple[str, float], ...]:
    return (("bfloat16", half), ("float16", half), ("tf32", tf32), ("float32", float32))


# Each capability's shared memory and threads are from the CUDA C++ Programming Guide, table "Technical Specifications
# per Compute Capability" (the limit for a block is 1 KiB less than the SM's shared memory). The other figures are from
# the documents in the comment above each GPU; not every figure has been checked yet. Memory is the nominal size; CUDA
# reports slightly less.
CARDS: dict[str, Card] = {
    # NVIDIA A100 Tensor Core GPU datasheet (SXM, 80 GB), and the architecture whitepaper: 108 SMs, 40 MB L2.
    "A100": Card(
        "NVIDIA A100-SXM4-80GB", (8, 0), 108, 163 * KIB, 164 * KIB, 80 * GIB, 40 * MIB, 2.039e12, _rates(312, 156, 19.5)
    ),
    # NVIDIA A10 datasheet, and the GA102 whitepaper: 72 SMs, 6 MB L2.
    "A10": Card("NVIDIA A10", (8, 6), 72, 99 * KIB, 100 * KIB, 24 * GIB, 6 * MIB, 600e9, _rates(125, 62.5, 31.2), 1536),
    # NVIDIA H100 datasheet (SXM; half of its rates with sparsity), and the Hopper whitepaper: 132 SMs, 50 MB L2.
    "H100": Card(
        "NVIDIA H100 80GB HBM3", (9, 0), 132, 227 * KIB, 228 * KIB, 80 * GIB, 50 * MIB, 3.35e12, _rates(989, 494, 67)
    ),
    # NVIDIA H200 datasheet; the chip is the same as in the H100.
    "H200": Card("NVIDIA H200", (9, 0), 132, 227 * KIB, 228 * KIB, 141 * GIB, 50 * MIB, 4.8e12, _rates(989, 494, 67)),
    # NVIDIA L4 datasheet (half of its rates with sparsity), and the Ada whitepaper (AD104): 58 SMs, 48 MB L2.
    "L4": Card("NVIDIA L4", (8, 9), 58, 99 * KIB, 100 * KIB, 24 * GIB, 48 * MIB, 300e9, _rates(121, 60, 30.3), 1536),
    # NVIDIA L40S datasheet, and the Ada whitepaper (AD102): 142 SMs, 96 MB L2.
    "L40S": Card(
        "NVIDIA L40S", (8, 9), 142, 99 * KIB, 100 * KIB, 48 * GIB, 96 * MIB, 864e9, _rates(362, 183, 91.6), 1536
    ),
    # NVIDIA Ada GPU architecture whitepaper, appendix A: GeForce RTX 4090 (float32 accumulation).
    "RTX 4090": Card(
        "NVIDIA GeForce RTX 4090",
        *((8, 9), 128, 99 * KIB, 100 * KIB, 24 * GIB, 72 * MIB, 1.008e12),
        _rates(165.2, 82.6, 82.6),
        1536,
    ),
    # NVIDIA DGX B200 datasheet (one eighth of the system's dense rates and bandwidth); 148 SMs and 126 MB L2 are the
    # values that CUDA reports.
    "B200": Card(
        "NVIDIA B200", (10, 0), 148, 227 * KIB, 228 * KIB, 180 * GIB, 126 * MIB, 8.0e12, _rates(2250, 1125, 75)
    ),
}


def as_card(gpu: str | Card) -> Card:
    """Return the GPU with this name in ``CARDS`` (ignoring case and spaces), or ``gpu`` itself if it is a ``Card``.

    Raises:
        CompileUsageError: If the name is unknown.
    """
    if isinstance(gpu, Card):
        return gpu
    name = known_name(gpu)
    if name is None:
        raise CompileUsageError(
            f"gpu={gpu!r} is unknown; choose one of: {', '.join(CARDS)}, or describe the GPU with gpu=Card(...)"
        )
    return CARDS[name]


def known_name(gpu: str) -> str | None:
    """Return the name in ``CARDS`` that equals ``gpu`` (ignoring case and spaces), or None."""
    by_name = {name.replace(" ", "").lower(): name for name in CARDS}
    return by_name.get(str(gpu).replace(" ", "").lower())
