"""Options that match nothing are named in the report, and are no failure."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from pytest_torch_compile import (  # noqa: E402
    CompileCheckFailed,
    Tolerance,
    Tolerances,
    call,
    check_compile,
    compile_guard,
)

X = torch.ones(4)
SEEN = []
LOOSE = Tolerance(rtol=0.1, atol=0.1)


def breaking(x):
    x = x.sin()
    torch._dynamo.graph_break()
    return x.cos()


def fingerprint():
    report = check_compile(breaking, X, backend="eager", max_graph_breaks=1)
    return report.graph_breaks[0].fingerprint


def test_accepted_break_that_is_gone_is_named():
    known = fingerprint()
    report = check_compile(breaking, X, backend="eager", accepted_breaks={known, "gb-gone", "gb-0ld"})
    assert report.ok
    assert report.remarks == [
        f"accepted_breaks: {name} matched no graph break in this check" for name in ("gb-0ld", "gb-gone")
    ]


def test_accepted_break_that_is_there_is_no_remark():
    assert check_compile(breaking, X, backend="eager", accepted_breaks=iter([fingerprint()])).remarks == []


def test_accepted_break_of_a_later_call_counts():
    def sometimes(x, broken):
        return breaking(x) if broken else x.sin()

    calls = [call(X, False), call(X, True)]
    report = check_compile(sometimes, calls=calls, backend="eager", max_graph_breaks=1, max_recompiles=1)
    known = report.graph_breaks[0].fingerprint
    found = check_compile(sometimes, calls=calls, backend="eager", accepted_breaks=[known], max_recompiles=1)
    assert found.remarks == []


def test_guard_names_them_too():
    reports = []
    from pytest_torch_compile.events import listening

    torch._dynamo.reset()
    with listening(reports.append), compile_guard(accepted_breaks=["gb-gone"]):
        torch.compile(lambda x: x.sin(), backend="eager")(X)
    assert reports[0].remarks == ["accepted_breaks: gb-gone matched no graph break in this check"]


@pytest.mark.parametrize(
    ("pattern", "used"),
    [("output", True), ("out*", True), ("argument x", True), ("output.logits", False), ("parameter *", False)],
)
def test_leaf_pattern_that_matches_nothing_is_named(pattern, used):
    report = check_compile(lambda x: x.sin(), X, backend="eager", tolerances=Tolerances(leaves={pattern: LOOSE}))
    expected = [] if used else [f"tolerances: the pattern {pattern!r} matched no value in this check"]
    assert report.ok and report.remarks == expected


def test_what_was_not_reached_is_not_remarked():
    def broken(gm, inputs):
        raise RuntimeError("of the backend")

    options = {"accepted_breaks": ["gb-gone"], "tolerances": Tolerances(leaves={"output.logits": LOOSE})}
    with pytest.raises(CompileCheckFailed) as failure:
        check_compile(breaking, X, backend=broken, **options)
    assert failure.value.report.remarks == []


def test_failure_shows_its_remarks():
    with pytest.raises(
        CompileCheckFailed, match="\n\nNote: accepted_breaks: gb-gone matched no graph break in this check\n"
    ):
        check_compile(breaking, X, backend="eager", accepted_breaks=["gb-gone"])


def test_state_that_is_left_out_and_is_not_there_is_named():
    def counts(x):
        SEEN.append(1)
        return x.sin()

    ignored = ["global SEEN*", "attribute cache*"]
    report = check_compile(counts, X, backend="eager", tolerances=Tolerances(ignored=ignored))
    assert report.remarks == ["tolerances: the pattern 'attribute cache*' matched no value in this check"]


def test_option_that_torch_takes_and_does_not_apply_is_named():
    """Torch 2.6 drops the options whose type is Optional."""
    options = {"cpp.simdlen": 1, "epilogue-fusion": False}
    report = check_compile(lambda x: x.sin() + 1, X, options=options)
    applied = torch._TorchCompileInductorWrapper(None, options, None).config
    dropped = [] if "cpp.simdlen" in applied else ["cpp.simdlen"]
    assert [remark.split("'")[1] for remark in report.remarks] == dropped
    assert all(remark.endswith("set torch._inductor.config.cpp.simdlen instead") for remark in report.remarks)
    assert dropped or not torch.__version__.startswith("2.6.")


def test_option_of_a_wrong_type_is_one_error():
    with pytest.raises(CompileCheckFailed) as failed:
        check_compile(lambda x: x.sin() + 1, X, options={"epilogue_fusion": "yes"})
    assert [finding.kind for finding in failed.value.findings] == ["compile-error"]
