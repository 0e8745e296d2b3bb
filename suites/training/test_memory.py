"""Practice 22 in docs/coverage.md: compiled training uses less memory than eager.

Measured (H200, torch 2.11, the captioner): 19.4 GB compiled against 23.7 GB in eager. On a GPU, the peaks are compared.
On a CPU, where torch does not measure the peak, the memory that forward saves for backward is compared: the partitioner
recomputes cheap values instead of saving them.
"""

from functools import partial

import pytest
import torch

from pytest_torch_compile.speed.measuring.bench import measure_compile

from ..captioning.models import captions, on_device, published_captions, tiny
from .steps import module, published_step


def saved_bytes(model, batch):
    """The bytes that forward keeps for backward, without parameters and inputs. Each storage is counted once."""
    own = {tensor.untyped_storage().data_ptr() for tensor in (*model.parameters(), *batch.values())}
    kept = {}

    def note(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = (storage.nbytes(), tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        loss = model(**batch).loss
    loss.backward()
    return sum(size for size, _ in kept.values())


@pytest.mark.usefixtures("compile_check")
def test_forward_saves_less_for_backward(backend):
    model, batch = tiny(layers=2), captions([32, 24])

    eager = saved_bytes(model, batch)
    compiled = saved_bytes(torch.compile(model, backend=backend), batch)

    assert compiled < 0.9 * eager


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="peak memory can be measured only on a CUDA device")
def test_peak_is_lower_than_eager():
    step, batch = published_step(layers=2), on_device(published_captions([256] * 16))

    sample = measure_compile(step, kwargs=batch, seconds=0.2, compile=partial(module, compile=torch.compile))

    assert sample.memory is not None
    assert sample.memory.compiled < 0.95 * sample.memory.eager
