"""How the time is shared: what is rare comes first."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from pytest_torch_compile.existing.checking import Checked  # noqa: E402
from pytest_torch_compile.existing.ledger import KEPT, LIKE_OTHERS, NOT_LOOKED_AT, OUT_OF_TIME, Family, Ledger, Noticed  # noqa: E402
from pytest_torch_compile.existing.run_time import RunTime, now  # noqa: E402
from pytest_torch_compile.existing.signature import AutomaticDynamic, Signature  # noqa: E402
from pytest_torch_compile.existing.verdicts import IDLE, UNCHECKED, rows  # noqa: E402

OLD, NEW = {("a.py", 1, 2)}, {("a.py", 1, 2), ("a.py", 1, 3)}


def noted(ledger, sizes, **result):
    """A call of the target f in the ledger, with the result of its check; None where no check was wanted."""
    seen = Signature(("f",), sizes)
    family = ledger.wants("f", seen)
    if family is not None:
        ledger.note(family, Checked("f", "test", **result), (torch.ones(sizes),), {}, seen)
    return family


@pytest.fixture
def half_way():
    """Half of the tests have run, and all of the time that is due by then is used up."""
    ledger = Ledger(RunTime(100.0), most_shapes=4)
    noted(ledger, (2,), seconds=0.1)
    assert not ledger.why_not("f", OLD, False)
    ledger.time.progress, ledger.time.on_checks = 0.5, 50.0
    return ledger


def test_call_that_runs_no_new_line_waits(half_way):
    assert half_way.why_not("f", OLD, False) == LIKE_OTHERS
    assert noted(half_way, (3,), passed_over=LIKE_OTHERS) is not None
    assert half_way.targets["f"].left_out == {LIKE_OTHERS: 1}
    assert noted(half_way, (3,)) is None  # it is not looked at again


def test_call_that_runs_a_new_line_does_not_wait(half_way):
    assert not half_way.why_not("f", NEW, False)
    assert half_way.why_not("f", NEW, False) == LIKE_OTHERS


def test_time_is_kept_for_the_first_calls_of_targets_to_come(half_way):
    half_way.results.clear()
    half_way.targets["g"] = Noticed()
    assert not half_way.why_not("g", OLD, False)
    for name, seconds in (("g", 20.0), ("h", 10.0)):
        half_way.targets.setdefault(name, Noticed())
        half_way.note(Family(), Checked(name, "test", report=object(), seconds=seconds), (), {}, Signature((name,), ()))
    half_way.time.on_checks = 80.0  # 20 seconds are left; the second half needs 30 if it is like the first
    assert half_way.why_not("f", NEW, False) == KEPT
    assert not noted(half_way, (3,), passed_over=KEPT).seen & {(3,)}  # it is looked at again
    half_way.time.progress = 0.9
    assert not half_way.why_not("f", NEW, False)


def test_call_that_is_checked_later_is_no_longer_skipped(half_way):
    assert noted(half_way, (3,), passed_over=KEPT) is not None
    assert half_way.targets["f"].left_out == {KEPT: 1}
    noted(half_way, (3,), report=object())
    assert half_way.targets["f"].left_out == {}


def test_first_gradients_do_not_wait(half_way):
    assert not half_way.why_not("f", OLD, True)
    assert half_way.why_not("f", OLD, True) == LIKE_OTHERS


def test_nothing_is_wanted_when_all_of_the_time_is_used_up(half_way):
    half_way.time.on_checks = 100.0
    assert noted(half_way, (3,)) is None
    assert half_way.targets["f"].left_out == {OUT_OF_TIME: 1}


def test_target_whose_check_took_too_long_is_not_tried_again():
    ledger = Ledger(RunTime(100.0), most_shapes=4)
    too_long = {"refused": "the check took longer than 10 s", "took_too_long": True}
    assert noted(ledger, (2,), **too_long) is not None
    assert ledger.wants("f", Signature(("f", "another family"), (2,))) is None
    assert ledger.targets["f"].left_out == {"the check took longer than 10 s": 1}


def test_runs_that_only_look_for_new_lines_are_bounded(half_way):
    family = half_way.wants("f", Signature(("f", 1), (2,)))
    half_way.note(
        family, Checked("f", "test", seconds=10.0, passed_over=LIKE_OTHERS), (), {}, Signature(("f", 1), (2,))
    )
    half_way.targets["f"].checks = 1
    assert half_way.wants("f", Signature(("f", 2), (2,))) is None
    assert NOT_LOOKED_AT in half_way.targets["f"].left_out
    assert half_way.wants("g", Signature(("g",), (2,))) is not None  # the first call of a target is always looked at
    half_way.time.on_checks = 40.0  # less than half of the time, and no other target needs any
    assert half_way.wants("f", Signature(("f", 2), (2,))) is not None
    half_way.targets["h"] = Noticed()
    half_way.note(Family(), Checked("h", "test", report=object(), seconds=30.0), (), {}, Signature(("h",), ()))
    assert half_way.wants("f", Signature(("f", 3), (2,))) is None  # the targets to come need 30 of the 60 seconds


def test_refused_call_is_tried_in_other_tests():
    ledger = Ledger(RunTime(100.0), most_shapes=4)
    tried = [noted(ledger, (2,), refused="code was compiled earlier in the test") is not None for _ in range(5)]
    assert tried == [True, True, True, False, False]


def test_recompiles_that_sizes_need_are_known():
    counts = []
    dynamic = AutomaticDynamic()
    for sizes in [(4, 3), (8, 3), (16, 3), (1, 3), (0, 3), (5, 3), (5, 7)]:
        dynamic.add(sizes)
        counts.append(dynamic.recompiles)
    assert counts == [0, 1, 1, 2, 3, 3, 4]


def test_equal_sizes_are_one_symbol():
    dynamic = AutomaticDynamic()
    for sizes in [(2, 2), (3, 3), (4, 4)]:
        dynamic.add(sizes)
    assert dynamic.recompiles == 1 and not dynamic.covers((4, 5))


@pytest.mark.parametrize(
    ("plain", "limit"),
    [(20.0, 75.0), (40.0, 64.0), (50.0, 80.0), (500.0, 100.0)],
)
def test_run_with_its_checks_is_no_longer_than_the_time_or_three_plain_runs(plain, limit):
    time = RunTime(100.0, began=now() - 10.0)
    time.note_progress(0.01)  # the tests have not begun to take time: 10 seconds to start
    time.began -= (plain - 10.0) / 4 + 7.0
    time.progress, time.on_checks = 0.25, 7.0
    assert time.plain == pytest.approx(plain, abs=0.1)
    assert time.limit == pytest.approx(limit, abs=0.2)
    assert time.plain + time.limit <= max(100.0, 3 * time.plain)


def test_check_that_would_end_too_late_does_not_begin(half_way):
    half_way.note(Family(), Checked("f", "test", report=object(), seconds=30.0), (), {}, Signature(("f",), ()))
    half_way.time.on_checks = 60.0
    assert noted(half_way, (3,)) is not None
    half_way.time.on_checks = 80.0  # 20 seconds are left, and the checks took 30
    assert noted(half_way, (5,)) is None
    assert half_way.targets["f"].left_out[OUT_OF_TIME] == 1


def test_target_whose_tried_calls_compute_nothing_says_so():
    idle = Checked("somelib.f", "test_a", computes=False)
    (row,) = rows([idle], {"somelib.f": {NOT_LOOKED_AT: 2}}, "somelib")
    assert row.verdict == UNCHECKED and row.detail == f"{IDLE}; {NOT_LOOKED_AT}"
    assert not rows([idle], {"somelib.f": {}}, "somelib")


@pytest.mark.parametrize(("plain", "observing"), [(30.0, 20.0), (60.0, 60.0), (100.0, 100.0), (60.0, 150.0)])
def test_run_whose_tests_are_slow_to_observe_is_within_its_limit(monkeypatch, plain, observing):
    clock = [0.0]
    monkeypatch.setattr("pytest_torch_compile.existing.run_time.now", lambda: clock[0])
    time = RunTime(150.0, began=0.0)
    for number in range(100):
        time.note_progress((number + 1) / 100)
        clock[0] += (plain + observing) / 100
        time.observing += observing / 100
        with time.spending():
            clock[0] += time.left
    assert clock[0] <= max(150.0, 3 * plain, plain + observing) + 0.1
