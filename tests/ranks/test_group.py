"""Ranks: real processes of one group, one failure for all of them, a time limit, and no process left behind."""

from __future__ import annotations

import _thread
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import types
import unittest
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import pytest_torch_compile as ptc  # noqa: E402
from pytest_torch_compile import (  # noqa: E402
    CompileCheckFailed,
    CompileUsageError,
    Finding,
    Location,
    RankGroup,
    run_ranks,
    settings,
)
from pytest_torch_compile.ranks.failures import merged, processes_with  # noqa: E402
from pytest_torch_compile.ranks.launched import TOKEN  # noqa: E402
from pytest_torch_compile.ranks.rank import Outcome  # noqa: E402
from pytest_torch_compile.ranks.transport import user_modules  # noqa: E402
from pytest_torch_compile.report.failure_text import headline  # noqa: E402

pytestmark = [
    pytest.mark.distributed,
    pytest.mark.skipif(not torch.distributed.is_available(), reason="torch was built without torch.distributed"),
]
WORKER = "RANKS_OF_TEST_WORKER"


def rank():
    return torch.distributed.get_rank()


def summed(number, scale=1):
    total = torch.tensor([float(rank() + number) * scale])
    torch.distributed.all_reduce(total)
    return {"rank": rank(), "total": total, "environment": os.environ["LOCAL_RANK"], "pid": os.getpid()}


def doubled(x):
    return x * 2


def broken(x):
    if x.sum() > 0:
        return x + 1
    return x - 1


def checked(target):
    return ptc.check_compile(target, torch.ones(4), backend="eager").graphs[0].ops


def checked_on_one(target):
    torch.distributed.barrier()
    if rank() == 1:
        ptc.check_compile(target, torch.ones(4), backend="eager")


def guarded():
    with ptc.compile_guard(max_graph_breaks=0):
        torch.compile(broken, backend="eager")(torch.ones(4) + rank())


def raising_on_one():
    if rank() == 1:
        raise ValueError("planted on one rank")
    torch.distributed.barrier()


def raising_everywhere():
    raise RuntimeError(f"planted on all, {0.25 + rank()} apart")


def hanging():
    print("going to hang")
    if rank() == 0:
        torch.distributed.barrier()
    else:
        time.sleep(600)


def dying(how):
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    if rank() == 1:
        how(1)
    torch.distributed.barrier()


def crash(code):
    os.kill(os.getpid(), signal.SIGSEGV)


def give_what_cannot_be_sent():
    return lambda: None


@pytest.fixture(autouse=True)
def marked(monkeypatch):
    """Tells the ranks of this worker of pytest-xdist from those of others, which run at the same time."""
    monkeypatch.setenv(WORKER, str(os.getpid()))


