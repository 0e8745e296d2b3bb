"""While a process measures, the other processes of speed tests on the same device are paused. The processes are real;
the device is a name.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_torch_compile.speed.measuring import device, turns

pytestmark = [
    pytest.mark.skipif(turns.pause is None, reason="this system cannot pause a process"),
    pytest.mark.usefixtures("new_interpreters"),  # the tests pause and kill the processes that they start
]

# Registers for a device, and then writes the time to a file, over and over.
COMPILES = """
import sys, time
from pathlib import Path
from pytest_torch_compile.speed.measuring import turns
turns.register(sys.argv[1], pausable=True)
print("registered", flush=True)
while True:
    Path(sys.argv[2]).write_text(str(time.monotonic()))
    time.sleep(0.005)
"""
# Registers for a device, runs, and uses the device only once there is a file.
USES_IT_LATER = """
import sys, time
from pathlib import Path
from pytest_torch_compile.speed.measuring import turns
turns.register(sys.argv[1], pausable=True)
print("registered", flush=True)
while True:
    Path(sys.argv[2]).write_text(str(time.monotonic()))
    if Path(sys.argv[4]).exists():
        device = open(sys.argv[3])
    time.sleep(0.005)
"""
# Registers for a device, compiles on the CPU until there is a file, and then uses the device, over and over.
COMPILES_ON_THE_CPU = """
import sys, time
from pathlib import Path
from pytest_torch_compile.speed.measuring import turns
turns.register(sys.argv[1], pausable=True)
turns.stop_using(sys.argv[1])
print("registered", flush=True)
while not Path(sys.argv[3]).exists():
    Path(sys.argv[2]).write_text(str(time.monotonic()))
    time.sleep(0.005)
turns.use_again(sys.argv[1])
while True:
    Path(sys.argv[4]).write_text(str(time.monotonic()))
    time.sleep(0.005)
"""
# Measures on a device until it is killed.
MEASURES = """
import sys, time
from pytest_torch_compile.speed.measuring import turns
turns.CUDA_FILE = ""
turns.register(sys.argv[1], pausable=True)
with turns.measuring(sys.argv[1]):
    print("measures", flush=True)
    time.sleep(60)
"""
# Runs a test that needs memory, until it is killed.
NEEDS = """
import sys, time
from pytest_torch_compile.speed.measuring import device, turns
device.nvidia_smi = lambda query: [["GPU-1", "100000"]]
turns.register("GPU-1", pausable=True)
with turns.memory_for_test("GPU-1", int(sys.argv[1]) or None):
    print("runs", flush=True)
    time.sleep(60)
"""
GB = 10**9
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture(autouse=True)
def nothing_is_registered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The files are in a folder of this test, also those of the processes that it starts."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(turns.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(turns, "_files", {})
    monkeypatch.setattr(turns, "_states", {})
    monkeypatch.setattr(turns, "_pausable", set())
    monkeypatch.setattr(turns, "_urgent", set())
    monkeypatch.setattr(turns, "_usable", {})
    # These processes do not use CUDA, so on a machine with a GPU they would not be paused.
    monkeypatch.setattr(turns, "CUDA_FILE", "")
    monkeypatch.delenv(device.HELD_LOCK, raising=False)
    yield
    for handle in turns._files.values():
        os.close(handle)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a process and waits for its first line; the process is killed at the end."""
    started: list[subprocess.Popen[str]] = []

    def begin(code: str, *arguments: str, inherits: bool = False) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", code, *arguments]
        environment = {name: value for name, value in os.environ.items() if inherits or name != device.HELD_LOCK}
        started.append(process := subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment))
        assert process.stdout and process.stdout.readline()
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def goes_on(file: Path, seconds: float = 20.0) -> bool:
    """Whether the process writes to its file within this time."""
    before = file.read_text() if file.exists() else ""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.01)
        if file.exists() and file.read_text() not in ("", before):
            return True
    return False


def state_of(process: subprocess.Popen[str]) -> str:
    """The letter under which the system shows the process's state; T is stopped."""
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]


