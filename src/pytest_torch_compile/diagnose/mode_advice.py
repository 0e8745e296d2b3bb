"""Find fixes for excessive memory, too many kernels, skipped CUDA graphs and host synchronization, by trying other
modes.
"""

from __future__ import annotations

from .subject import Subject

KINDS = {"memory", "structure", "cudagraph-skip", "host-sync"}
# Ordered by compile time, shortest first.
MODES = ("default", "reduce-overhead", "max-autotune-no-cudagraphs")


def mode_advice(subject: Subject) -> list[str]:
    """Return a line for each mode in which the check has no findings."""
    compiling = subject.compiling
    if not subject.kinds & KINDS or not compiling.has_backend("inductor") or compiling.options or compiling.wrapper:
        return []
    lines = []
    for mode in MODES:
        if mode == (compiling.mode or "default"):
            continue
        report = subject.again(mode=mode)
        if report is not None and not report.findings:
            lines.append(f"tried: mode={mode!r}: the check passes")
    return lines
