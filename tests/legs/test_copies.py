"""Each leg's own copy of the inputs, also of containers that copy themselves."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from pytest_torch_compile import CompileCheckFailed, call, check_compile  # noqa: E402
from pytest_torch_compile.legs.copies import copy_leg  # noqa: E402


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


@pytest.mark.parametrize("cast", [None, torch.float64])
def test_copied_entries_are_leaves_of_the_dtype_asked_for(cast: Any) -> None:
    original = batch()
    _, (copied,), _ = copy_leg(honest, [call(original)], cast)
    x, mask = copied.args[0]["x"], copied.args[0]["mask"]
    assert x.is_leaf and x.requires_grad and x is not original["x"]
    assert x.dtype == (cast or torch.float32) and mask.dtype == torch.bool
    assert original["x"].dtype == torch.float32


def test_a_copy_is_an_inference_tensor_where_the_original_is_one() -> None:
    normal = torch.nn.Linear(2, 2)
    result = normal.weight * 2  # no leaf
    with torch.inference_mode():
        inference, x = torch.nn.Linear(2, 2), torch.randn(3, 2)
        copied, (called,), _ = copy_leg([normal, inference], [call(x, result)])
    for original, copy in zip([normal, inference], copied, strict=True):
        assert isinstance(copy.weight, torch.nn.Parameter) and torch.equal(copy.weight, original.weight)
        assert copy.weight.is_inference() == original.weight.is_inference()
    assert called.args[0].is_inference() and called.args[0] is not x
    assert not called.args[1].is_inference() and called.args[1].requires_grad


def test_a_copy_in_another_dtype_made_in_inference_mode_can_be_trained() -> None:
    model, x = torch.nn.Linear(2, 2), torch.randn(3, 2)
    with torch.inference_mode():
        copied, (called,), _ = copy_leg(model, [call(x)], torch.float64)
    copied(*called.args).sum().backward()
    assert copied.weight.grad.dtype == torch.float64
