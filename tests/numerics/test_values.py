"""Values: each rule with a planted wrong case and an innocent look-alike."""

from __future__ import annotations

import math

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from pytest_torch_compile import CompileUsageError
from pytest_torch_compile.findings import Reference
from pytest_torch_compile.numerics import (
    CallRecord,
    Comparison,
    ExtraRuns,
    Tolerance,
    Tolerances,
    compare_call,
    flatten,
    measure,
    rule,
)
from pytest_torch_compile.report.failure_text import headline


class Asked:
    """A leg that counts how often it was asked for its record."""

    def __init__(self, record: CallRecord | None = None) -> None:
        self.record = record
        self.times = 0

    def __call__(self) -> CallRecord | None:
        self.times += 1
        return self.record


def compare(eager, compiled, reference=None, repeat=None, tolerances=None, perturbed=(), strongly=()) -> Comparison:
    as_record = lambda value: value if isinstance(value, CallRecord) else CallRecord(output=value)  # noqa: E731
    return compare_call(
        as_record(eager),
        as_record(compiled),
        ExtraRuns(
            float64=Asked(as_record(reference) if reference is not None else None),
            repeat=Asked(as_record(repeat if repeat is not None else eager)),
            perturbed=lambda: (as_record(value) for value in perturbed),
            strongly_perturbed=lambda: (as_record(value) for value in strongly),
        ),
        tolerances or Tolerances(),
    )


def kinds(comparison: Comparison) -> list[str]:
    return [finding.kind for finding in comparison.findings]


