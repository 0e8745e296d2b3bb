"""Check the steady state: after the warm-up, nothing is compiled, no kernel is autotuned and no CUDA graph is
recorded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from .. import advice
from .._torch.late_compilations import LateCompilations
from ..findings import CompileUsageError, Finding
from ..observation import LateCompilation, Observation, is_late
from ..report.failure_text import count, numbered
from .guard_advice import for_guard


def require_warmup(warmup: int | None, calls: int) -> None:
    """Reject a warm-up that consists of all calls or of no calls.

    Raises:
        CompileUsageError: If ``warmup`` is less than 1 or not less than the number of calls; the message shows the
            number of calls.
    """
    if warmup is None:
        return
    # ``True`` is an int in Python, and would silently mean one call.
    if isinstance(warmup, bool) or not isinstance(warmup, int) or not 0 < warmup < calls:
        raise CompileUsageError(
            f"warmup={warmup!r} with {count(calls, 'call')}: warmup must be at least 1 and less than the number "
            "of calls"
        )


@contextmanager
def after_warm_up(warmup: int | None, number: int, late: list[LateCompilation], undecided: list[str]) -> Iterator[None]:
    """Append each compilation inside the ``with`` block to ``late`` if the block runs a call after the warm-up. The
    block runs call ``number``. ``undecided`` receives a line about each event that cannot be read.
    """
    if not is_late(number, warmup):
        yield
        return
    with LateCompilations(number, late, undecided):
        yield


def steady_findings(late: Sequence[LateCompilation], seen: Observation, warmup: int | None) -> list[Finding]:
    """Return a finding for each function that was compiled after the warm-up, and one finding for recorded CUDA graphs.

    ``warmup`` is None if the check does not require a steady state.
    """
    if warmup is None:
        return []
    groups: dict[tuple[str, str], list[LateCompilation]] = {}
    for event in late:
        groups.setdefault((event.what, event.frame), []).append(event)
    return [_late(events, seen) for events in groups.values()] + _recorded(seen, warmup)


def _late(events: Sequence[LateCompilation], seen: Observation) -> Finding:
    first, total = events[0], len(events)
    failed = {recompile.compile_id: recompile.guards[0] for recompile in seen.recompiles if recompile.guards}
    guards = [failed.get(event.compile_id) for event in events]
    hints = [for_guard(cause) for cause in dict.fromkeys(guard.cause for guard in guards if guard)]
    what = f"{first.what} {first.frame}".strip()
    lines = [_described(event, guard.text if guard else "") for event, guard in zip(events, guards, strict=True)]
    return Finding(
        "structure" if first.what == "autotuned" else "recompile",
        f"{what} {count(total, 'time')} after the warm-up, 0 allowed",
        first.caller or first.location,
        "\n".join(dict.fromkeys(lines)),
        "\n".join(hints) or advice.WARM_UP_ALL,
        calls=tuple(dict.fromkeys(event.call for event in events if event.call)),
        subject=first.frame,
        measured=total,
        limit=0,
    )


def _described(event: LateCompilation, guard: str) -> str:
    """Describe a late compilation: ``call 4: models.py:12 in forward, called from serve.py:30 in main: model(x):
    ...``.
    """
    parts = [f"call {event.call}"] if event.call else []
    parts += [event.location.shown() if event.location else event.frame or event.what]
    if event.caller:
        parts[-1] += f", called from {event.caller.shown()}: {event.caller.source}".rstrip(": ")
    return ": ".join([*parts, guard or "compiled for the first time"] if event.what == "compiled" else parts)


def _recorded(seen: Observation, warmup: int) -> list[Finding]:
    runs = [run for run in seen.cudagraph_runs if is_late(run.call, warmup)]
    total = sum(run.recorded + run.warmed_up for run in runs)
    if not total:
        return []
    calls = [run.call for run in runs if run.call and run.recorded + run.warmed_up]
    where = numbered("call", calls) if calls else "in this block"
    message = f"CUDA graphs were warmed up or recorded {count(total, 'time')} after the warm-up calls, 0 allowed"
    return [Finding("structure", message, None, where, advice.WARM_UP_TWICE, measured=total, limit=0)]
