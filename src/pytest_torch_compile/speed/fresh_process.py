"""Run a speed test again in fresh processes, and collect their measurements.

The processes compile at the same time but, on each device, measure one after another (``measuring/turns.py``).
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .. import events
from ..cache.folder import INDUCTOR, variables
from ..child import Child, Ended
from ..disk import TemporaryFolder, first_free
from . import gpus
from .deciding.confirmation import NoFigures
from .deciding.exact import AllowMore
from .measuring import turns
from .measuring.device import DeviceBusy
from .sample import Paired, SpeedSample

SAMPLES = "PYTEST_TORCH_COMPILE_SAMPLES"
# In a process that was started to confirm a change, this variable contains the UUID of the process's GPU, or "cpu".
CONFIRMS = "PYTEST_TORCH_COMPILE_CONFIRMS"
# In the processes of ``compare``, this variable contains the number of bytes that each test needs on the device, as a
# JSON object.
MEMORY = "PYTEST_TORCH_COMPILE_MEMORY"
POLL_SECONDS = 0.1
# A test's planned counts: its baseline ``entry``, and the ``places`` (lines) of its kernel launches and graph breaks.
Left = dict[str, Any]


@dataclass(frozen=True)
class Ran:
    """The results of a child process, keyed by test id, and how the process ended. ``plans`` contains the counts that
    ``--compile-plan`` predicted, and ``allowed`` the limits that tests set with ``allow_more``.
    """

    samples: dict[str, SpeedSample]
    plans: dict[str, Left]
    allowed: dict[str, AllowMore]
    ended: Ended


def leave_sample(test: str, sample: SpeedSample, allow_more: AllowMore | None = None) -> None:
    """Write a test's measurements, and the increases that the test allows, to the folder that an environment variable
    specifies; do nothing if the variable is not set.
    """
    _leave(test, allow_more, {"sample": sample.to_dict()})


def leave_plan(
    test: str, entry: Mapping[str, Any], places: Mapping[str, str], allow_more: AllowMore | None = None
) -> None:
    """Write a test's planned counts to the same folder as ``leave_sample``, together with the lines of code that cause
    the test's kernel launches and graph breaks. ``--compile-plan`` predicts these counts.
    """
    _leave(test, allow_more, {"plan": {"entry": dict(entry), "places": dict(places)}})


def _leave(test: str, allow_more: AllowMore | None, content: Mapping[str, Any]) -> None:
    if folder := os.environ.get(SAMPLES):
        name = hashlib.sha256(test.encode()).hexdigest()[:24]
        text = json.dumps({"test": test, "allow_more": dict(allow_more or {}), **content})
        Path(folder, f"{name}.json").write_text(text, encoding="utf-8")


def run(
    child: Child,
    seconds: float,
    environment: Mapping[str, str | None] | None = None,
    stop: threading.Event | None = None,
) -> tuple[dict[str, SpeedSample], Ended]:
    """Run a child process. Return the measurements of its speed tests, keyed by test id, and how the process ended."""
    ran = results_of(child, seconds, environment, stop)
    return ran.samples, ran.ended


def results_of(
    child: Child,
    seconds: float,
    environment: Mapping[str, str | None] | None = None,
    stop: threading.Event | None = None,
    progress: Callable[[int], None] | None = None,
) -> Ran:
    """Run a child process, and return the results of its speed tests.

    If ``progress`` is set, it is called from time to time with the number of tests that have been measured or planned.
    """
    with TemporaryFolder("torch-compile-samples-") as folder:
        # PYTEST_XDIST_WORKER would disable pytest-benchmark in the child, which is not a pytest-xdist worker.
        environment = {**(environment or {}), SAMPLES: str(folder), "PYTEST_XDIST_WORKER": None}
        told = progress and (lambda _: progress(len(list(folder.glob("*.json")))))
        ended = child.run(environment, seconds, stop=stop, progress=told)
        left = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    return Ran(
        {sent["test"]: SpeedSample.from_dict(sent["sample"]) for sent in left if "sample" in sent},
        {sent["test"]: sent["plan"] for sent in left if "plan" in sent},
        # The plugin of an older revision does not write the limits.
        {sent["test"]: sent.get("allow_more", {}) for sent in left},
        ended,
    )


def fresh_sample(
    child: Child,
    uuid: str,
    *,
    cache: str | None,
    environment: Mapping[str, str | None] | None = None,
    seconds: float = 900.0,
    stop: threading.Event | None = None,
) -> SpeedSample:
    """Run one test in a fresh process, which measures on the device ``uuid``, and return its measurements. ``cache`` is
    the folder of the compile cache; if ``cache`` is None, the process starts with an empty cache.

    Raises:
        NoFigures: If the test failed, was skipped, or took longer than ``seconds``.
    """
    with ExitStack() as stack:
        folder = cache or str(stack.enter_context(TemporaryFolder("torch-compile-cache-")))
        changed = {CONFIRMS: uuid, **variables(folder), **(environment or {})}
        samples, ended = run(child.with_options(compile_cache=folder), seconds, changed, stop)
    if not samples:
        raise NoFigures(f"the fresh process returned no measurements: {ended.summary}")
    return replace(list(samples.values())[-1], kept_cache=cache is not None)


def fresh_samples(
    child: Child, at_most: int, *, devices: Sequence[str], cache: str | None, memory: Paired | None = None
) -> Generator[SpeedSample, None, None]:
    """Yield at most ``at_most`` measurements of a test. Each measurement comes from a fresh process, and is yielded as
    soon as it is available. Closing the generator ends the processes that are still running.

    The processes are distributed among ``devices``. As many processes run at the same time as the cores and the free
    memory allow. ``memory`` is the memory that the test needs in eager and in compiled code.

    Raises:
        NoFigures: If no process returned measurements.
    """
    stop = threading.Event()
    needed = round(memory.eager + memory.compiled) if memory else 0
    with_model = 3 * needed // 2  # in addition to the copies of the two legs
    first = threading.Lock()  # held by the process that uses the memory which the test has reserved
    # The processes use all cores, so each compiler needs only one.
    threads = {gpus.THREADS: "1", gpus.ONE_THREAD: "1"} if at_most > 1 and gpus.THREADS not in os.environ else {}

    def measured_on(uuid: str) -> SpeedSample:
        with _memory(uuid, with_model, first, stop), _place(uuid, gpus.room(uuid, needed), stop):
            environment = {**gpus.only(uuid), **threads}
            return fresh_sample(child, uuid, cache=cache, environment=environment, stop=stop)

    with ThreadPoolExecutor(at_most) as pool:
        try:
            yield from _as_they_end({pool.submit(measured_on, devices[n % len(devices)]) for n in range(at_most)})
        finally:
            stop.set()


def further_samples(
    child: Child, first: SpeedSample, warn: Callable[[str], None], at_most: int
) -> Generator[SpeedSample, None, None]:
    """Measure the test of ``first`` again in fresh processes, and yield the samples. If the first sample used a
    persistent compile cache, the fresh processes also use this cache; otherwise, each process starts with an empty
    cache.
    """
    cache = os.environ.get(INDUCTOR) if first.kept_cache else None
    own = first.environment.get("uuid", "cpu")
    devices = gpus.own_and_others(own)
    if turns.can_be_paused(own):
        # Other tests run at the same time, and this test has reserved memory on this device only.
        devices, at_most = [own], min(at_most, turns.MOST_AT_ONCE)
    samples = fresh_samples(_tracking(child), at_most, devices=devices, cache=cache, memory=first.memory)
    if first.start is None:
        yield from samples
    else:  # measure cold starts last, when no other compilation of this test runs
        for sample in list(samples):
            yield with_start(child, sample, warn)


def with_start(child: Child, sample: SpeedSample, warn: Callable[[str], None]) -> SpeedSample:
    """Return the sample with the cold and the warm start, or, after a warning, without them if they cannot be
    measured.
    """
    uuid = sample.environment.get("uuid", "cpu")
    try:
        with turns.measuring(uuid), events.doing("measuring a cold and a warm start in fresh processes"):
            cold, warm = cold_and_warm_start(_tracking(child), uuid)
            starts = cold.cold_start[1], warm.cold_start[1]
            return replace(sample, start=starts, compile_processes=cold.compile_processes)
    except (NoFigures, DeviceBusy) as error:
        warn(f"the cold start was not measured: {error}")
        return sample


def _tracking(child: Child) -> Child:
    """Return a child that does not fail on a regression. The fresh process gets the memory that torch keeps here."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return child.with_options(compile_perf="track")


