"""What one measurement of one target gave: plain data, neither torch nor pytest."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

SCHEMA_VERSION = 1
# How long rounds are taken for at most, and at which half width of the ratio's interval they stop before. On a host
# that others use too, half a second left half widths of up to 9 %, 2.7 % in the median test.
SECONDS, PRECISION = 4.0, 0.002
Figures = dict[str, tuple[float, float, float]]


@dataclass(frozen=True)
class Paired:
    """One quantity of both legs, per call: seconds, or bytes for memory.

    ``log_ratio`` is log(compiled / eager) over interleaved rounds, so above zero the compiled leg is the slower;
    ``half_width`` is half its 95 % interval within this process.
    """

    eager: float
    compiled: float
    log_ratio: float
    half_width: float = 0.0


def name_in(run: Figures, quantity: str) -> str:
    """What a quantity is called in a run: Python calls by the version of Python, as versions differ in them."""
    return next((name for name in run if name == quantity or name.startswith(f"{quantity}-")), quantity)


def source_of(code: str) -> str:
    """The part of a code's identity that leaves out tuning: it is ``source/tuning``."""
    return code.partition("/")[0]


@dataclass(frozen=True)
class SpeedSample:
    """One process's measurement of one target.

    ``wall`` is time per call, ``host`` the time until the call has been handed to the device, ``device`` the sum of
    the kernel durations, ``memory`` the peak in bytes. ``kernels`` and ``python_calls``, how many there are in one
    call, and ``cold_start`` are eager then compiled.
    ``start`` is the compiled cold start in seconds with an empty and with a filled compile cache, each in a fresh
    process. ``code`` is the same text where the same compiled code ran. ``problems`` says why the figures must not be
    gated.
    """

    wall: Paired
    host: Paired | None = None
    device: Paired | None = None
    memory: Paired | None = None
    kernels: tuple[int, int] | None = None
    python_calls: tuple[int, int] | None = None
    cold_start: tuple[float, float] = (0.0, 0.0)
    start: tuple[float, float] | None = None
    what: str = "forward"
    mode: str = "default"
    code: str = ""
    rounds: int = 0
    calls_per_round: tuple[int, int] = (1, 1)
    environment: Mapping[str, Any] = field(default_factory=dict)
    state: Mapping[str, Any] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    raw: Mapping[str, Any] = field(default_factory=dict)

    @property
    def speedup(self) -> float:
        """Eager wall time over compiled wall time."""
        return self.wall.eager / self.wall.compiled

    def figures(self) -> Figures:
        """What a baseline stores of one process: eager, compiled and their log ratio, for each quantity."""
        pairs = {name: getattr(self, name) for name in ("wall", "host", "device", "memory")}
        figures = {n: (p.eager, p.compiled, p.log_ratio) for n, p in pairs.items() if p is not None}
        python_calls = "-".join(filter(None, ["python-calls", self.environment.get("python", "")]))
        for name, counts in (("kernels", self.kernels), (python_calls, self.python_calls)):
            if counts and all(counts):
                figures[name] = (*counts, math.log(counts[1] / counts[0]))
        if self.start is not None:
            figures["start"] = (1.0, self.start[0], math.log(self.start[0]))
            figures["warm-start"] = (1.0, self.start[1], math.log(self.start[1]))
        return figures

    def to_dict(self) -> dict[str, Any]:
        """The sample as JSON-ready data."""
        return {"schema_version": SCHEMA_VERSION, **asdict(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> SpeedSample:
        """The sample that ``to_dict`` wrote. Raises ValueError when it is of another schema."""
        if data.get("schema_version") != SCHEMA_VERSION:
            raise ValueError(f"a speed sample of schema {data.get('schema_version')!r}, expected {SCHEMA_VERSION}")
        fields = {name: value for name, value in data.items() if name != "schema_version"}
        for name in ("wall", "host", "device", "memory"):
            if fields.get(name) is not None:
                fields[name] = Paired(**fields[name])
        for name in ("kernels", "python_calls", "cold_start", "calls_per_round", "problems", "start"):
            if fields.get(name) is not None:
                fields[name] = tuple(fields[name])
        return cls(**fields)