def noisy(true: torch.Tensor, relative: float, dtype: torch.dtype, seed: int) -> torch.Tensor:
    noise = torch.randn(true.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return (true + relative * noise * true.square().mean().sqrt()).to(dtype)


@pytest.fixture
def true() -> torch.Tensor:
    return torch.randn(64, 128, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_equal_values_ask_for_nothing(true):
    reference, repeat = Asked(), Asked()
    record = CallRecord(output=true)
    found = compare_call(record, record, ExtraRuns(reference, repeat), Tolerances())
    assert not found.findings
    assert (reference.times, repeat.times) == (0, 0)
    assert found.reference is Reference.NOT_NEEDED
    assert found.worst_ratio == 0


def test_other_legs_are_asked_once(true):
    reference, repeat = Asked(CallRecord(output=[true, true])), Asked(CallRecord(output=[true.float(), true.float()]))
    eager = CallRecord(output=[true.float(), true.float()])
    compiled = CallRecord(output=[true.float() * 1.1, true.float() * 1.2])
    found = compare_call(eager, compiled, ExtraRuns(reference, repeat), Tolerances())
    assert (reference.times, repeat.times) == (1, 1)
    assert kinds(found) == ["numerics"]
    assert found.reference is Reference.FP64


@pytest.mark.parametrize(("dtype", "noise"), [(torch.float32, 1e-6), (torch.bfloat16, 5e-3), (torch.float16, 8e-4)])
def test_rounding_noise_passes_and_a_scale_off_by_one_percent_does_not(true, dtype, noise):
    eager, honest = noisy(true, noise, dtype, 1), noisy(true, noise, dtype, 2)
    assert not compare(eager, honest, true).findings
    found = compare(eager, (honest.double() * 1.01).to(dtype), true)
    assert kinds(found) == ["numerics"]
    assert found.leaves[0].rule == "fp64"


def test_a_one_percent_scale_is_found_below_the_noise_of_bfloat16(true):
    eager, honest = noisy(true, 2e-2, torch.bfloat16, 1), noisy(true, 2e-2, torch.bfloat16, 2)
    assert not compare(eager, honest, true).findings
    found = compare(eager, (honest.double() * 1.01).to(torch.bfloat16), true)
    assert found.leaves[0].worst.name == "error in scale"


def test_one_step_of_the_one_large_element_is_no_error_in_scale():
    """Seen in a gradient of Wav2Vec2 on CUDA: its slope is that of the element that is larger than all others."""
    true = torch.randn(64, generator=torch.Generator().manual_seed(0), dtype=torch.float64) / 64
    true[8] = 1.0683
    eager = true.bfloat16()
    one_step = eager.clone()
    one_step[8] -= 2**-7
    assert error_in_scale(eager, one_step, true).ratio < 1
    assert error_in_scale(eager, (eager.double() * 0.98).bfloat16(), true).ratio > 1


@pytest.mark.parametrize("scale", [1e-120, 1e100])
def test_values_whose_fourth_power_is_no_number_are_compared(true, scale):
    true = true * scale
    assert not compare(true, true * (1 + 1e-12), true).findings
    assert kinds(compare(true, true * 1.01, true)) == ["numerics"]


def error_in_scale(eager, compiled, true):
    found = measure.errors(eager=eager, compiled=compiled, truth=true)
    measures = rule.against_reference(found, eager.dtype, rule.Level.of([found]))
    return next(m for m in measures if m.name == "error in scale")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_one_wrong_element_in_a_large_tensor(dtype):
    true = torch.randn(1 << 21, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    eager, compiled = noisy(true, 1e-3, dtype, 1), noisy(true, 1e-3, dtype, 2)
    assert not compare(eager, compiled, true).findings
    compiled[1_500_000] += 0.25
    found = compare(eager, compiled, true)
    assert found.leaves[0].worst.name == "largest error"
    assert found.leaves[0].index == (1_500_000,)
    assert "worst element [1500000]" in found.findings[0].evidence


def test_worst_element_of_a_tensor_measured_in_blocks():
    true = torch.randn(3, 700_000, 2, dtype=torch.float64)
    eager = true.float()
    compiled = eager.clone()
    compiled[2, 123_456, 1] += 1
    found = compare(eager.transpose(0, 1), compiled.transpose(0, 1), true.transpose(0, 1))
    assert found.leaves[0].index == (123_456, 2, 1)


class LargestResult(TorchDispatchMode):
    """The size in bytes of the largest block of memory that an op asked for."""

    bytes = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        given = {t.untyped_storage().data_ptr() for t in tree_leaves(args) if isinstance(t, torch.Tensor)}
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor) and tensor.untyped_storage().data_ptr() not in given:
                self.bytes = max(self.bytes, tensor.untyped_storage().nbytes())
        return result


def test_a_large_tensor_is_compared_in_blocks_smaller_than_itself():
    eager = torch.randn(2048, 2048)
    compiled, size = eager * 1.001, 4 * 2048 * 2048
    true = eager.double()
    with LargestResult() as seen:
        found = compare(eager, compiled, true)
    assert kinds(found) == ["numerics"]
    assert seen.bytes <= size / 2


def test_more_accurate_than_eager_passes(true):
    assert not compare(noisy(true, 1e-2, torch.bfloat16, 1), true.bfloat16(), true).findings


def test_a_half_type_that_is_off_everywhere_by_half_a_step(true):
    eager = true.bfloat16()
    assert kinds(compare(eager, (true * 1.006).bfloat16(), true)) == ["numerics"]


def test_without_fp64_the_dtype_tolerance_decides_and_the_message_says_so(true):
    eager = true.float()
    found = compare(eager, eager * (1 + 1e-5))
    assert not found.findings
    assert found.reference is Reference.TOLERANCE
    found = compare(eager, eager * 1.01)
    assert kinds(found) == ["numerics"]
    assert "an fp64 run was not possible" in found.findings[0].evidence


def test_an_fp64_run_that_failed_is_no_reference(true):
    found = compare(true.float(), true.float() * 1.01, CallRecord(error=RuntimeError("no")))
    assert found.reference is Reference.TOLERANCE


def test_an_fp64_run_with_other_random_numbers_is_no_reference(true):
    eager = true.float()
    other = true.flip(0)
    found = compare(eager, eager * (1 + 1e-5), other)
    assert (found.findings, found.reference) == ([], Reference.TOLERANCE)
    (finding,) = compare(eager, eager * 1.01, other).findings
    assert finding.kind == "numerics"
    assert "fp64 run does not compute the same result as eager, so the limit is the tolerance for" in finding.evidence
    (finding,) = compare(eager, eager * 1.01, other, perturbed=[eager * 1.0001, eager * 0.9999]).findings
    assert "as eager, so the limit is a multiple of the largest error in 2 eager runs" in finding.evidence


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_nan_and_infinity_stand_at_the_same_places(true, value):
    eager = true.float()
    eager[3, 5] = value
    assert not compare(eager, eager.clone(), true).findings
    found = compare(eager, true.float(), true)
    assert "NaN or infinity at different positions" in found.findings[0].message
    assert found.leaves[0].index == (3, 5)


def test_infinities_of_other_sign():
    assert kinds(compare(torch.tensor([math.inf]), torch.tensor([-math.inf]))) == ["numerics"]


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.bool])
def test_integers_and_bools_are_equal_or_wrong(dtype):
    eager = torch.tensor([0, 1, 1, 0]).to(dtype)
    compiled = eager.clone()
    assert not compare(eager, compiled).findings
    compiled[2] = 0
    found = compare(eager, compiled, eager.double())
    assert "1 of 4 elements" in found.findings[0].evidence
    assert found.leaves[0].index == (2,)