@contextmanager
def _place(uuid: str, room: int, stop: threading.Event) -> Iterator[None]:
    """Wait until fewer than ``room`` fresh processes on this machine use the device. Inside the ``with`` block, this
    thread may start a process.
    """
    while True:
        with first_free(f"place-{uuid}-{number}" for number in range(room)) as place:
            if place and not stop.is_set():  # the place may be free because the result is certain
                yield
                return
        if stop.wait(POLL_SECONDS):
            raise NoFigures("the result was certain before this process started")


@contextmanager
def _memory(uuid: str, needed: int, first: threading.Lock, stop: threading.Event) -> Iterator[None]:
    """Wait until the memory for a fresh process is reserved, or until no other process uses the memory that the test
    has reserved.
    """
    while not stop.is_set():
        if first.acquire(blocking=False):
            try:
                yield
            finally:
                first.release()
            return
        with turns.more_memory(uuid, needed) as reserved:
            if reserved:
                yield
                return
        stop.wait(POLL_SECONDS)
    raise NoFigures("the result was certain before this process started")


def _as_they_end(running: set[Future[SpeedSample]]) -> Generator[SpeedSample, None, None]:
    """Yield each process's measurements as soon as they are available."""
    number, failed, count = 0, None, len(running)
    while running:
        with events.doing(f"confirming a change: measured {number} of up to {count} more compilations"):
            done, running = wait(running, return_when=FIRST_COMPLETED)
        for future in done:
            try:
                sample = future.result()
            except NoFigures as error:
                failed = error
            else:
                number += 1
                yield sample
    if failed and not number:
        raise failed


def cold_and_warm_start(child: Child, uuid: str) -> tuple[SpeedSample, SpeedSample]:
    """Measure a test in a fresh process with an empty compile cache (cold start), and in another fresh process with the
    cache that the first process filled (warm start). The caller has reserved the device ``uuid``.

    Raises:
        NoFigures: If a process returned no measurements.
    """
    threads = {gpus.THREADS: None, gpus.ONE_THREAD: None} if os.environ.get(gpus.ONE_THREAD) else {}
    with TemporaryFolder("torch-compile-cache-") as cache:
        cold, warm = (fresh_sample(child, uuid, cache=str(cache), environment=threads) for _ in range(2))
    return cold, warm
