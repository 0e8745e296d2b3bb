"""What is sent to another process arrives as it was."""

from __future__ import annotations

import pickle

import pytest

torch = pytest.importorskip("torch")

from pytest_torch_compile.ranks.transport import pack, pack_by_value  # noqa: E402


@pytest.mark.parametrize("packed", [lambda *args: pack(print, args, {}), lambda *args: pack_by_value((print, args))])
def test_inference_tensors_stay_inference_tensors(packed):
    normal = torch.nn.Linear(2, 2)
    with torch.inference_mode():
        inference, x = torch.nn.Linear(2, 2), torch.randn(3, 2)
    sent = normal, inference, x
    _, arrived, *_ = pickle.loads(packed(*sent))
    for there, here in zip(tensors(*arrived), tensors(*sent), strict=True):
        assert type(there) is type(here) and torch.equal(there, here)
        assert (there.is_inference(), there.requires_grad) == (here.is_inference(), here.requires_grad)


def tensors(normal, inference, x):
    return normal.weight, inference.weight, x


def test_code_sent_by_value_keeps_its_file():
    def nested():
        return lambda: None

    arrived, *_ = pickle.loads(pack(nested, (), {}))
    assert arrived is not nested
    assert arrived.__code__ == nested.__code__ and arrived.__code__.co_filename == __file__
    assert arrived().__code__.co_filename == __file__
