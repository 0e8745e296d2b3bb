"""Under a launcher, where every rank runs pytest: one report of rank 0, one failure for all, and nobody waits in vain."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

import pytest

torch = pytest.importorskip("torch")

from pytest_torch_compile.ranks import launched  # noqa: E402
from pytest_torch_compile.ranks.failures import processes_with  # noqa: E402

pytestmark = [
    pytest.mark.distributed,
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="processes are found in /proc"),
]
TESTS = """
import os, time
import pytest, torch
from torch import distributed as dist
from pytest_torch_compile import RankGroup, check_compile

@pytest.fixture(scope="module")
def ranks():
    with RankGroup(2, timeout=200) as group:
        yield group

def checked(number):
    total = torch.tensor([dist.get_rank() + number])
    dist.all_reduce(total)
    check_compile(lambda x: x * 2, torch.ones(3), backend="eager")
    return total.item()

def diverging():
    check_compile(lambda x: x.sin() if dist.get_rank() else x.cos(), torch.ones(4), backend="eager")

def waiting(folder):
    dist.barrier()
    open(os.path.join(folder, f"waits-{dist.get_rank()}"), "w").close()
    time.sleep(600)

def test_passes(ranks):
    assert ranks.run(checked, 1.0) == [3.0, 3.0]

def test_diverges(ranks):
    ranks.run(diverging)

@pytest.mark.skipif("RANK" not in os.environ, reason="each rank is a test process under a launcher only")
def test_fails_on_rank_1():
    assert os.environ["RANK"] == "0", "not on this rank"

def test_waits(ranks):
    if "WAIT" in os.environ:
        ranks.run(waiting, os.environ["WAIT"])
"""

# Half of all conftest files import torch, for seconds.
SLOW_START = """
import os, time
open(os.path.join(os.environ["WAIT"], f"starts-{os.environ['RANK']}"), "w").close()
time.sleep(3)
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


AGENT = ("-m", "torch.distributed.run")
PYTEST = ("-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", "--compile-report=report")


def two_agents(port: int) -> tuple[str, ...]:
    """The arguments of each of two agents on one machine, with one rank each, as on two hosts."""
    endpoint = ("--rdzv-endpoint", f"127.0.0.1:{port}", "--local-addr", "127.0.0.1")
    return (*AGENT, "--nnodes", "2", "--nproc-per-node", "1", "--rdzv-backend", "c10d", *endpoint, *PYTEST)


def start(folder: Path, log: str, *arguments: str, **variables: str) -> subprocess.Popen[bytes]:
    """Python with the given arguments, as a user starts it in this folder."""
    outside = {n: v for n, v in os.environ.items() if not n.startswith("PYTEST_")}
    paths = os.pathsep.join(str(Path(entry).resolve()) for entry in sys.path)
    with (folder / log).open("wb") as file:
        return subprocess.Popen(
            [sys.executable, *arguments],
            cwd=folder,
            env={**outside, "PYTHONPATH": paths, **variables},
            stdout=file,
            stderr=file,
        )