def test_float64(true):
    assert not compare(true, true * (1 + 1e-12), true).findings
    assert kinds(compare(true, true.float().double(), true)) == ["numerics"]


def test_complex(true):
    eager = torch.complex(true, true.flip(0)).to(torch.complex64)
    reference = torch.complex(true, true.flip(0))
    assert not compare(eager, eager * (1 + 1e-7), reference).findings
    compiled = eager.clone()
    compiled[7, 9] += 1e-2j
    found = compare(eager, compiled, reference)
    assert found.leaves[0].index == (7, 9)
    assert kinds(compare(eager, eager.conj().resolve_conj(), reference)) == ["numerics"]
    assert not compare(eager.conj(), eager.conj().resolve_conj(), reference.conj()).findings


def test_float8():
    true = torch.linspace(-4, 4, 512, dtype=torch.float64)
    eager = true.to(torch.float8_e4m3fn)
    assert not compare(eager, eager.clone(), true).findings
    assert kinds(compare(eager, (true * 1.5).to(torch.float8_e4m3fn), true)) == ["numerics"]


def test_sparse(true):
    dense = true.float() * (true > 1.5)
    for to_sparse in (torch.Tensor.to_sparse_coo, torch.Tensor.to_sparse_csr):
        eager = to_sparse(dense)
        assert not compare(eager, to_sparse(dense.clone()), to_sparse(dense.double())).findings
        assert kinds(compare(eager, to_sparse(dense * 1.01), to_sparse(dense.double()))) == ["numerics"]
    moved = dense.roll(1, 0).to_sparse_coo()
    assert kinds(compare(dense.to_sparse_coo(), moved, dense.double().to_sparse_coo()))
    assert kinds(compare(dense, dense.to_sparse_coo(), dense.double())) == ["metadata"]


def test_nested():
    parts = [torch.randn(3, 4), torch.randn(5, 4)]
    for layout in (torch.strided, torch.jagged):
        eager = torch.nested.nested_tensor(parts, layout=layout)
        assert not compare(eager, torch.nested.nested_tensor(parts, layout=layout)).findings
        wrong = torch.nested.nested_tensor([parts[0], parts[1] * 1.1], layout=layout)
        found = compare(eager, wrong)
        assert kinds(found) == ["numerics"]
        assert "output[1]" in found.findings[0].message


@pytest.mark.parametrize("layout", [torch.strided, torch.jagged], ids=str)
def test_nested_of_inference_mode(layout):
    with torch.inference_mode():
        parts = [torch.ones(3, 4), torch.ones(5, 4)]
        eager, same, wrong = (
            torch.nested.nested_tensor([parts[0], parts[1] * factor], layout=layout) for factor in (1, 1, 1.1)
        )
    assert not compare(eager, same).findings
    assert kinds(compare(eager, wrong)) == ["numerics"]


def test_quantised():
    eager = torch.quantize_per_tensor(torch.linspace(-1, 1, 64), 0.02, 0, torch.qint8)
    same = torch.quantize_per_tensor(torch.linspace(-1, 1, 64), 0.02, 0, torch.qint8)
    assert not compare(eager, same).findings
    other = torch.quantize_per_tensor(torch.linspace(-1, 1, 64), 0.025, 0, torch.qint8)
    assert kinds(compare(eager, other))


def test_python_numbers(true):
    assert not compare(1.5, 1.5).findings
    assert not compare(0.1234567, 0.12345671, 0.12345670001).findings
    assert kinds(compare(0.1234567, 0.124, 0.1234567)) == ["numerics"]
    assert kinds(compare(3, 4)) == ["numerics"]
    assert kinds(compare(3, 3.0)) == ["metadata"]
    assert not compare(math.nan, math.nan).findings


def test_numpy():
    np = pytest.importorskip("numpy")
    assert not compare(np.arange(4.0), np.arange(4.0)).findings
    assert kinds(compare(np.arange(4.0), np.arange(4.0) * 1.1)) == ["numerics"]
    assert not compare(np.float32(1.5), np.float32(1.5)).findings