def is_paused(process: subprocess.Popen[str]) -> bool:
    """Whether the process is stopped, or is stopped soon."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        if state_of(process) == "T":
            return True
        time.sleep(0.01)
    return False


def test_a_process_that_compiles_on_the_cpu_continues_until_it_uses_the_device(start: Start, tmp_path: Path) -> None:
    compiles, uses = tmp_path / "compiles", tmp_path / "uses"
    process = start(COMPILES_ON_THE_CPU, "GPU-1", str(compiles), str(tmp_path / "ends"), str(uses))
    turns.register("GPU-1", pausable=False)
    with turns.measuring("GPU-1"):
        assert goes_on(compiles)
        (tmp_path / "ends").touch()
        assert is_paused(process)
        assert not uses.exists()
    assert goes_on(uses)
    with turns.measuring("GPU-1"):
        assert is_paused(process)


def test_paused_processes_get_a_second_before_the_next_measurement(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[tuple[float, bool]] = []

    def sleep(seconds: float) -> None:
        ran.append((seconds, goes_on(tmp_path / "it", seconds=20 * seconds)))

    start(COMPILES, "GPU-1", str(tmp_path / "it"))
    turns.register("GPU-1", pausable=False)
    assert goes_on(tmp_path / "it")
    monkeypatch.setattr(turns, "time", SimpleNamespace(sleep=sleep))
    with turns.measuring("GPU-1"):
        pass
    # It is paused until its last kernels have finished, and while this process measures.
    assert ran == [(turns.SETTLE_SECONDS, False), (turns.SHARED_SECONDS, True)]
    assert not device.is_held("GPU-1")


def test_without_paused_processes_the_next_measurement_starts_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "time", SimpleNamespace(sleep=lambda seconds: pytest.fail(f"slept for {seconds} s")))
    turns.register("GPU-1", pausable=False)
    with turns.measuring("GPU-1"):
        pass


def test_waiting_to_use_the_device_again_ends_as_a_pause_does(monkeypatch: pytest.MonkeyPatch) -> None:
    turns.register("GPU-1", pausable=True)
    turns.stop_using("GPU-1")
    monkeypatch.setattr(turns.pause, "MOST_SECONDS", 0.2)
    with turns.machine_lock(turns._pausing("GPU-1")):
        turns.use_again("GPU-1")
    assert turns._states["GPU-1"].pausable == turns.pause.Pausable.ALWAYS


def test_a_process_that_compiles_on_the_cpu_is_paused_for_a_choice(start: Start, tmp_path: Path) -> None:
    compiles = tmp_path / "compiles"
    process = start(COMPILES_ON_THE_CPU, "GPU-1", str(compiles), str(tmp_path / "ends"), str(tmp_path / "uses"))
    turns.register("GPU-1", pausable=False)
    with turns.choosing("GPU-1"):
        assert is_paused(process)
    assert goes_on(compiles)


def test_a_choice_during_a_compilation_leaves_the_process_running(start: Start, tmp_path: Path) -> None:
    turns.register("GPU-1", pausable=True)
    turns.stop_using("GPU-1")
    with turns.choosing("GPU-1"):
        turns.use_again("GPU-1")  # the device is reserved for this process
        assert turns._states["GPU-1"].pausable == turns.pause.Pausable.NEVER
        turns.stop_using("GPU-1")
    assert turns._states["GPU-1"].pausable == turns.pause.Pausable.FOR_A_CHOICE
    turns.use_again("GPU-1")
    assert turns._states["GPU-1"].pausable == turns.pause.Pausable.ALWAYS


@pytest.mark.parametrize("urgent", [False, True])
def test_a_process_that_confirms_a_change_tries_more_often(urgent: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    intervals: list[float] = []
    acquire = device.machine_lock

    def watched(name: str, directory: Path | None = None) -> object:
        lock = acquire(name, directory)
        monkeypatch.setattr(lock, "acquire", lambda **options: intervals.append(options["poll_interval"]))
        return lock

    monkeypatch.setattr(device, "machine_lock", watched)
    turns.register("GPU-1", pausable=True, urgent=urgent)
    with turns.measuring("GPU-1"):
        pass
    assert intervals == [0.01 if urgent else 0.05]


def test_a_process_that_compiles_is_paused_while_another_measures(start: Start, tmp_path: Path) -> None:
    process = start(COMPILES, "GPU-1", str(tmp_path / "it"))
    turns.register("GPU-1", pausable=False)
    assert goes_on(tmp_path / "it")
    with turns.measuring("GPU-1"):
        assert is_paused(process)
    assert goes_on(tmp_path / "it")
    with pytest.raises(KeyError), turns.measuring("GPU-1"):
        raise KeyError
    assert goes_on(tmp_path / "it"), "also after an error"


def test_a_process_that_starts_while_another_measures_is_paused(start: Start, tmp_path: Path) -> None:
    with turns.measuring("GPU-1"):
        # It may be paused before it can say that it is registered.
        assert is_paused(start("print('starts', flush=True)" + COMPILES, "GPU-1", str(tmp_path / "it")))
    assert goes_on(tmp_path / "it")


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="this system does not show which files are open")
def test_a_process_is_paused_only_once_it_uses_the_gpu(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (gpu := tmp_path / "nvidia-uvm").touch()
    monkeypatch.setattr(turns, "CUDA_FILE", str(gpu))
    arguments = [str(tmp_path / "it"), str(gpu), str(tmp_path / "now")]
    on_gpu, on_cpu = start(USES_IT_LATER, "GPU-1", *arguments), start(USES_IT_LATER, "cpu", *arguments)
    with turns.measuring("GPU-1"):
        time.sleep(0.3)
        assert state_of(on_gpu) != "T" and goes_on(tmp_path / "it")
        (tmp_path / "now").touch()
        assert is_paused(on_gpu)
    (tmp_path / "now").unlink()
    with turns.measuring("cpu"):
        assert is_paused(on_cpu), "nothing shows whether a process uses the CPU"


def test_processes_of_another_device_go_on(start: Start, tmp_path: Path) -> None:
    start(COMPILES, "GPU-2", str(tmp_path / "it"))
    with turns.measuring("GPU-1"):
        assert goes_on(tmp_path / "it")
    assert not list(tmp_path.glob("*GPU-1-*")), "only a registered process has a file"


@pytest.mark.parametrize("group", [False, True], ids=["the process", "its process group"])
def test_the_others_go_on_if_the_process_that_measures_is_killed(start: Start, tmp_path: Path, group: bool) -> None:
    code = "import os\nos.setsid()\n" + MEASURES if group else MEASURES
    process = start(COMPILES, "GPU-1", str(tmp_path / "it"))
    measures = start(code, "GPU-1")
    assert is_paused(process)
    os.killpg(measures.pid, signal.SIGKILL) if group else measures.kill()
    measures.wait()
    assert goes_on(tmp_path / "it")
    with turns.measuring("GPU-1", wait=10):
        assert is_paused(process)


def test_processes_take_turns_and_the_one_that_waits_is_told_when_its_time_is_up(start: Start) -> None:
    start(MEASURES, "GPU-1")
    with pytest.raises(device.DeviceBusy, match="still using the device"), turns.measuring("GPU-1", wait=0.2):
        pass
    with turns.measuring("GPU-2", wait=0.2):
        pass


def test_a_process_that_the_measuring_process_starts_takes_part_in_its_turn(start: Start, tmp_path: Path) -> None:
    """So are cold starts measured: in fresh processes, while everything else is paused."""
    with turns.measuring("GPU-1"):
        assert device.is_held("GPU-1")
        start(COMPILES, "GPU-1", str(tmp_path / "it"), inherits=True)
        start(MEASURES, "GPU-1", inherits=True)
        time.sleep(0.3)
        assert goes_on(tmp_path / "it")
    assert not device.is_held("GPU-1")


def test_users_of_a_device_are_counted_until_they_exit(start: Start, tmp_path: Path) -> None:
    assert turns.users("GPU-1") == 1
    process = start(COMPILES, "GPU-1", str(tmp_path / "it"))
    start(COMPILES, "GPU-2", str(tmp_path / "other"))
    assert turns.users("GPU-1") == 2
    turns.register("GPU-1", pausable=False)
    turns.register("GPU-1", pausable=False)
    assert turns.users("GPU-1") == 2
    process.kill()
    process.wait()
    assert turns.users("GPU-1") == 1
    assert [path.name.rpartition("-")[2] for path in tmp_path.glob("*GPU-1-*")] == [str(os.getpid())]


@pytest.fixture
def gpu_of_105_gb(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests may reserve 94 GB, less 2 GB for each process."""
    monkeypatch.setattr(device, "nvidia_smi", lambda query: [["GPU-1", "100000"]])
    turns.register("GPU-1", pausable=False)


