"""Timing processes of one machine stand on cores of their own."""

import os
import subprocess
import sys
import threading

import pytest

from pytest_torch_compile.speed.measuring import cores

pytestmark = pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity"), reason="this system cannot bind a thread to a core"
)


@pytest.fixture
def ten_cores(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda thread: set(range(10)))


def test_each_holder_gets_other_cores_and_the_last_ones_when_none_are_left(ten_cores, tmp_path):
    with cores._free_cores(tmp_path) as first, cores._free_cores(tmp_path) as second:
        assert (first, second) == ({6, 7, 8, 9}, {2, 3, 4, 5})
        with cores._free_cores(tmp_path) as third:
            assert third == first


def test_cores_are_free_again_when_the_body_raises(ten_cores, tmp_path):
    with pytest.raises(KeyError), cores._free_cores(tmp_path) as first:
        raise KeyError
    with cores._free_cores(tmp_path) as again:
        assert again == first


def test_another_process_keeps_its_cores(ten_cores, tmp_path):
    hold = (
        "import os, pathlib, sys; os.sched_getaffinity = lambda thread: set(range(10))\n"
        "from pytest_torch_compile.speed.measuring.cores import _free_cores\n"
        f"with _free_cores(pathlib.Path({str(tmp_path)!r})): print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"held\n"
        with cores._free_cores(tmp_path) as mine:
            assert mine == {2, 3, 4, 5}
        other.stdin.close()


def test_a_lock_of_another_user_counts_as_taken(ten_cores, tmp_path, monkeypatch):
    def refuse(path, *flags):
        raise PermissionError(path)

    monkeypatch.setattr(os, "open", refuse)
    with cores._free_cores(tmp_path) as mine:
        assert mine == {6, 7, 8, 9}


def test_threads_are_moved_and_put_back(tmp_path):
    everywhere = os.sched_getaffinity(0)
    one = {min(everywhere)}
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    os.sched_setaffinity(thread.native_id, one)
    try:
        with cores.own_cores(tmp_path):
            allowed = os.sched_getaffinity(0)
            assert os.sched_getaffinity(thread.native_id) == allowed
            assert len(allowed) == min(cores.CORES, len(everywhere))
        assert os.sched_getaffinity(0) == everywhere
        assert os.sched_getaffinity(thread.native_id) == one
    finally:
        done.set()
        thread.join()


@pytest.fixture
def sixteen_cores(monkeypatch):
    moved = {}
    monkeypatch.setattr(os, "sched_getaffinity", lambda thread: moved.get(thread, set(range(16))))
    monkeypatch.setattr(os, "sched_setaffinity", moved.__setitem__)
    monkeypatch.setenv(cores.ALL, "")
    return moved


def test_a_process_that_compiles_leaves_the_cores_of_measurements_free(sixteen_cores, tmp_path):
    cores.leave_free(1)
    assert cores.are_free()
    assert {frozenset(allowed) for allowed in sixteen_cores.values()} == {frozenset(range(12))}
    cores.leave_free(1)  # as a process that it starts does
    assert {frozenset(allowed) for allowed in sixteen_cores.values()} == {frozenset(range(12))}
    with cores._free_cores(tmp_path) as mine:
        assert mine == {12, 13, 14, 15}


@pytest.mark.parametrize("devices", [0, 2])
def test_without_a_device_or_with_few_cores_for_each_no_core_is_left_free(sixteen_cores, devices):
    cores.leave_free(devices)
    assert not cores.are_free()
    assert not sixteen_cores
