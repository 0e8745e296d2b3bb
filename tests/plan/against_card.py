"""Compare plans with what the card of this machine generates and launches, from the repository's root.

    python -m tests.plan.against_card [--jobs N] [--seconds S] [CASE | PREFIX/ ...]

Half of the processes compile the cases on the card, the other half plan them with the card hidden. Without names, all
cases are compared, in random order. After S seconds, no further case is started; the final line also counts the cases
that were not compared. The exit status is 1 if any case differs or raises.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, wait
from dataclasses import dataclass

import torch

from pytest_torch_compile import CompileCheckFailed, Plan, call, check_plan
from pytest_torch_compile._torch import planning
from pytest_torch_compile.plan.cards import CARDS
from tests.plan.code import normalised
from tests.plan.every_case import built, chosen
from tests.plan.record import generated


@dataclass(frozen=True)
class Side:
    """What the plan or the card says of a case: the code of each graph, the launches of the last call, and the bytes of
    its peak, if known. A plan ends early where the host reads a value.
    """

    code: list[str]
    launches: int
    peak: int | None
    ended_early: bool = False


def on_card(name: str) -> Side:
    """Compile a case on the card, and measure its last call."""
    code, figures = generated(name)
    peak = figures.get("requested_memory", figures.get("peak_memory"))
    return Side([normalised(source) for source in code], figures["kernels"], peak)


def in_plan(name: str, gpu: str) -> Side:
    """Plan a case."""
    case, ended_early = built(name), False
    try:
        plan = check_plan(
            case.model,
            calls=[call(**arguments) for arguments in case.calls],
            gpu=gpu,
            train=case.train or False,
            optimizer=case.optimizer,
            dynamic=case.dynamic,
            mode=case.mode,
            max_graph_breaks=case.breaks,
            max_recompiles=len(case.later),
        )
    except CompileCheckFailed as failed:
        if not (case.reads_a_value and isinstance(failed.report, Plan)):
            raise
        plan, ended_early = failed.report, True
    return Side([normalised(source) for source in plan.code], plan.launches[-1], plan.peak_memory, ended_early)


def compared(plan: Side, card: Side) -> tuple[bool, str]:
    """Whether the plan is right, and a line about it. One planned library call may be several kernels on the card."""
    equal = sum(one == other for one, other in zip(plan.code, card.code, strict=False))
    planned = len(plan.code) if plan.ended_early else len(card.code)
    right = equal == len(plan.code) == planned > 0 and plan.launches <= card.launches
    memory = "" if card.peak is None or plan.peak is None else f", peak {plan.peak:,} / {card.peak:,} bytes"
    return right, f"{equal} of {len(card.code)} graphs equal, launches {plan.launches} / {card.launches}{memory}"


def compare_all(names: list[str], gpu: str, jobs: int, seconds: float) -> Iterator[tuple[str, str, str]]:
    """The name, outcome and line of each case. Half of the processes plan."""
    end, context = time.monotonic() + seconds, multiprocessing.get_context("spawn")
    half = max(1, jobs // 2)
    with ProcessPoolExecutor(half, context) as cards, ProcessPoolExecutor(half, context) as plans:
        running = {name: (plans.submit(in_plan, name, gpu), cards.submit(on_card, name)) for name in names}
        for name, (plan, card) in running.items():
            unfinished = wait((plan, card), max(0.0, end - time.monotonic())).not_done
            if unfinished:
                for one in unfinished:
                    one.cancel()
                yield name, "not compared", ""
            elif error := plan.exception() or card.exception():
                yield name, "failed", f"{type(error).__name__}: {str(error)[:300]}"
            else:
                right, line = compared(plan.result(), card.result())
                yield name, "equal" if right else "different", line


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2, help="processes at a time")
    parser.add_argument("--seconds", type=float, default=3600.0)
    given = parser.parse_intermixed_args()
    names, start = chosen(given.names), time.monotonic()
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    gpu = next((name for name, card in CARDS.items() if card.name == device), None)
    if gpu is None or planning.missing():
        print(f"plan against card: not compared, because {planning.missing() or f'no known card was found ({device})'}")
        return 0
    random.shuffle(names)  # runs that end early compare different cases each time
    counts = dict.fromkeys(("equal", "different", "failed", "not compared"), 0)
    for name, outcome, line in compare_all(names, gpu, given.jobs, given.seconds):
        counts[outcome] += 1
        if line:
            print(f"{time.monotonic() - start:.0f} s, {name}: {outcome}: {line}", flush=True)
    print(f"plan against card: {', '.join(f'{n} {outcome}' for outcome, n in counts.items())} | {device}")
    return int(bool(counts["different"] or counts["failed"]))


if __name__ == "__main__":
    raise SystemExit(main())