def starts_now(needed: int | None) -> bool:
    """Whether a test may start in addition to those that run."""
    turns._usable["GPU-1"] = round(94.4 * GB)
    free = turns._reserve("GPU-1", 94 * GB if needed is None else needed)
    turns._set("GPU-1", reserved=0)
    return free


@pytest.mark.usefixtures("gpu_of_105_gb")
def test_a_test_starts_if_the_memory_suffices(start: Start) -> None:
    assert starts_now(10 * GB) and starts_now(None)
    start(NEEDS, str(50 * GB))
    assert starts_now(35 * GB)
    assert not starts_now(45 * GB)
    assert not starts_now(None), "a test that needs an unknown amount runs alone"


@pytest.mark.usefixtures("gpu_of_105_gb")
def test_nothing_runs_beside_a_test_whose_memory_is_unknown(start: Start) -> None:
    process = start(NEEDS, "0")
    assert not starts_now(1)
    process.kill()
    process.wait()
    assert starts_now(1), "the memory of a process that was killed is free"


@pytest.mark.usefixtures("gpu_of_105_gb")
def test_a_test_that_never_fits_runs_alone() -> None:
    assert starts_now(500 * GB)


@pytest.mark.usefixtures("gpu_of_105_gb")
def test_a_test_waits_for_memory_and_returns_it(start: Start, tmp_path: Path) -> None:
    process = start(NEEDS, str(90 * GB))
    threading.Timer(0.5, process.kill).start()
    with turns.memory_for_test("GPU-1", 60 * GB):
        assert process.wait(10)
        assert reserved(tmp_path) == 60 * GB
    assert reserved(tmp_path) == 0


