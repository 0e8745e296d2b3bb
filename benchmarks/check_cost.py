"""Measure the cost of `check_compile` relative to a handwritten compilation, eager call and comparison.

Each measurement is a fresh process with empty compile caches. The two variants alternate. A round's ratio is the time
of the check divided by the time of the handwritten test. Exits with 1 if the median ratio of the wall times exceeds the
limit. The processor time of the process and its children is also shown, for machines that are busy with other work.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch

LIMIT = 1.25
Case = tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]


def resnet18() -> Case:
    from torchvision.models import resnet18

    return resnet18().eval(), (torch.randn(2, 3, 64, 64),), {}


def small_bert() -> Case:
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=512, hidden_size=128, num_hidden_layers=4, num_attention_heads=4, intermediate_size=256
    )
    tokens = torch.randint(0, 512, (2, 32))
    return BertModel(config).eval(), (), {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}


def by_hand(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    torch.compiler.reset()
    expected = copy.deepcopy(model)(*args, **kwargs)
    actual = torch.compile(copy.deepcopy(model), fullgraph=True)(*args, **kwargs)
    expected, actual = (out if isinstance(out, torch.Tensor) else dict(out) for out in (expected, actual))
    torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-4)
    torch.compiler.reset()


def by_check(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    from pytest_torch_compile import call, check_compile

    check_compile(model, calls=[call(*args, **kwargs)])


CASES: dict[str, Callable[[], Case]] = {"resnet18": resnet18, "small_bert": small_bert}
VARIANTS: dict[str, Callable[..., None]] = {"hand": by_hand, "check": by_check}


@dataclass(frozen=True)
class Seconds:
    """The duration of one measurement."""

    wall: float
    cpu: float


def measure_here(variant: str, case: str) -> Seconds:
    torch.manual_seed(0)
    model, args, kwargs = CASES[case]()
    started, used = time.perf_counter(), cpu_seconds()
    VARIANTS[variant](model, args, kwargs)
    return Seconds(time.perf_counter() - started, cpu_seconds() - used)


def cpu_seconds() -> float:
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(used.ru_utime + used.ru_stime for used in usage)


def measure_in_fresh_process(variant: str, case: str) -> Seconds:
    with tempfile.TemporaryDirectory() as caches:
        env = os.environ | {"TORCHINDUCTOR_CACHE_DIR": f"{caches}/inductor", "TRITON_CACHE_DIR": f"{caches}/triton"}
        # Compile in one process, because the CPU time of a pool's workers would not be measured.
        env["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
        command = [sys.executable, __file__, "--measure", variant, case]
        done = subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE, text=True)
        return Seconds(**json.loads(done.stdout.splitlines()[-1]))


def measure_rounds(case: str, rounds: int) -> list[dict[str, Seconds]]:
    """Measure each variant once per round, in alternating order."""
    found = []
    for number in range(rounds):
        order = list(VARIANTS)[:: 1 if number % 2 == 0 else -1]
        found.append({variant: measure_in_fresh_process(variant, case) for variant in order})
        print_round(case, number + 1, found[-1])
    return found


def print_round(case: str, number: int, seconds: dict[str, Seconds]) -> None:
    hand, check = seconds["hand"], seconds["check"]
    wall, cpu = check.wall / hand.wall, check.cpu / hand.cpu
    columns = f"{hand.wall:>9.2f}{check.wall:>9.2f}{wall:>8.3f}{hand.cpu:>9.2f}{check.cpu:>9.2f}{cpu:>8.3f}"
    print(f"{case:<12}{number:>6}{columns}", flush=True)


def median_ratio(case: str, rounds: list[dict[str, Seconds]]) -> float:
    wall, cpu = (
        statistics.median(getattr(seconds["check"], clock) / getattr(seconds["hand"], clock) for seconds in rounds)
        for clock in ("wall", "cpu")
    )
    print(f"{case:<12}{'median':>6}{wall:>26.3f}{cpu:>26.3f}  limit {LIMIT} of wall time", flush=True)
    return wall


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="number of fresh processes for each variant (default 5)")
    parser.add_argument("--case", choices=list(CASES), action="append", help="default: all")
    parser.add_argument("--measure", nargs=2, metavar=("VARIANT", "CASE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(asdict(measure_here(*options.measure))))
        return 0
    print(f"torch {torch.__version__}, seconds")
    columns = f"{'hand':>9}{'check':>9}{'ratio':>8}"
    print(f"{'':<18}{'wall':>9}{'':>17}{'cpu':>9}\n{'case':<12}{'round':>6}{columns}{columns}", flush=True)
    medians = [median_ratio(case, measure_rounds(case, options.rounds)) for case in options.case or CASES]
    return int(max(medians) > LIMIT)


if __name__ == "__main__":
    raise SystemExit(main())
