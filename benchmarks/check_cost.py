"""What `check_compile` costs over a compile, an eager call and a comparison written by hand.

Each measurement is a fresh process with empty compile caches; the two variants take turns, and a round's ratio is
check over hand-written. Exits with 1 if a median ratio is over the limit.
"""

from __future__ import annotations

import argparse
import copy
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
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


def measure_here(variant: str, case: str) -> float:
    torch.manual_seed(0)
    model, args, kwargs = CASES[case]()
    started = time.perf_counter()
    VARIANTS[variant](model, args, kwargs)
    return time.perf_counter() - started


def measure_in_fresh_process(variant: str, case: str) -> float:
    with tempfile.TemporaryDirectory() as caches:
        env = os.environ | {"TORCHINDUCTOR_CACHE_DIR": f"{caches}/inductor", "TRITON_CACHE_DIR": f"{caches}/triton"}
        command = [sys.executable, __file__, "--measure", variant, case]
        return float(subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE, text=True).stdout)


def measure_rounds(case: str, rounds: int) -> list[dict[str, float]]:
    """One measurement of each variant per round, the first of a round being last in the next."""
    found = []
    for number in range(rounds):
        order = list(VARIANTS)[:: 1 if number % 2 == 0 else -1]
        found.append({variant: measure_in_fresh_process(variant, case) for variant in order})
    return found


def print_case(case: str, rounds: list[dict[str, float]]) -> float:
    for number, seconds in enumerate(rounds, 1):
        ratio = seconds["check"] / seconds["hand"]
        print(f"{case:<12}{number:>6}{seconds['hand']:>9.2f}{seconds['check']:>9.2f}{ratio:>8.3f}")
    median = statistics.median(seconds["check"] / seconds["hand"] for seconds in rounds)
    print(f"{case:<12}{'median':>6}{'':>18}{median:>8.3f}  limit {LIMIT}")
    return median


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="fresh processes of each variant (default 5)")
    parser.add_argument("--case", choices=list(CASES), action="append", help="default: all")
    parser.add_argument("--measure", nargs=2, metavar=("VARIANT", "CASE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(measure_here(*options.measure))
        return 0
    print(f"torch {torch.__version__}, seconds")
    print(f"{'case':<12}{'round':>6}{'hand':>9}{'check':>9}{'ratio':>8}")
    medians = [print_case(case, measure_rounds(case, options.rounds)) for case in options.case or CASES]
    return int(max(medians) > LIMIT)


if __name__ == "__main__":
    raise SystemExit(main())