@pytest.mark.usefixtures("gpu_of_105_gb")
def test_a_test_reserves_more_memory_while_others_leave_it(start: Start, tmp_path: Path) -> None:
    process = start(NEEDS, str(30 * GB))
    with turns.memory_for_test("GPU-1", 20 * GB):
        with turns.more_memory("GPU-1", 15 * GB) as first, turns.more_memory("GPU-1", 15 * GB) as second:
            assert first and second
            assert reserved(tmp_path, beside=process) == 50 * GB
            with turns.more_memory("GPU-1", 15 * GB) as third:
                assert not third, "30 + 20 + 3 * 15 GB are more than there is"
            assert reserved(tmp_path, beside=process) == 50 * GB
        assert reserved(tmp_path, beside=process) == 20 * GB


@pytest.mark.usefixtures("gpu_of_105_gb")
@pytest.mark.parametrize("needed", [None, 500 * GB])
def test_a_test_that_does_not_share_the_device_may_use_more_memory(needed: int | None) -> None:
    with turns.memory_for_test("GPU-1", needed), turns.more_memory("GPU-1", 500 * GB) as free:
        assert free


def test_more_memory_is_free_on_a_device_that_is_not_shared() -> None:
    with turns.more_memory("cpu", 500 * GB) as free:
        assert free


def reserved(folder: Path, beside: subprocess.Popen[str] | None = None) -> int:
    """What this process's file says."""
    (file,) = [path for path in folder.glob("*GPU-1-*") if beside is None or not path.name.endswith(f"-{beside.pid}")]
    return int(file.read_text().split()[1])


def test_two_processes_that_measure_on_different_devices_do_not_pause_each_other(start: Start, tmp_path: Path) -> None:
    turns.register("cpu", pausable=False)
    process = start(COMPILES, "GPU-1", str(tmp_path / "it"))
    with turns.measuring("cpu"):
        with turns.measuring("GPU-1"):
            assert is_paused(process)
        assert goes_on(tmp_path / "it")


def test_a_session_without_workers_is_never_paused(start: Start) -> None:
    code = COMPILES.replace("pausable=True", "pausable=False")
    process = start(code, "GPU-1", os.devnull)
    start(MEASURES, "GPU-1")
    assert turns.users("GPU-1") == 3
    time.sleep(0.3)
    assert state_of(process) != "T"


def test_a_forked_process_neither_holds_a_turn_nor_the_file(start: Start, tmp_path: Path) -> None:
    turns.register("GPU-1", pausable=True)
    begin = time.monotonic()
    with turns.measuring("GPU-1"):
        if not (child := os.fork()):
            time.sleep(30)
            os._exit(0)
    assert time.monotonic() - begin < 20, "the end of the turn does not wait for the forked process"
    os.close(turns._files.pop("GPU-1"))
    end = time.monotonic() + 20
    while turns.pause.living(turns._prefix("GPU-1")) and time.monotonic() < end:
        time.sleep(0.01)  # the forked process may not have run yet
    assert time.monotonic() < end, "the forked process does not keep the file locked"
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def test_the_others_go_on_if_the_process_that_pauses_them_is_killed(start: Start, tmp_path: Path) -> None:
    process = start(COMPILES, "GPU-1", str(tmp_path / "it"))
    with turns.measuring("GPU-1"):
        assert is_paused(process)
        (guardian,) = (
            int(pid)
            for pid in os.listdir("/proc")
            if pid.isdigit() and parent_of(pid) == os.getpid() and runs_pause(pid)
        )
        os.kill(guardian, signal.SIGKILL)
    assert goes_on(tmp_path / "it")


def parent_of(process: str) -> int:
    try:
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def runs_pause(process: str) -> bool:
    return b"pause.py" in Path(f"/proc/{process}/cmdline").read_bytes()