def others_left(group: RankGroup) -> list[int]:
    """Ranks that any group of this worker has left behind, a moment after it ended, without those of ``group``."""
    deadline = time.monotonic() + 5
    mine = {rank.process.pid for rank in group._ranks}

    def found() -> list[int]:
        ranks = set(processes_with(f"{TOKEN}=")) & set(processes_with(f"{WORKER}={os.getpid()}\0"))
        return sorted(ranks - mine)

    while (left := found()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def failure_of(group, function, *args, **options) -> CompileCheckFailed:
    with pytest.raises(CompileCheckFailed) as caught:
        group.run(function, *args, **options)
    return caught.value


def test_each_rank_answers_with_what_its_function_returned():
    first, second = run_ranks(summed, 2, 1.0)
    assert (first["rank"], second["rank"]) == (0, 1)
    assert first["total"].item() == second["total"].item() == 3.0
    assert second["environment"] == "1" and first["pid"] != second["pid"]


def test_a_group_keeps_its_processes_and_forgets_what_was_compiled(ranks):
    before = ranks.run(summed, 1.0)
    ops = ranks.run(checked, doubled)
    again = ranks.run(checked, doubled)
    after = ranks.run(partial(summed, 1.0, scale=2))
    assert [one["pid"] for one in before] == [one["pid"] for one in after]
    assert ops == again and len(ops) == 2 and all(len(found) == 1 for found in ops)
    assert after[0]["total"].item() == 6.0


def test_a_generated_module_below_an_installed_package_does_not_take_its_place(monkeypatch):
    module = types.ModuleType("torch._made_by_a_compiler")
    module.__file__ = __file__
    monkeypatch.setitem(sys.modules, module.__name__, module)
    assert not [name for name in user_modules() if name.partition(".")[0] == "torch"]


def test_a_nested_function_that_closes_over_a_local_is_sent(ranks):
    numbers = [2.0, 3.0]

    def added():
        return sum(numbers) + rank()

    assert ranks.run(added) == [5.0, 6.0]
    assert ranks.run(lambda x: x * numbers[1], 2.0) == [6.0, 6.0]


def test_checks_on_ranks_stand_in_the_report_of_the_test(ranks):
    from pytest_torch_compile.events import listening

    heard = []
    with listening(heard.append):
        ranks.run(checked, doubled)
    assert sorted(report.target for report in heard) == ["doubled (rank 0)", "doubled (rank 1)"]


def test_the_same_finding_on_all_ranks_is_told_once(ranks):
    failed = failure_of(ranks, checked, broken)
    (finding,) = failed.findings
    assert (finding.kind, finding.ranks) == ("graph-break", (0, 1))
    assert "1. graph-break: ranks 0, 1: graph break" in str(failed)
    assert finding.location.source == "if x.sum() > 0:"
    assert failed.report.target == "broken (ranks 0, 1 of 2, checked)"
    assert "test_the_same_finding_on_all_ranks_is_told_once'" in str(failed)


def test_a_finding_on_one_rank_names_it(ranks):
    failed = failure_of(ranks, checked_on_one, broken)
    assert [finding.ranks for finding in failed.findings] == [(1,)]


def test_a_guard_on_ranks_is_a_check_like_any_other(ranks):
    failed = failure_of(ranks, guarded)
    assert [(finding.kind, finding.ranks) for finding in failed.findings] == [("graph-break", (0, 1))]


def test_an_exception_on_all_ranks_is_told_once_and_does_not_spoil_the_group(ranks):
    before = ranks.run(summed, 1.0)
    (finding,) = failure_of(ranks, raising_everywhere).findings
    assert finding.ranks == (0, 1)
    assert finding.message in [f"RuntimeError: planted on all, {x} apart" for x in (0.25, 1.25)]
    assert [one["pid"] for one in ranks.run(summed, 1.0)] == [one["pid"] for one in before]


def skipping(on_all):
    if on_all or rank() == 0:
        pytest.skip("needs a newer torch")
    raise ValueError("this rank is wrong")


def test_ranks_can_skip_the_test_unless_another_rank_fails(ranks):
    with pytest.raises(unittest.SkipTest, match="needs a newer torch"):
        ranks.run(skipping, True)
    assert "this rank is wrong" in str(failure_of(ranks, skipping, False))


def refusing():
    raise CompileCheckFailed("not as agreed")


def test_a_failed_check_without_findings_is_a_failure(ranks):
    assert "not as agreed" in str(failure_of(ranks, refusing))


def test_ranks_do_not_run_the_main_script_again(tmp_path):
    script = tmp_path / "runtests.py"
    module = tmp_path / "work_of_ranks.py"
    module.write_text("import os\nRANK = int(os.environ['RANK'])\n\ndef rank():\n    return RANK\n")
    script.write_text(
        "import os\nos.environ['RANK'] = '7'\nimport work_of_ranks\nfrom pytest_torch_compile import run_ranks\n"
        "print('started', run_ranks(work_of_ranks.rank, 2))\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=False)
    printed = [line for line in done.stdout.splitlines() if "[Gloo]" not in line]  # torch 2.8 prints who is connected
    assert printed == ["started [0, 1]"], done.stderr


def test_a_return_value_that_cannot_be_sent_back_is_told(ranks):
    assert "give_what_cannot_be_sent" in str(failure_of(ranks, give_what_cannot_be_sent))


def test_an_exception_on_one_rank_ends_the_others_and_says_where_they_were(ranks):
    start = time.monotonic()
    (finding,) = failure_of(ranks, raising_on_one, timeout=100).findings
    assert time.monotonic() - start < 60
    assert (finding.kind, finding.ranks) == ("exception", (1,))
    assert finding.message == "ValueError: planted on one rank"
    assert finding.location.function == "raising_on_one" and finding.location.source.startswith("raise ValueError")
    assert "rank 0 was at" in finding.evidence and "in barrier" in finding.evidence


def test_a_hang_ends_at_the_time_limit_and_says_where_each_rank_was(ranks, capsys):
    ranks.run(summed, 1.0)
    failed = failure_of(ranks, hanging, timeout=2)
    (finding,) = failed.findings
    assert headline(finding) == "ranks 0, 1: did not finish within 2 s" and finding.limit == 2
    assert f"rank 0 was at {os.path.relpath(__file__)}" in finding.evidence and "in barrier" in finding.evidence
    assert "rank 1 was at" in finding.evidence and finding.location.function == "hanging"
    assert "hanging failed when run on 2 ranks: 1 finding" in str(failed)
    assert "[rank 0] going to hang" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("how", "says"),
    [(crash, "was killed by SIGSEGV"), (sys.exit, "ended with exit code 1")],
    ids=["crash", "exit"],
)
def test_a_rank_that_dies_ends_the_others_and_leaves_no_process(how, says, ranks):
    (finding,) = failure_of(ranks, dying, how).findings
    assert headline(finding) == f"rank 1: {says} before it returned a result"
    assert not others_left(ranks)


@pytest.fixture
def interrupts():
    """Ctrl-C raises, as in a main process: workers of pytest-xdist ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_leaves_no_process(ranks, interrupts):
    threading.Timer(3, _thread.interrupt_main).start()
    with pytest.raises(KeyboardInterrupt):
        run_ranks(time.sleep, 1, 600)
    assert not others_left(ranks)


def test_ranks_end_when_their_parent_is_killed(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
        import os, pathlib, time
        from pytest_torch_compile import run_ranks

        def wait(folder):
            pathlib.Path(folder, f"pid-{os.environ['RANK']}").write_text(str(os.getpid()))
            time.sleep(600)

        if __name__ == "__main__":
            run_ranks(wait, 1, os.path.dirname(__file__))
        """)
    )
    process = subprocess.Popen(
        [sys.executable, str(script)], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    )
    pid = int(wait_for(tmp_path / "pid-0"))
    process.kill()
    process.wait()
    deadline = time.monotonic() + 10
    while runs(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not runs(pid)


def wait_for(path: Path) -> str:
    deadline = time.monotonic() + 40
    while not (path.exists() and path.read_text()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return path.read_text()


def runs(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status")
    try:
        return "State:\tZ" not in status.read_text()
    except OSError:
        return False


def test_what_cannot_be_sent_is_said_before_any_rank_starts():
    lock = threading.Lock()
    with pytest.raises(CompileUsageError, match="Create models and other objects inside the function"):
        run_ranks(lambda: lock)


def test_a_nested_function_without_cloudpickle_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(CompileUsageError, match=r"pip install 'pytest-torch-compile\[ranks\]'"):
        run_ranks(lambda: None)


def outcome_with(rank, **fields):
    return Outcome(rank, findings=(Finding(**{"kind": "numerics", "message": "output differs from eager", **fields}),))


def test_findings_of_ranks_are_one_where_only_what_was_measured_differs():
    ranks = [outcome_with(n, subject="output", measured=0.1 * n, limit=0.01, message=f"is {n}") for n in (1, 0)]
    assert [(finding.ranks, finding.message) for finding in merged(ranks)] == [((0, 1), "is 1")]


@pytest.mark.parametrize("field", ["kind", "message", "subject", "calls", "location"])
def test_findings_of_ranks_that_are_about_something_else_stay_apart(field):
    other = {"kind": "gradient", "calls": (2,), "location": Location("model.py", 3)}.get(field, "another")
    findings = merged([outcome_with(0), outcome_with(1, **{field: other})])
    assert [finding.ranks for finding in findings] == [(0,), (1,)]


def test_options_of_the_test_run_apply_on_ranks(ranks, monkeypatch):
    monkeypatch.setattr(settings, "current", replace(settings.current, backend="aot_eager", diagnose="full"))
    assert ranks.run(options) == [settings.current] * 2


def options():
    return settings.current


def test_nccl_without_devices_says_so(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(
        CompileUsageError, match="one CUDA device per rank: 2 are required on this machine, but it has only 1"
    ):
        run_ranks(summed, 2, 1.0, backend="nccl")


def test_a_group_of_no_ranks_is_refused():
    with pytest.raises(CompileUsageError, match="must be at least 1"):
        RankGroup(0)


@pytest.mark.multi_gpu
@pytest.mark.gpu
def test_ranks_have_a_device_each_under_nccl():
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two CUDA devices")
    assert run_ranks(device_of, 2, backend="nccl") == [(0, 1.0), (1, 1.0)]


def device_of():
    total = torch.full((1,), 0.5, device="cuda")
    torch.distributed.all_reduce(total)
    return torch.cuda.current_device(), total.item()


def test_a_function_of_a_test_file_is_found_under_the_importlib_mode_and_workers(pytester, monkeypatch):
    pytester.mkdir("deep")
    pytester.path.joinpath("deep", "helpers.py").write_text(
        "WORD = 'from a sibling'\ndef doubled(x):\n    return x * 2\n"
    )
    pytester.path.joinpath("deep", "test_it.py").write_text(
        textwrap.dedent("""
        import torch
        import torch.distributed as dist
        from pytest_torch_compile import check_compile, run_ranks
        from .helpers import WORD, doubled

        def word(number):
            return f"{WORD} {dist.get_rank() + number}"

        def test_ranks():
            assert run_ranks(word, 1, 1) == ["from a sibling 1"]

        def test_nested_function():
            def twice(number):
                return check_compile(lambda x: doubled(x) + number, torch.ones(2), backend="eager").graphs[0].ops

            (ops,) = run_ranks(twice, 1, 1)
            assert len(ops) == 2
        """)
    )
    pytester.path.joinpath("deep", "__init__.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(str(Path(entry).resolve()) for entry in sys.path))
    workers = ["-n", "1"] if has_xdist() else []
    result = pytester.runpytest_subprocess("--import-mode=importlib", "-p", "no:cacheprovider", *workers, "deep")
    result.assert_outcomes(passed=2)


def has_xdist() -> bool:
    from importlib.util import find_spec

    return find_spec("xdist") is not None