def test_an_object_that_cannot_be_compared_is_named(true):
    with pytest.raises(CompileUsageError, match=r"output\[1\] has type generator, which cannot be compared: .*list"):
        compare([true, (i for i in ())], [true, (i for i in ())])
    with pytest.raises(CompileUsageError, match="set"):
        compare({true}, {true.clone()})


class TestOtherRoundings:
    """A ReLU gate that rounding opens moves a few elements of a gradient by as much as they are large."""

    def test_what_eager_reaches_with_other_rounding_passes(self, true):
        eager, honest, other = (noisy(true, 2e-3, torch.bfloat16, seed) for seed in (1, 2, 3))
        honest[3, 4] += 1
        assert kinds(compare(eager, honest, true, perturbed=[eager, eager])) == ["numerics"]
        other[50, 60] += 1
        found = compare(eager, honest, true, perturbed=[eager, other])
        assert not found.findings
        assert found.leaves[0].perturbed_runs == 2

    def test_state_is_as_sensitive_as_a_result(self, true):
        """As the moments of an optimizer, which are sums of gradients."""

        def moments(value):
            return CallRecord(kept=flatten(value, "attribute moments"))

        eager, honest, other, wrong = (noisy(true, 2e-3, torch.bfloat16, seed) for seed in (1, 2, 3, 4))
        honest[3, 4] += 1
        other[50, 60] += 1
        wrong[3, 4] += 3
        references = {"reference": moments(true), "perturbed": [moments(eager), moments(other)]}
        assert kinds(compare(moments(eager), moments(honest), moments(true))) == ["state"]
        assert not compare(moments(eager), moments(honest), **references).findings
        assert kinds(compare(moments(eager), moments(wrong), **references)) == ["state"]

    def test_what_eager_never_reaches_is_a_finding_that_says_so(self, true):
        eager, honest, other = (noisy(true, 2e-3, torch.bfloat16, seed) for seed in (1, 2, 3))
        other[50, 60] += 0.5
        honest[3, 4] += 1
        found = compare(eager, honest, true, perturbed=[other])
        assert kinds(found) == ["numerics"]
        assert "with perturbed rounding" in found.findings[0].evidence

    @pytest.mark.parametrize("is_gradient", [True, False])
    def test_only_gradients_are_judged_with_larger_perturbations(self, true, is_gradient):
        """A switched gate changes few elements of a gradient by far more than a rounding error."""

        def record(tensor):
            return CallRecord(output=true, grads={"weight": tensor}) if is_gradient else CallRecord(output=tensor)

        eager, usual, honest, strong, wrong = (noisy(true, 1e-6, torch.float32, seed) for seed in range(1, 6))
        honest[3, 4] += 1
        strong[50, 60] += 0.9
        wrong[3, 4] += 3
        runs = {"reference": record(true), "perturbed": [record(usual)] * 8}
        strongly = [record(usual), record(strong)]
        assert kinds(compare(record(eager), record(honest), **runs))
        assert bool(compare(record(eager), record(honest), strongly=strongly, **runs).findings) != is_gradient
        assert kinds(compare(record(eager), record(wrong), strongly=strongly, **runs))

    def test_without_a_reference_the_distance_from_eager_counts(self, true):
        eager, wrong = true.float(), true.float() * 1.01
        assert not compare(eager, wrong, perturbed=[true.float() * 0.99]).findings
        assert kinds(compare(eager, wrong, perturbed=[true.float() * 0.9999])) == ["numerics"]

    def test_a_nan_is_never_passed(self, true):
        eager, wrong = true.float(), true.float()
        wrong[0, 0] = math.nan
        assert kinds(compare(eager, wrong, true, perturbed=[true.float() * 2])) == ["numerics"]

    def test_they_are_asked_only_while_a_leaf_is_wrong(self, true):
        def runs():
            raise AssertionError("asked")
            yield

        record = CallRecord(output=true.float())
        extra_runs = ExtraRuns(lambda: record, lambda: record, runs)
        assert not compare_call(record, record, extra_runs, Tolerances()).findings