class Agents:
    """A run under two agents, whose last test waits."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        (folder / "test_ranks.py").write_text(TESTS, encoding="utf-8")
        (folder / "conftest.py").write_text(SLOW_START, encoding="utf-8")
        (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
        self.token = f"AGENTS_OF_TEST={os.getpid()}-{folder.name}"
        self.folder = folder
        command, (name, _, value) = two_agents(free_port()), self.token.partition("=")
        variables = {name: value, "WAIT": str(folder)}
        self.processes = [start(folder, f"agent-{number}", *command, *arguments, **variables) for number in range(2)]

    def outputs(self) -> list[str]:
        return [(self.folder / f"agent-{number}").read_text(encoding="utf-8") for number in range(2)]

    def wait_for(self, *names: str, seconds: float = 150) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not all((self.folder / name).exists() for name in names):
            assert any(process.poll() is None for process in self.processes), self.outputs()
            time.sleep(0.1)

    def left(self, seconds: float) -> list[int]:
        deadline = time.monotonic() + seconds
        while (left := processes_with(self.token)) and time.monotonic() < deadline:
            time.sleep(0.1)
        return left

    def end(self) -> None:
        for pid in processes_with(self.token):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def agents(tmp_path):
    agents = Agents(tmp_path)
    yield agents
    agents.end()


@pytest.mark.slow
@pytest.mark.usefixtures("new_interpreters")  # the test looks for processes by their parents
def test_two_agents_make_one_report_and_end_when_one_of_them_is_killed(agents):
    agents.wait_for("waits-0", "waits-1")
    victim, other = agents.processes if rank_of(agents, 0) == 1 else reversed(agents.processes)
    victim.kill()
    killed = time.monotonic()
    other.wait(timeout=60)
    assert time.monotonic() - killed < 30
    assert not agents.left(10)
    report, quiet = sorted(agents.outputs(), key=lambda text: "short test summary" not in text)
    print(report, quiet, sep="\n=====\n")
    # The agent that is killed may be the one that has the store: the other one then ends its rank.
    gone = r"rank 1: (its launcher has exited, so this rank exits too|the launcher terminated this run \(SIGTERM\)|the store)"
    assert re.search(f"pytest-torch-compile: {gone}.*; stopping all tests", report)
    assert re.search(f"1. exception: {gone}", report) and "rank 0 was at test_ranks.py" in report
    assert "short test summary" not in quiet and "test session starts" not in quiet
    assert "FAILED test_ranks.py::test_diverges" in report and "rank-divergence: rank 1: call 1: graphs in" in report
    assert "FAILED test_ranks.py::test_fails_on_rank_1 - rank 1: " in report and "not on this rank" in report
    assert "3 failed, 1 passed" in report
    assert (agents.folder / "report" / "report.json").exists()


@pytest.mark.slow
@pytest.mark.parametrize("asked", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("number", [0, 1])  # one of them has the store
def test_an_agent_that_is_killed_while_tests_start_ends_the_other_one_too(agents, number, asked):
    agents.wait_for("starts-0", "starts-1")
    agents.processes[number].send_signal(asked)
    left = agents.left(30)
    print(*agents.outputs(), sep="\n=====\n")
    assert not left
    lines = "its launcher has exited|the launcher terminated this run|the store that|cannot reach the other ranks"
    assert re.search(lines, "".join(agents.outputs()))


def rank_of(agents: Agents, number: int) -> int:
    """The rank of the test process below an agent."""
    agent = agents.processes[number].pid
    for pid in processes_with(agents.token):
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]
        if int(parent) == agent:
            return next(int(v.removeprefix(b"RANK=")) for v in variables if v.startswith(b"RANK="))
    raise AssertionError(f"no process below agent {number}")


@pytest.fixture
def launch(monkeypatch):
    """How this process would see itself with the given variables."""

    def seen(**variables: str):
        for name in (*TORCHRUN, "TORCHELASTIC_USE_AGENT_STORE", launched.TOKEN):
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        return launched.launch.__wrapped__()

    return seen


TORCHRUN = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "here", "MASTER_PORT": "29500"}
SLURM = {"SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "4", "SLURM_STEP_NODELIST": "node[03-07,12]", "SLURM_JOB_ID": "7"}


def test_torchrun_and_slurm_are_known(launch):
    assert launch(**TORCHRUN) == launched.Launch(1, 2, "here", 29500, False)
    assert launch(**TORCHRUN, TORCHELASTIC_USE_AGENT_STORE="True").agent
    # As with etcd: rank 0 opens the store.
    assert not launch(**TORCHRUN, TORCHELASTIC_RUN_ID="none", TORCHELASTIC_USE_AGENT_STORE="False").agent


def test_slurm_is_known(launch):
    assert launch(**SLURM) == launched.Launch(3, 4, "node03", 20007, False)


@pytest.mark.parametrize(
    "variables",
    [
        {"RANK": "7"},
        TORCHRUN | {"WORLD_SIZE": "1"},
        TORCHRUN | {launched.TOKEN: "a rank of a group"},
        {"SLURM_PROCID": "0", "SLURM_NTASKS": "4"},  # in a batch script
    ],
)
def test_what_is_no_launcher_is_not_taken_for_one(launch, variables):
    assert launch(**variables) is None


@pytest.mark.usefixtures("new_interpreters")
def test_tests_that_use_nothing_of_the_plugin_run_as_ever_under_a_launcher(tmp_path):
    (tmp_path / "test_plain.py").write_text(
        "import sys\n\ndef test_plain():\n    assert 'torch' not in sys.modules\n", encoding="utf-8"
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    nobody = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "9"}
    run = start(tmp_path, "log", *PYTEST[:-1], "--junitxml=own.xml", **nobody)
    assert run.wait(timeout=100) == 0 and "1 passed" in (tmp_path / "log").read_text()
    assert (tmp_path / "own.xml").exists()


@pytest.mark.slow
@pytest.mark.parametrize("way", ["pytest", "torchrun", "two agents"])
def test_a_file_has_the_same_verdicts_and_one_report_however_it_is_started(tmp_path, way):
    (tmp_path / "test_ranks.py").write_text(TESTS, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    ways = {
        "pytest": [PYTEST],
        "torchrun": [(*AGENT, "--standalone", "--nproc-per-node", "2", *PYTEST)],
        "two agents": [two_agents(free_port())] * 2,
    }
    runs = [start(tmp_path, f"log-{i}", *command, "--junitxml=own.xml") for i, command in enumerate(ways[way])]
    statuses = [run.wait(timeout=200) for run in runs]
    logs = [(tmp_path / f"log-{i}").read_text() for i in range(len(runs))]
    print(*logs, sep="\n=====\n")
    assert statuses == [1] * len(runs)
    cases = ElementTree.parse(tmp_path / "own.xml").iter("testcase")
    verdicts = {case.attrib["name"]: [part.tag for part in case] for case in cases}
    on_rank_1 = "skipped" if way == "pytest" else "failure"
    assert verdicts == {
        "test_passes": [],
        "test_diverges": ["failure"],
        "test_fails_on_rank_1": [on_rank_1],
        "test_waits": [],
    }
    found = "rank-divergence: rank 1: call 1: graphs in diverging"
    assert [found in log for log in logs].count(True) == 1
    document = json.loads((tmp_path / "report" / "report.json").read_text())
    reported = {test["id"].rpartition("::")[2]: (test["outcome"], len(test["checks"])) for test in document["tests"]}
    assert reported["test_passes"] == ("passed", 2) and reported["test_diverges"] == ("failed", 2)


def test_a_rank_that_never_starts_is_lost_after_a_while(monkeypatch):
    monkeypatch.setattr(launched, "START_SECONDS", 3.0)
    lines = []
    others = launched.Others(launched.Launch(0, 3, "127.0.0.1", free_port(), False), lines.append)
    try:
        others.say("beat/2", "shown once")
        assert others.gather("never", range(1, 2), 30) == {}
        assert lines == ["rank 1: it did not start within 3 s after this rank started"]
        assert list(others.lost) == [1], "the one that has started may be silent for longer"
    finally:
        others.close()


def test_a_store_that_its_agent_no_longer_has_is_not_waited_for():
    with pytest.raises(
        RuntimeError, match=r"the store that the ranks share is no longer available.*Connection refused"
    ):
        launched.Others(launched.Launch(1, 2, "127.0.0.1", free_port(), True), print)


def test_tests_can_join_a_group_through_the_store_of_rank_0(monkeypatch):
    port = free_port()
    others = launched.Others(launched.Launch(0, 2, "127.0.0.1", port, False), print)
    try:
        own = torch.distributed.TCPStore(
            "127.0.0.1", port, 2, is_master=True, wait_for_workers=False, multi_tenant=True
        )
        own.set("key", "value")
    finally:
        others.close()
