"""The results of measuring a target (a module or a function). This module imports neither torch nor pytest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

SCHEMA_VERSION = 2
# A measurement ends after SECONDS, or earlier if half the width of the 95% confidence interval for the ratio of
# compiled to eager time is at most PRECISION. On a shared host, after half a second, half the interval's width was 2.7%
# in the median test, and up to 9% in other tests.
SECONDS, PRECISION = 4.0, 0.002


@dataclass(frozen=True)
class Paired:
    """One quantity, measured in eager and in compiled code: a time per call in seconds, or the peak memory in bytes.

    ``log_ratio`` is the mean of log(compiled / eager) over interleaved rounds; it is positive if the compiled value is
    larger. ``half_width`` is half the width of the 95% confidence interval for ``log_ratio``. The confidence interval
    covers only the variation within this process.
    """

    eager: float
    compiled: float
    log_ratio: float
    half_width: float = 0.0


class Times(NamedTuple):
    """The eager and the compiled time in seconds, and log(compiled / eager), as stored in a baseline."""

    eager: float
    compiled: float
    log_ratio: float


@dataclass(frozen=True)
class Exact:
    """Numbers that describe compiled code, such as the number of kernels. A number is None if it was not observed.

    These counts are per call: ``kernels`` (including copies and fills), ``collectives``, ``cuda_graphs`` (CUDA graph
    launches), ``syncs`` (how often the host waits for the device), and ``python_calls``. ``memory`` is the peak in
    bytes. All other counts are totals over compilation and warm-up.

    Only a plan (``check_plan``) provides ``library_calls`` and ``bytes_moved``, both per call. In a plan, ``kernels``
    excludes library calls, and ``cuda_graphs`` is the number of graphs that would be recorded as CUDA graphs.
    """

    kernels: int | None = None
    library_calls: int | None = None
    memory: int | None = None
    bytes_moved: int | None = None
    cuda_graphs: int | None = None
    collectives: int | None = None
    syncs: int | None = None
    python_calls: int | None = None
    graphs: int | None = None
    graph_breaks: int | None = None
    recompiles: int | None = None
    guards: int | None = None
    cudagraph_skips: int | None = None

    def counted(self) -> dict[str, int]:
        """Return the observed counts, keyed by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True)
class Run:
    """One compilation of one test, as stored for comparison: the eager and compiled times, and the conditions of the
    measurement.

    ``start`` (the cold start) and ``warm_start`` are in seconds. ``code`` identifies the compiled code, and
    ``device_id`` the device. ``kept_cache`` is true if this run used a persistent compile cache. ``compile_processes``
    is the number of processes in which Inductor compiled kernels during the cold start, or 0 if it is unknown.
    """

    wall: Times
    host: Times | None = None
    device: Times | None = None
    start: float | None = None
    warm_start: float | None = None
    code: str = ""
    device_id: str = ""
    kept_cache: bool = False
    compile_processes: int = 0


@dataclass(frozen=True)
class SpeedSample:
    """The measurements of one target in one process.

    ``wall`` is the time per call, ``host`` the time until the call is enqueued, ``device`` the sum of the kernel
    durations, and ``memory`` the peak in bytes. ``kernels``, ``python_calls`` (both per call) and ``cold_start`` (in
    seconds) are pairs of an eager and a compiled value. ``exact`` contains the counts for compiled code, and ``breaks``
    the graph breaks and their locations. ``start`` contains the cold start and the warm start of compiled code in
    seconds, each measured in a fresh process. The compile cache is empty for the cold start, and filled for the warm
    start. ``code`` identifies the compiled code. ``compile_processes`` is the number of processes in which Inductor
    compiles kernels; if cold starts were measured, the number for the cold start. ``problems`` lists the reasons why
    the times cannot be used to decide the result of the test.
    """

    wall: Paired
    host: Paired | None = None
    device: Paired | None = None
    memory: Paired | None = None
    kernels: tuple[int, int] | None = None
    python_calls: tuple[int, int] | None = None
    exact: Exact = field(default_factory=Exact)
    breaks: tuple[str, ...] = ()
    cold_start: tuple[float, float] = (0.0, 0.0)
    start: tuple[float, float] | None = None
    what: str = "forward"
    mode: str = "default"
    code: str = ""
    kept_cache: bool = False
    compile_processes: int = 0
    rounds: int = 0
    calls_per_round: tuple[int, int] = (1, 1)
    environment: Mapping[str, Any] = field(default_factory=dict)
    state: Mapping[str, Any] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    raw: Mapping[str, Any] = field(default_factory=dict)

    @property
    def speedup(self) -> float:
        """Eager wall time divided by compiled wall time."""
        return self.wall.eager / self.wall.compiled

    def run(self) -> Run:
        """Return the part of the sample that a baseline stores."""
        wall, host, device = (
            Times(pair.eager, pair.compiled, pair.log_ratio) if pair else None
            for pair in (self.wall, self.host, self.device)
        )
        assert wall is not None
        cold, warm = self.start or (None, None)
        uuid = self.environment.get("uuid", "")
        processes = self.compile_processes if cold else 0
        return Run(wall, host, device, cold, warm, self.code, uuid, self.kept_cache, processes)

    def to_dict(self) -> dict[str, Any]:
        """Return the sample as JSON-ready data."""
        return {"schema_version": SCHEMA_VERSION, **asdict(self), "exact": self.exact.counted()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> SpeedSample:
        """Create a sample from the data that ``to_dict`` returned. Raise ValueError if the data has a different schema
        version.
        """
        if data.get("schema_version") != SCHEMA_VERSION:
            raise ValueError(
                f"the speed sample has schema version {data.get('schema_version')!r}, but {SCHEMA_VERSION} is required"
            )
        fields = {name: value for name, value in data.items() if name != "schema_version"}
        fields["exact"] = Exact(**fields.get("exact", {}))
        for name in ("wall", "host", "device", "memory"):
            if fields.get(name) is not None:
                fields[name] = Paired(**fields[name])
        for name in ("kernels", "python_calls", "cold_start", "calls_per_round", "problems", "start", "breaks"):
            if fields.get(name) is not None:
                fields[name] = tuple(fields[name])
        return cls(**fields)