class TestNondeterministicEager:
    def test_is_judged_by_its_own_spread(self, true):
        eager, again = noisy(true, 1e-2, torch.float32, 1), noisy(true, 1e-2, torch.float32, 2)
        honest = noisy(true, 1e-2, torch.float32, 3)
        found = compare(eager, honest, repeat=again)
        assert not found.findings
        assert found.nondeterministic
        assert found.leaves[0].rule == "spread"
        assert kinds(compare(eager, honest + 1, repeat=again)) == ["numerics"]

    def test_uninitialised_memory_is_no_finding(self, true):
        eager = [true.float(), torch.full((32,), 1e30)]
        compiled = [true.float(), torch.full((32,), -7.0)]
        assert not compare(eager, compiled, repeat=[true.float(), torch.zeros(32)]).findings
        assert kinds(compare(eager, compiled)) == ["numerics"]

    def test_integers(self):
        eager, compiled = torch.arange(4), torch.arange(4).flip(0)
        assert not compare(eager, compiled, repeat=torch.tensor([3, 1, 2, 0])).findings
        assert kinds(compare(eager, compiled)) == ["numerics"]


class TestTolerances:
    def test_given_numbers_decide_as_in_assert_close(self, true):
        eager = true.float()
        loose = Tolerances(rtol=0.1, atol=0.0)
        assert not compare(eager, eager * 1.05, true, tolerances=loose).findings
        assert kinds(compare(eager, eager * 1.2, true, tolerances=loose)) == ["numerics"]
        (finding,) = compare(eager, eager * 1.2, tolerances=loose).findings
        assert finding.evidence.endswith("the limit is the tolerance set for this check")
        strict = Tolerances(rtol=0.0, atol=0.0)
        assert kinds(compare(eager, eager * (1 + 2e-7), true, tolerances=strict)) == ["numerics"]

    def test_one_leaf_by_name(self, true):
        eager = {"logits": true.float(), "hidden": [true.float()]}
        compiled = {"logits": true.float() * 1.01, "hidden": [true.float() * 1.01]}
        pattern = {"output['logits']": Tolerance(rtol=0.02, atol=0.0)}
        found = compare(eager, compiled, eager, tolerances=Tolerances(leaves=pattern))
        assert [leaf.path for leaf in found.leaves if not leaf.ok] == ["output['hidden'][0]"]
        everything = Tolerances(leaves={"output[*": Tolerance(rtol=0.02, atol=0.0)})
        assert not compare(eager, compiled, eager, tolerances=everything).findings

    def test_by_dtype(self, true):
        loose = Tolerances(dtypes={torch.float32: Tolerance(0.02, 0.0)})
        assert not compare(true.float(), true.float() * 1.01, true, tolerances=loose).findings

    @pytest.mark.parametrize(
        "wrong",
        [
            {"rtol": 1e-3},
            {"atol": 1e-3},
            {"rtol": -1.0, "atol": 0.0},
            {"rtol": math.nan, "atol": 0.0},
            {"leaves": {"output": 0.1}},
            {"leaves": [1]},
            {"dtypes": {"float32": Tolerance(0.1, 0.1)}},
        ],
    )
    def test_wrong_values_are_refused(self, wrong):
        with pytest.raises(ValueError, match=r"rtol|atol|Tolerance|mapping|dtype"):
            Tolerances(**wrong)

    def test_a_tolerance_is_finite_and_not_negative(self):
        with pytest.raises(ValueError, match="atol is -1"):
            Tolerance(0.1, -1)


def test_the_message_names_limit_value_and_worst_element(true):
    compiled = true.float()
    compiled[1, 2] = 9.0
    found = compare({"a": true.float()}, {"a": compiled}, {"a": true}).findings[0]
    assert headline(found).startswith("call 1: output['a'] differs from eager:")
    assert "limit" in headline(found)
    assert found.measured is not None and found.limit is not None and found.measured > found.limit
    assert "worst element [1, 2] of output['a']: eager" in found.evidence
    assert "compiled 9" in found.evidence
    assert "fp64" in found.evidence


def test_many_wrong_leaves_are_one_finding(true):
    found = compare([true.float()] * 9, [true.float() * 2] * 9, [true] * 9)
    assert len(found.findings) == 1
    assert "and 3 more" in found.findings[0].evidence


