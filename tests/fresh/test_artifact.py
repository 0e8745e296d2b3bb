"""check_artifact: what ships, built here and run in a fresh process."""

from __future__ import annotations

import os
import signal
import sys
import time

import pytest
import torch

from pytest_torch_compile import CompileCheckFailed, CompileUsageError, call, check_artifact
from pytest_torch_compile._torch.deployment import ARTIFACT_KINDS, unavailable
from pytest_torch_compile._torch.error_text import error_summary

LIBRARY = torch.library.Library("shipped_ops", "FRAGMENT")
PARENT = os.getpid()
NEW_TORCH = not unavailable("precompile")
via_all = pytest.mark.parametrize(
    "via",
    [
        pytest.param(via, marks=pytest.mark.skipif(bool(unavailable(via)), reason=f"{unavailable(via)}"))
        for via in ARTIFACT_KINDS
    ],
)


class Linear(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        return {"y": self.linear(x).sin(), "rows": x.sum(1)}


class FixesTheBatch(torch.nn.Module):
    """Its artifact is for one batch size only, whatever is said about it."""

    def forward(self, x):
        return x.reshape(3, -1) * 2 if x.shape[0] == 3 else x.sum()


def define(name, here, there):
    """An op that is another one in the process that loads the artifact."""
    LIBRARY.define(f"{name}(Tensor x) -> Tensor")
    LIBRARY.impl(name, here if os.environ.get("SHIPPED_OPS") == str(PARENT) else there, "CompositeExplicitAutograd")
    torch.library.register_fake(f"shipped_ops::{name}", torch.empty_like, lib=LIBRARY)
    return getattr(torch.ops.shipped_ops, name)


def define_in_this_process():
    os.environ.setdefault("SHIPPED_OPS", str(PARENT))


define_in_this_process()


def _compiles(x):
    return torch.compile(torch.sin, backend="eager")(x.clone())


def _dies(x):
    os.kill(os.getpid(), signal.SIGKILL)


def _hangs(x):
    time.sleep(60)
    return x.clone()


def _writes(x):
    x.zero_()
    return x * 2


def _refuses_five(x):
    if len(x) == 5:
        raise ValueError("five rows")
    return x * 2


double = lambda x: x * 2  # noqa: E731
wrong = define("wrong", double, lambda x: x * 2.01)
other_shape = define("other_shape", double, lambda x: torch.cat([x, x]) * 2)
compiles = define("compiles", torch.sin, _compiles)
dies = define("dies", double, _dies)
hangs = define("hangs", double, _hangs)
writes = define("writes", double, _writes)
lenient = define("lenient", _refuses_five, double)
same = define("same", double, double)


class Calls(torch.nn.Module):
    def __init__(self, op):
        super().__init__()
        self.op = op

    def forward(self, x):
        return self.op(x) + 1


def register():
    """This module has registered the ops by being imported."""


def three(*sizes):
    return [torch.randn(size, 4) for size in sizes]


@via_all
def test_an_artifact_is_right_at_shapes_that_it_was_not_built_with(via):
    report = check_artifact(Linear().eval(), calls=three(3, 5, 7, 12), via=via, dynamic_dims={"x": 0})
    assert [row.outcome for row in report.calls] == ["built from this call, ran", "ran", "ran", "ran"]
    assert report.bytes > 100 and report.load_seconds > 0 and report.build_seconds > 0 and report.via == via


@pytest.fixture
def other_state_of_torch():
    """What dynamo's guards read, and no default: it has been set to the default, is another value, or both."""
    torch.set_float32_matmul_precision("high")
    torch.set_float32_matmul_precision("highest")
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.set_autocast_cache_enabled(False)
    torch.set_autocast_dtype("cpu", torch.float16)
    yield
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = True
    torch.set_autocast_cache_enabled(True)
    torch.set_autocast_dtype("cpu", torch.bfloat16)


@via_all
def test_the_fresh_process_has_the_state_of_torch_that_it_was_built_under(via, other_state_of_torch):
    report = check_artifact(Linear(), calls=three(3), via=via)
    assert [row.outcome for row in report.calls] == ["built from this call, ran"]


@via_all
@pytest.mark.parametrize(
    "mode",
    [lambda: torch.autocast("cpu", torch.bfloat16), torch.inference_mode],
    ids=["autocast", "inference"],
)
def test_the_fresh_process_is_in_the_modes_that_the_check_is_in(via, mode):
    model = Linear()
    with mode():
        report = check_artifact(model, calls=three(3), via=via)
    assert [row.outcome for row in report.calls] == ["built from this call, ran"]


@pytest.mark.skipif(not NEW_TORCH, reason=unavailable("precompile"))
def test_a_guard_on_the_state_of_torch_is_not_called_a_size():
    with pytest.raises(CompileCheckFailed) as failed:
        check_artifact(Linear(), calls=three(3), via="precompile", prepare=other_matmul)
    (finding,) = failed.value.findings
    assert "GLOBAL_STATE changed: allow_bf16_reduce" in finding.evidence
    assert finding.hint.startswith("torch's global state (such as")


def other_matmul():
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False


@via_all
def test_what_eager_refuses_is_refused(via):
    calls = [*three(3, 5), torch.randn(3, 5)]
    report = check_artifact(Linear(), calls=calls, via=via, dynamic_dims={"x": 0})
    assert report.calls[2].outcome == "rejected, as in eager"


@via_all
def test_a_size_that_stays_fixed_is_a_finding(via):
    with pytest.raises(CompileCheckFailed) as failed:
        check_artifact(Linear(), calls=three(3, 5), via=via)
    assert {finding.kind for finding in failed.value.findings} <= {"exception", "metadata", "numerics"}
    assert failed.value.findings[0].calls == (2,)


PLANTED = {
    "wrong numbers": (wrong, {}, "numerics", "output differs from eager"),
    "another shape": (other_shape, {}, "metadata", "differs from eager in shape"),
    "a compilation": (compiles, {}, "recompile", "compiled in the process that loaded the artifact"),
    "a crash": (dies, {}, "exception", "the fresh process was killed by SIGKILL"),
    "a hang": (hangs, {"timeout": 12}, "exception", "the fresh process did not finish within 12 s"),
    "a write": (writes, {}, "mutation", "compiled code changes argument x"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_what_goes_wrong_where_it_is_loaded(name):
    op, options, kind, words = PLANTED[name]
    with pytest.raises(CompileCheckFailed) as failed:
        check_artifact(Calls(op), torch.randn(3, 4), via="export", prepare=register, **options)
    assert any(finding.kind == kind and words in finding.message for finding in failed.value.findings), failed.value


def test_what_only_eager_refuses():
    with pytest.raises(CompileCheckFailed) as failed:
        check_artifact(Calls(lenient), calls=three(3, 5, 7), via="export", dynamic_dims={"x": 0}, prepare=register)
    (finding,) = failed.value.findings
    assert finding.message == "eager raises ValueError, but the artifact returns a result" and finding.calls == (2,)


def test_an_op_that_is_missing_there():
    with pytest.raises(CompileCheckFailed, match="prepare="):
        check_artifact(Calls(same), torch.randn(3, 4), via="export")


def linked_with(flag, folder):
    """Options of Inductor for a compiler that links with one flag more, and compiles as ever."""
    path = folder / "g++"
    path.write_text(f'#!/bin/sh\ncase "$*" in *-shared*) exec g++ "$@" {flag};; esac\nexec g++ "$@"\n')
    path.chmod(0o755)
    # torch precompiles its headers for each compiler, which takes longer than compiling the model without them.
    precompiles = hasattr(torch._inductor.config.aot_inductor, "precompile_headers")
    return {"cpp.cxx": str(path), **({"aot_inductor.precompile_headers": False} if precompiles else {})}


def die():
    os.kill(os.getpid(), signal.SIGKILL)


needs_static_library = pytest.mark.skipif(
    sys.platform != "linux", reason="only on Linux is g++ always GCC, which links libstdc++"
)
OWN_LIBRARY = "set CXX to a compiler that links libstdc++.so"


@needs_static_library
@pytest.mark.parametrize(("flag", "named"), [("-static-libstdc++", True), ("-static-libgcc", False)])
def test_a_cpp_library_of_the_package_is_named_where_its_process_dies(tmp_path, flag, named):
    with pytest.raises(CompileCheckFailed) as failed:
        check_artifact(Linear(), torch.randn(3, 4), options=linked_with(flag, tmp_path), prepare=die)
    (finding,) = failed.value.findings
    assert (OWN_LIBRARY in finding.hint) is named


@needs_static_library
def test_a_package_with_a_cpp_library_of_its_own_is_right_or_told_why_it_fails(tmp_path):
    # Whether it loads on a CPU depends on torch (2.6 and 2.15 load it) and on the compiler's version.
    try:
        check_artifact(Linear(), torch.randn(3, 4), options=linked_with("-static-libstdc++", tmp_path))
    except CompileCheckFailed as failed:
        (finding,) = failed.findings
        assert OWN_LIBRARY in finding.hint


needs_output_of_the_compiler = pytest.mark.skipif(
    torch.__version__ < "2.8", reason="torch 2.6 does not keep the output of the C++ compiler"
)


@pytest.fixture
def vectors_known():
    """Torch tries the CPU's vector instructions once per process: with a compiler that works, not one that fails."""
    torch.compile(torch.sin)(torch.ones(64))


@needs_output_of_the_compiler
@pytest.mark.usefixtures("vectors_known")
def test_what_the_cpp_compiler_says_is_shown(tmp_path):
    with pytest.raises(CompileCheckFailed, match="cannot be built") as failed:
        check_artifact(Linear(), torch.randn(3, 4), options=linked_with("-lnosuchlibrary", tmp_path))
    assert "cannot find -lnosuchlibrary" in failed.value.findings[0].evidence


@needs_output_of_the_compiler
@pytest.mark.usefixtures("vectors_known")
def test_compiler_that_lacks_something_is_no_finding_of_the_artifact(tmp_path):
    compiler = tmp_path / "g++"
    missing = "main.cpp:3:10: fatal error: Python.h: No such file or directory"
    compiler.write_text(
        f'#!/bin/sh\ncase "$*" in *--version*) exec g++ "$@";; esac\necho "{missing}" >&2\nexit 1\n', encoding="utf-8"
    )
    compiler.chmod(0o755)
    with pytest.raises(CompileUsageError, match=r"could not run: the C\+\+ compiler on this machine failed") as failed:
        check_artifact(Linear(), torch.randn(3, 4), options={"cpp.cxx": str(compiler)})
    assert "Install Python's headers" in str(failed.value)


def test_an_op_that_is_registered_there_passes():
    check_artifact(Calls(same), torch.randn(3, 4), via="export", prepare=register)


class TakesKeywords(torch.nn.Module):
    def forward(self, x, *, scale=1.0, mask=None):
        y = x * scale
        return y if mask is None else (y * mask, [mask])


class WritesInPlace(torch.nn.Module):
    def forward(self, x):
        x.add_(1)
        return x.sum(0)


class Dropout(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.dropout(x, 0.5, training=False)


class Counts(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, x):
        self.seen.add_(1)
        return x * self.seen


INNOCENT = {
    "keywords": (TakesKeywords, [call(torch.randn(3, 4), scale=2.0, mask=torch.ones(4))]),
    "in-place writes": (WritesInPlace, three(3)),
    "dropout in eval": (Dropout, three(3)),
    "a buffer that counts": (Counts, three(3, 3, 3)),
    "bfloat16": (lambda: Linear().bfloat16(), [torch.randn(3, 4).bfloat16()]),
}


@pytest.mark.parametrize("name", INNOCENT)
def test_innocents_pass(name):
    make, calls = INNOCENT[name]
    check_artifact(make(), calls=calls, via="export")


def test_the_artifact_that_was_tested_can_be_kept(tmp_path):
    model, x = Linear(), torch.randn(3, 4)
    check_artifact(model, x, via="export", path=tmp_path / "kept" / "model.pt2")
    loaded = torch.export.load(tmp_path / "kept" / "model.pt2").module()
    torch.testing.assert_close(loaded(x), model(x))


@pytest.mark.skipif(NEW_TORCH, reason="torch 2.11 and newer support all kinds of artifacts")
def test_what_a_torch_lacks_is_not_observable():
    with pytest.raises(CompileCheckFailed, match=f"not supported on torch {torch.__version__.split('+')[0]}") as failed:
        check_artifact(Linear(), torch.randn(3, 4), via="precompile")
    assert failed.value.findings[0].kind == "not-observable"


def test_mistakes_are_named():
    with pytest.raises(CompileUsageError, match="via='aoti' is unknown; choose one of: aot_inductor"):
        check_artifact(Linear(), torch.randn(3, 4), via="aoti")
    with pytest.raises(CompileUsageError, match="can be built only from a module"):
        check_artifact(torch.sin, torch.randn(3, 4))
    with pytest.raises(
        CompileUsageError, match="call 1, from which the artifact is built, raises an exception in eager"
    ):
        check_artifact(Linear(), torch.randn(3, 5))
    with pytest.raises(CompileUsageError, match="contains 'y', which is not a tensor argument"):
        check_artifact(Linear(), torch.randn(3, 4), dynamic_dims={"y": 0})


def wrong(x):
    return x.sin() if torch.compiler.is_compiling() else x.cos()


class AnswersWrongly(torch.nn.Module):
    def forward(self, x):
        return wrong(x)


class KeepsItsSize(torch.nn.Module):
    def forward(self, x):
        return x.new_zeros(x.shape[0]) + x.sum()


def hints(*args, **options):
    with pytest.raises(CompileCheckFailed) as failure:
        check_artifact(*args, **options)
    return [finding.hint for finding in failure.value.findings]


@pytest.mark.parametrize("via", ["export", "aot_inductor"])
def test_advice_for_an_artifact_names_no_option_that_it_does_not_have(via):
    (hint,) = hints(AnswersWrongly(), torch.ones(3), via=via)
    assert "check_compile(model, calls=[...])" in hint
    assert "backend=" not in hint
    assert ("try via='export'" in hint) is (via != "export"), "what was just done is no advice"


def test_package_that_answers_for_other_sizes_is_told_of_dynamic_dims():
    calls = [torch.ones(4), torch.ones(8)]
    (hint,) = hints(KeepsItsSize(), calls=calls)
    assert hint.startswith("the artifact was built for the sizes in call 1") and "dynamic_dims=" in hint
    assert check_artifact(KeepsItsSize(), calls=calls, dynamic_dims={"x": 0}).ok


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        (
            "cannot be saved: [f]\nPlease mark these by using `external_data=...`",
            "cannot be saved: [f]\nPlease mark these by using `external_data=...`",
        ),
        ("internal error\nPlease file an issue at example.org", "internal error"),
        ("said\nmore", "said"),
    ],
)
def test_summary_of_an_error_keeps_what_it_asks_for(text, summary):
    assert error_summary(RuntimeError(text)) == f"RuntimeError: {summary}"


def test_compiled_module_is_built_from_its_original():
    report = check_artifact(torch.compile(Linear(), backend="eager"), torch.randn(2, 4), via="export")
    assert report.target == "Linear"
