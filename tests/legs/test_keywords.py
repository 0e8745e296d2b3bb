"""Keywords of a check: options of ours, arguments of the target, and what cannot be told apart is refused."""

from __future__ import annotations

import functools

import pytest

torch = pytest.importorskip("torch")

from torch.nn import functional as F  # noqa: E402

from pytest_torch_compile import CompileSuite, CompileUsageError, call, check_compile, measure_compile  # noqa: E402

X = torch.arange(16.0).reshape(1, 1, 4, 4)
check = functools.partial(check_compile, backend="eager")


class Resize(torch.nn.Module):
    def forward(self, x, mode="nearest"):
        return F.interpolate(x, scale_factor=2, mode=mode).sin()


class Open(torch.nn.Module):
    """Takes every keyword, as many wrappers do."""

    def forward(self, x, **kwargs):
        return x.sin() * len(kwargs)


def of_options(x, steps=3, seed=1, train=False, calls=2):
    return x.sin() * steps + seed + train + calls


def with_target(x, target):
    return x.sin() * target


@pytest.mark.parametrize(
    ("target", "keywords"),
    [
        (Resize(), {"mode": "bilinear"}),
        (functools.partial(F.interpolate, scale_factor=2), {"mode": "bilinear"}),
        (torch.compile(Resize(), backend="eager"), {"mode": "bilinear"}),
        (of_options, {"steps": 3}),
        (of_options, {"steps": 1}),  # our own default, and not the target's
        (of_options, {"seed": 0}),
        (of_options, {"train": True}),
    ],
    ids=["module", "partial", "compiled", "steps", "steps as by default", "seed", "train"],
)
def test_keyword_that_both_know_is_refused_with_the_way_out(target, keywords):
    (name,) = keywords
    with pytest.raises(CompileUsageError) as failure:
        check(target, X, **keywords)
    assert f"{name} is an option of check_compile and an argument of" in str(failure.value)
    assert f"calls=[call(x, {name}=...)]" in str(failure.value)
    assert len(str(failure.value).splitlines()) == 1


def test_the_way_out_gives_the_keyword_to_the_target():
    report = check(Resize(), calls=[call(X, mode="bilinear")])
    assert report.calls[0].shapes.count("bilinear") == 1


def test_beside_calls_a_keyword_is_an_option():
    assert check_compile(Resize(), calls=[call(X)], backend="eager", mode=None).ok
    assert check(of_options, calls=[call(X)], steps=1).ok


def test_argument_given_by_position_leaves_the_keyword_to_the_option():
    with pytest.raises(CompileUsageError, match="mode 'bilinear' is unknown to torch"):
        check(Resize(), X, "nearest", mode="bilinear")


def test_calls_of_a_target_that_has_such_an_argument():
    with pytest.raises(CompileUsageError, match="calls is an option of check_compile and an argument of of_options"):
        check(of_options, X, calls=3)
    with pytest.raises(CompileUsageError, match="calls is an option"):
        check(of_options, calls=[X])
    assert check(of_options, calls=[call(X, calls=3)]).ok


@pytest.mark.parametrize(
    ("misspelt", "meant"), [("max_graphbreaks", "max_graph_breaks"), ("tolerance", "tolerances"), ("step", "steps")]
)
def test_misspelt_option_is_no_argument_of_a_target_that_takes_all(misspelt, meant):
    text = f"{misspelt} is not an option of check_compile; did you mean {meant}\\? .* calls=\\[call\\(x, {misspelt}=...\\)\\]"
    with pytest.raises(CompileUsageError, match=text):
        check(Open(), X, **{misspelt: 1})
    assert check(Open(), calls=[call(X, **{misspelt: 1})]).ok


def test_misspelt_option_beside_calls_is_refused():
    with pytest.raises(
        CompileUsageError, match="max_recompile is not an option of check_compile; did you mean max_recomp"
    ):
        check(Resize(), calls=[call(X)], max_recompile=2)
    with pytest.raises(CompileUsageError, match="scale is not an option of check_compile"):
        check(Resize(), calls=[call(X)], scale=2)


@pytest.mark.parametrize("name", ["attention_mask", "labels", "use_cache", "scale", "training", "return_dict"])
def test_ordinary_keyword_goes_to_the_target(name):
    assert check(Open(), X, **{name: None}).ok


def test_keyword_that_the_target_names_may_resemble_an_option():
    assert check(lambda x, step=1, seeds=2: x.sin() * step + seeds, X, step=3, seeds=1).ok


def test_target_is_positional_only():
    assert check(with_target, X, target=2.0).ok
    with pytest.raises(TypeError, match="positional"):
        check_compile(target=with_target)


def test_signature_that_cannot_be_read_hides_nothing():
    assert check(torch.sum, X, dim=0).ok


class TestSuiteOptions(CompileSuite):
    shapes = [(2, 4)]
    __test__ = False

    def make_model(self):
        return torch.nn.Linear(4, 4)

    def make_inputs(self, shape):
        return torch.ones(*shape)


@pytest.mark.parametrize(
    ("options", "text"),
    [({"max_graphbreaks": 1}, "did you mean max_graph_breaks"), ({"calls": []}, "calls is not an option")],
)
def test_suite_with_an_unknown_option_names_its_class(options, text):
    suite = type("TestMine", (TestSuiteOptions,), {"options": options})()
    with pytest.raises(CompileUsageError, match=rf"TestMine\.options: .*{text}"):
        suite.test_compile_inference()


def test_measurement_refuses_what_it_cannot_tell_apart():
    with pytest.raises(CompileUsageError, match=r"mode is an option of measure_compile .* kwargs=\{'mode': ...\}"):
        measure_compile(Resize(), X, mode="bilinear")
    with pytest.raises(CompileUsageError, match="fullgrap is not an option of measure_compile; did you mean fullgraph"):
        measure_compile(Resize(), X, fullgrap=True)
    with pytest.raises(
        CompileUsageError, match=r"scale is not an option of measure_compile\. .* kwargs=\{'scale': ...\}"
    ):
        measure_compile(Resize(), X, scale=2)
