"""Backends by name: torch's backends, a custom backend, a missing backend, and a backend that compiles nothing.

Covers practice 23 in docs/coverage.md: a wrong name causes a clear error, and the check fails if nothing was compiled.
`--compile-backend` accepts the same names.
"""

import pytest
import torch
from torch import nn

from pytest_torch_compile import CompileCheckFailed, CompileUsageError, check_compile

CPU_BACKENDS = ["eager", "aot_eager", "aot_eager_decomp_partition", "inductor"]


class Encoder(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


def lost(gm, example_inputs):
    """A backend that returns a value that is not callable."""
    return


@pytest.mark.parametrize("backend", CPU_BACKENDS)
@pytest.mark.torch_compile
@pytest.mark.quick
def test_backend_gives_eager_results(backend):
    report = check_compile(Encoder(), torch.randn(2, 8), backend=backend, train=True)
    assert report.backend == backend
    assert len(report.graphs) == 1


@pytest.mark.torch_compile
def test_backend_of_a_project_is_found_by_its_name():
    seen = []

    def counting(gm, example_inputs):
        seen.append(gm)
        return gm.forward

    torch._dynamo.register_backend(counting, name="counting")
    check_compile(Encoder(), torch.randn(2, 8), backend="counting")
    assert len(seen) == 1


@pytest.mark.torch_compile
def test_unknown_backend_is_an_error_that_names_the_known_ones():
    with pytest.raises(CompileUsageError, match=r"backend 'inductr' is unknown to torch.*inductor"):
        check_compile(Encoder(), torch.randn(2, 8), backend="inductr")


@pytest.mark.torch_compile
def test_backend_whose_package_is_missing_is_a_finding_that_says_so():
    with pytest.raises(CompileCheckFailed) as failed:
        check_compile(Encoder(), torch.randn(2, 8), backend="tvm", diagnose="off")
    (finding,) = failed.value.findings
    assert finding.kind == "compile-error"
    assert "tvm" in finding.evidence


@pytest.mark.torch_compile
def test_backend_that_compiles_nothing_is_no_pass():
    with pytest.raises(CompileCheckFailed):
        check_compile(Encoder(), torch.randn(2, 8), backend=lost, diagnose="off")


@pytest.mark.torch_compile
def test_run_without_any_graph_is_a_finding():
    @torch.compiler.disable
    def in_eager(x):
        return x.sin()

    def target(x):
        return in_eager(x)

    with pytest.raises(CompileCheckFailed) as failed:
        check_compile(target, torch.randn(4), backend="aot_eager", fullgraph=False, diagnose="off")
    assert "nothing-compiled" in {finding.kind for finding in failed.value.findings}
