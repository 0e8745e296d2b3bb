"""The same objects with numbers in another dtype or on another device, containers with code of their own too."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from pytest_torch_compile import CompileCheckFailed, call, check_compile  # noqa: E402
from pytest_torch_compile.legs.converted import convert, on_device, to_float64, with_replacements  # noqa: E402
from pytest_torch_compile.legs.snapshot import Snapshot  # noqa: E402


class Batch:
    """Has keys and values, and clones the values when it is copied, as tensordict's TensorDict does."""

    def __init__(self, **tensors: Any) -> None:
        self._tensors = tensors

    def keys(self) -> Any:
        return self._tensors.keys()

    def __getitem__(self, key: str) -> Any:
        return self._tensors[key]

    def __deepcopy__(self, memo: dict[int, Any]) -> Batch:
        return Batch(**{name: tensor.clone() for name, tensor in self._tensors.items()})


def batch() -> Batch:
    return Batch(x=torch.ones(3, requires_grad=True), mask=torch.ones(3, dtype=torch.bool))


def honest(inputs: Batch) -> Any:
    return inputs["x"].sin() * inputs["mask"]


def wrong_gradient(inputs: Batch) -> Any:
    x = inputs["x"]
    x = x - (x - x.detach()) / 2 if torch.compiler.is_compiling() else x
    return x.sin() * inputs["mask"]


def test_gradients_of_what_a_container_copied_itself_are_compared() -> None:
    with pytest.raises(CompileCheckFailed) as failed:
        check_compile(wrong_gradient, batch(), train=True, backend="eager")
    assert {finding.kind for finding in failed.value.findings} == {"gradient"}


def test_two_calls_with_one_such_container_pass() -> None:
    inputs = batch()
    check_compile(honest, calls=[(inputs,), (inputs,)], train=True, backend="eager")


def converted(target: Any, *calls: Any) -> Any:
    """A leg in float64, in force, with the calls it makes."""
    snapshot = Snapshot([target, *(one.args for one in calls)])
    contents = snapshot.new_leg()
    convert(snapshot, contents, to_float64)
    snapshot.replace(contents)
    return snapshot, contents, [with_replacements(one, contents.replacements) for one in calls]


def test_numbers_are_in_float64_while_the_leg_is_in_force_and_shared_as_before() -> None:
    model = nn.Linear(4, 4)
    model.tied, model.view = model.weight, model.weight.detach()[1:]
    flags, x = torch.ones(3, dtype=torch.bool), torch.randn(3, 4)
    before = model.weight.data_ptr(), model.weight.detach().clone()
    snapshot, contents, _ = converted(model, call(x, flags))
    with snapshot.in_force(contents):
        assert model.weight.dtype == x.dtype == torch.float64 and flags.dtype == torch.bool
        assert model.tied is model.weight and model.view.data_ptr() == model.weight[1:].data_ptr()
        with torch.no_grad():
            model.view.zero_()
    assert (model.weight.data_ptr(), model.weight.dtype) == (before[0], torch.float32)
    assert torch.equal(model.weight, before[1]) and x.dtype == torch.float32
    with snapshot.in_force(contents):
        assert model.weight[1:].count_nonzero() == 0, "the leg goes on from its own numbers"


def test_entries_of_a_container_with_code_of_its_own_are_leaves_in_float64() -> None:
    original = batch()
    snapshot, contents, (made,) = converted(honest, call(original))
    with snapshot.in_force(contents):
        inputs = made.args[0]
        assert inputs["x"].is_leaf and inputs["x"].requires_grad and inputs["x"].dtype == torch.float64
        assert inputs["mask"].dtype == torch.bool
    assert original["x"].dtype == torch.float32


def test_tensors_of_an_inference_model_are_replaced() -> None:
    with torch.inference_mode():
        inference, x = nn.Linear(2, 2), torch.randn(3, 2)
    weight = inference.weight
    snapshot, contents, (made,) = converted(inference, call(x))
    with snapshot.in_force(contents), torch.inference_mode():
        assert inference(*made.args).dtype == torch.float64
    assert inference.weight is weight and x.dtype == torch.float32


def test_a_target_is_on_the_device_in_the_body_only() -> None:
    model, x = nn.Linear(2, 2), torch.randn(3, 2)
    with on_device(model, [call(x)], "meta") as (there,):
        assert model.weight.device.type == there.args[0].device.type == "meta"
    assert model.weight.device.type == x.device.type == "cpu"
    with on_device(model, [call(x)], "cpu") as (there,):
        assert there.args[0] is x
