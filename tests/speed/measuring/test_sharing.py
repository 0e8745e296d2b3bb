"""A compilation that shares a device says when it uses the device."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch._dynamo.callback

from pytest_torch_compile.speed.measuring import cores, sharing, turns


@pytest.fixture
def reported(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    events: list[str] = []
    monkeypatch.setattr(turns, "stop_using", lambda uuid: events.append(f"{uuid} is free"))
    monkeypatch.setattr(turns, "use_again", lambda uuid: events.append(f"{uuid} is in use"))
    monkeypatch.setattr(turns, "can_be_paused", lambda uuid: True)
    monkeypatch.setenv(cores.ALL, "0,1,2")
    yield events
    torch.compiler.reset()


def compile_something() -> None:
    torch.compile(lambda x: x + 1, backend="eager")(torch.ones(3))


@pytest.mark.skipif(
    not hasattr(torch._dynamo.callback, "CallbackTrigger"), reason="torch 2.6 does not report when a compilation starts"
)
def test_a_process_that_leaves_cores_free_reports_its_compilation(reported: list[str]) -> None:
    with sharing.sharing_the_device("GPU-1"):
        compile_something()
    assert reported == ["GPU-1 is free", "GPU-1 is in use"]


@pytest.mark.parametrize("reason", ["no cores are left free", "the process cannot be paused"])
def test_other_processes_report_nothing(reported: list[str], monkeypatch: pytest.MonkeyPatch, reason: str) -> None:
    if reason == "no cores are left free":
        monkeypatch.delenv(cores.ALL)
    else:
        monkeypatch.setattr(turns, "can_be_paused", lambda uuid: False)
    with sharing.sharing_the_device("GPU-1"):
        compile_something()
    assert reported == []