class TestOverflow:
    """fp16 ends at 65,504: near it, rounding decides what is infinite."""

    @pytest.fixture
    def eager(self, true):
        return (true * 100).half()

    @staticmethod
    def overflown(leg, *rows):
        return leg.index_fill(0, torch.tensor(rows), float("inf"))

    def test_where_eager_with_other_rounding_overflows_too_is_no_finding(self, true, eager):
        compiled = self.overflown(eager, 3)
        runs = [eager, self.overflown(eager, 2, 3)]
        assert not compare(eager, compiled, true * 100, perturbed=runs).findings
        assert not compare(compiled, eager, true * 100, perturbed=[eager]).findings

    def test_elsewhere_is_a_finding(self, true, eager):
        compiled = self.overflown(eager, 3)
        assert kinds(compare(eager, compiled, true * 100, perturbed=[self.overflown(eager, 2)])) == ["numerics"]
        assert kinds(compare(eager, compiled, true * 100, perturbed=[eager] * 8)) == ["numerics"]

    def test_what_is_finite_still_has_to_be_right(self, true, eager):
        compiled = self.overflown(eager * 1.1, 3)
        assert kinds(compare(eager, compiled, true * 100, perturbed=[self.overflown(eager, 3)])) == ["numerics"]

    def test_close_to_the_largest_number_an_element_may_be_infinite(self, true, eager):
        true = (true * 100).index_fill(0, torch.tensor([3]), 4e4)
        eager = true.half()
        assert not compare(eager, self.overflown(eager, 3), true, perturbed=[eager]).findings
        assert not compare(self.overflown(eager, 3), eager, true, perturbed=[self.overflown(eager, 3)]).findings
        row = torch.tensor([3])
        for wrong in (self.overflown(eager, 4), *(eager.index_fill(0, row, float(it)) for it in ("nan", "-inf"))):
            assert kinds(compare(eager, wrong, true, perturbed=[eager] * 8)) == ["numerics"]

    def test_half_types_of_wide_range_do_not_overflow(self, true, eager):
        compiled = self.overflown(eager.bfloat16(), 3)
        assert kinds(compare(eager.bfloat16(), compiled, true * 100, perturbed=[compiled])) == ["numerics"]


@pytest.mark.parametrize(("ulps", "passes"), [(2, True), (4, False)])
def test_gradients_that_float16_rounds_to_zero_may_be_off_by_some_subnormal_numbers(true, ulps, passes):
    truth, smallest = true.double() * 1e-9, torch.finfo(torch.float16).smallest_normal * 2.0**-10
    signs = torch.randn(true.shape, generator=torch.Generator().manual_seed(1)).sign()
    compiled = (signs * ulps * smallest).half()
    found = measure.errors(eager=torch.zeros_like(compiled), compiled=compiled, truth=truth)
    level = rule.Level(relative=1e-3, scale=found.rms_reference)
    assert all(measured.ratio <= 1 for measured in rule.against_reference(found, torch.float16, level)) == passes


@pytest.mark.parametrize(
    ("dtype", "times_own", "passes"),
    [
        (torch.float32, 3.0, True),
        (torch.float32, 12.0, False),
        (torch.bfloat16, 2.0, True),
        (torch.bfloat16, 5.0, False),
    ],
    ids=["order-of-a-sum", "mistake", "half-type", "half-type-mistake"],
)
def test_gradient_that_cancels_is_judged_by_the_scale_of_the_others(dtype, times_own, passes):
    """Seen in MobileNetV3 in fp32: a bias before batch norm, 2.9 times eager's error in another order of additions."""
    level = rule.Level(relative=torch.finfo(dtype).eps, scale=0.1)
    own = 4 * torch.finfo(dtype).eps * level.scale
    found = measure.Errors(
        count=16, rms_reference=1e-16, rms_eager=own, rms_compiled=times_own * own, max_eager=2 * own,
        max_compiled=2 * times_own * own,
    )  # fmt: skip
    measures = rule.against_reference(found, dtype, level)
    assert all(m.error <= m.limit for m in measures) == passes


@pytest.mark.parametrize(("compiled", "passes"), [(3.5e-9, True), (5e-6, False)], ids=["rounding", "mistake"])
def test_a_tensor_that_cancels_has_no_error_in_scale(compiled, passes):
    """Seen in EfficientNet in train mode: the mean of a convolution of batch-normalized values is zero up to rounding,
    so errors of 1e-9 are 1e8 times the reference.
    """
    level = rule.Level(relative=1e-7, scale=0.3)
    found = measure.Errors(
        count=144, carrying=140, rms_reference=1e-18, rms_eager=1e-9, rms_compiled=compiled / 3, max_eager=3e-9,
        max_compiled=compiled, slope_eager=3e7, slope_compiled=3e8,
    )  # fmt: skip
    measures = rule.against_reference(found, torch.float32, level)
    assert "error in scale" not in [m.name for m in measures]
    assert all(m.error <= m.limit for m in measures) == passes
