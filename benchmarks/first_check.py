"""Measure the CPU time of a user's first check, and compare it with a handwritten `fullgraph` test with `assert_close`.

Each measurement is a fresh pytest process with empty compile caches and a model of ten lines; the variants alternate.
The CPU time includes all processes that the process started, such as compile workers. `--parts` shows where the check
spends its time. It counts the CPU time of the process alone, and each part excludes the parts inside it.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from pathlib import Path
from typing import Any

LIMIT = 1.5
MODEL = """
import torch
from torch import nn

class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(16, 16)

    def forward(self, x):
        return torch.relu(self.linear(x)) + x
"""
HAND = """
def test_encoder():
    model, x = Encoder(), torch.randn(2, 16)
    compiled = torch.compile(model, fullgraph=True, backend="{backend}")
    torch.testing.assert_close(compiled(x), model(x))
"""
CHECK = "def test_encoder(compile_check):\n    compile_check(Encoder(), torch.randn(2, 16))\n"
# Maps each variant to its test and its pytest options. Each `check` variant is compared with a `hand` variant.
VARIANTS = {
    "hand": (HAND.format(backend="inductor"), ["-p", "no:torch_compile"]),
    "check": (CHECK, []),
    "hand, aot_eager": (HAND.format(backend="aot_eager"), ["-p", "no:torch_compile"]),
    "check, --compile-fast": (CHECK, ["--compile-fast"]),
}
# Maps the parts of a check to the plugin's functions that are timed.
PARTS = {
    "canary": ["_torch.canary:observer"],
    "sandbox": ["check.both_legs:sandbox", "_torch.sandbox:Sandbox.watching", "_torch.sandbox:Sandbox.forget"],
    "settings that differ": ["check.both_legs:deviations"],
    "legs": ["legs.leg:Leg.__init__"],
    "the eager and compiled runs, including torch's part": ["legs.leg:Leg.run"],
    "extra runs": ["legs.extra_legs:PerturbedLegs.records", "legs.lazy_leg:LazyLeg.record"],
    "comparison": ["check.both_legs:compare_call"],
    "report": ["check.pipeline:report_of", "check.pipeline:findings_of", "check.pipeline:conclude"],
    "diagnosis": ["check.pipeline:diagnosis"],
    "reset around the test": ["_torch.reset:reset_dynamo"],
    "the rest of the check": ["check.check_compile:check_compile"],
}


def measured(variant: str, parts: bool = False) -> tuple[float, dict[str, float]]:
    """Return the CPU seconds of one cold run and of its parts."""
    test, options = VARIANTS[variant]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "test_encoder.py").write_text(MODEL + test)
        caches = {"TORCHINDUCTOR_CACHE_DIR": f"{place}/inductor", "TRITON_CACHE_DIR": f"{place}/triton"}
        path = os.pathsep.join(filter(None, [str(Path(__file__).parent), os.environ.get("PYTHONPATH")]))
        more = {"FIRST_CHECK_PARTS": f"{place}/parts.json"} if parts else {}
        probe = ["-p", "first_check"] if parts else []
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *probe, *options, "test_encoder.py"]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, **caches, **more, "PYTHONPATH": path},
            capture_output=True,
            text=True,
        )
        _wait_for_orphans()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode:
            raise SystemExit(done.stdout + done.stderr)
        found = json.loads((folder / "parts.json").read_text()) if parts else {}
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, found


def _wait_for_orphans() -> None:
    """Wait for compile workers, which end after their parent and are adopted by this process."""
    with suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)


class Clock:
    """Measures CPU time by part; a part inside another part is not counted twice."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._open: list[float] = []

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        began = time.process_time()
        self._open.append(0.0)
        try:
            yield
        finally:
            used = time.process_time() - began
            self.seconds[name] += used - self._open.pop()
            if self._open:
                self._open[-1] += used

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with self.part(name):
                made = function(*args, **kwargs)
            return self._entered(name, made) if hasattr(made, "__enter__") and name == "sandbox" else made

        return call

    @contextmanager
    def _entered(self, name: str, manager: Any) -> Iterator[Any]:
        """Wrap a context manager so that entering and leaving it count, but its body does not."""
        with self.part(name):
            value = manager.__enter__()
        try:
            yield value
        finally:
            with self.part(name):
                manager.__exit__(None, None, None)


CLOCK = Clock()


def pytest_collection_finish() -> None:
    """In the measured process, where this module is a pytest plugin, import and wrap the timed functions."""
    import torch._dynamo
    import torch._inductor.compile_fx  # noqa: F401

    with CLOCK.part("imports"):
        importlib.import_module("pytest_torch_compile.check.check_compile")
    for name, places in PARTS.items():
        for place in places:
            module, _, path = place.partition(":")
            *owners, attribute = path.split(".")
            with suppress(ImportError, AttributeError):
                owner: Any = importlib.import_module(f"pytest_torch_compile.{module}")
                for one in owners:
                    owner = getattr(owner, one)
                setattr(owner, attribute, CLOCK.timed(name, getattr(owner, attribute)))


def pytest_unconfigure() -> None:
    if place := os.environ.get("FIRST_CHECK_PARTS"):
        Path(place).write_text(json.dumps(CLOCK.seconds))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--parts", action="store_true", help=("show where the time of a check is spent, with one run for each variant")
    )
    options = parser.parse_args()
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    if options.parts:
        for variant in ("check", "check, --compile-fast"):
            _, parts = measured(variant, parts=True)
            print(f"| {variant} | CPU s |\n| --- | --- |")
            print(
                *(f"| {name} | {seconds:.2f} |" for name, seconds in sorted(parts.items(), key=lambda p: -p[1])),
                sep="\n",
            )
        return 0
    taken: dict[str, list[float]] = {variant: [] for variant in VARIANTS}
    for _ in range(options.rounds):
        for variant, found in taken.items():
            found.append(measured(variant)[0])
            print(f"{variant}: {found[-1]:.2f} s", file=sys.stderr, flush=True)
    print("| | by hand | check | ours |\n| --- | --- | --- | --- |")
    over = []
    for name, (hand, check) in {
        "Inductor": ("hand", "check"),
        "`--compile-fast`": ("hand, aot_eager", "check, --compile-fast"),
    }.items():
        medians = [statistics.median(taken[variant]) for variant in (hand, check)]
        over.append(medians[1] - medians[0])
        print(f"| {name} | {medians[0]:.2f} | {medians[1]:.2f} | {over[-1]:.2f} |")
    return int(max(over) > LIMIT)


if __name__ == "__main__":
    raise SystemExit(main())
