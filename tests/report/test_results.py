"""Entries of the report show the user's own paths relative to the root directory."""

from __future__ import annotations

from pytest_torch_compile.findings import CallReport, CompileReport
from pytest_torch_compile.observation import FailedGuard, Location, Observation, Recompile
from pytest_torch_compile.report import results


def test_paths_in_guards_are_relative_to_the_root(tmp_path):
    text = f"unknown guard  # return x * n  # {tmp_path}/src/model.py:5 in forward"
    elsewhere = "unknown guard  # /opt/site-packages/torch/nn/modules/module.py:1 in call"
    guards = (FailedGuard("0/0", text, "n", "other"), FailedGuard("0/1", elsewhere, "n", "other"))
    place = Location(f"{tmp_path}/src/model.py", 4, "forward", "")
    seen = Observation(recompiles=[Recompile("forward", place, guards, call=2)])
    calls = [CallReport("call 1", "x", "recompiled", text)]
    report = CompileReport("model", "fullgraph", "inductor", "2.15.0", "cpu", observation=seen, calls=calls)
    entry = results.check_entry(report.to_dict(), tmp_path)
    (found,) = entry["recompiles"]
    assert found["location"]["file"] == "src/model.py"
    relative = "unknown guard  # return x * n  # src/model.py:5 in forward"
    assert [guard["text"] for guard in found["guards"]] == [relative, elsewhere]
    assert entry["calls"][0]["guard"] == relative
