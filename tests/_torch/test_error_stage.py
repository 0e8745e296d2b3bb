"""The stage of torch.compile that raised an exception."""

import pytest

torch = pytest.importorskip("torch")

from pytest_torch_compile._torch.error_stage import raised_at  # noqa: E402


def compile_error(function, **options):
    torch._dynamo.reset()
    with pytest.raises(Exception) as raised:
        torch.compile(function, **options)(torch.ones(4))
    return raised.value


def views(x):
    return x.view(7)


def adds(x):
    return x + 1


def fails(*args, **kwargs):
    raise AssertionError("planted")


def test_op_that_refuses_its_arguments_while_dynamo_traces_it():
    found = raised_at(compile_error(views, backend="eager"))
    assert (found.stage, found.place) == ("dynamo", "")


def test_dynamo(monkeypatch):
    from torch._dynamo.output_graph import OutputGraph

    monkeypatch.setattr(OutputGraph, "create_graph_input", None, raising=False)
    monkeypatch.setattr(OutputGraph, "compile_subgraph", None)
    found = raised_at(compile_error(adds, backend="eager"))
    assert found.stage == "dynamo" and found.place.startswith("torch/_dynamo/")


def test_backend_of_the_user():
    found = raised_at(compile_error(adds, backend=fails))
    assert found.stage == "the backend" and found.by_other_code and found.place.endswith(" in fails")


def test_compiler_that_a_backend_passes_to_aot_autograd():
    from torch._dynamo.backends.common import aot_autograd

    found = raised_at(compile_error(adds, backend=aot_autograd(fw_compiler=fails)))
    assert found.by_other_code and found.place.endswith(" in fails")


def test_aot_autograd(monkeypatch):
    from torch._functorch import aot_autograd

    name = next(
        name for name in ("create_aot_dispatcher_function", "aot_stage1_graph_capture") if hasattr(aot_autograd, name)
    )
    monkeypatch.setattr(aot_autograd, name, None)
    found = raised_at(compile_error(adds, backend="aot_eager"))
    assert found.stage == "AOTAutograd" and found.place.startswith("torch/_functorch/")


def test_inductor(monkeypatch):
    from torch._inductor.graph import GraphLowering

    monkeypatch.setattr(GraphLowering, "codegen", None)
    with torch._inductor.config.patch(force_disable_caches=True):
        found = raised_at(compile_error(adds))
    assert found.stage == "Inductor" and found.place.startswith("torch/_inductor/")


def test_exception_of_compiled_code_is_of_no_stage():
    assert raised_at(ValueError("of the user")) is None
    with pytest.raises(RuntimeError) as raised:
        torch.linalg.inv(torch.zeros(2, 2))
    assert raised_at(raised.value) is None
