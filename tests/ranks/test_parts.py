"""Ranks on parts of a batch, held by check_compile to one process on the whole batch."""

from __future__ import annotations

from typing import NamedTuple

import pytest

torch = pytest.importorskip("torch")

from torch import distributed as dist  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

from pytest_torch_compile import CompileCheckFailed, check_compile, on_parts  # noqa: E402

pytestmark = [
    pytest.mark.distributed,
    pytest.mark.skipif(not dist.is_available(), reason="torch was built without torch.distributed"),
]


class Both(NamedTuple):
    output: torch.Tensor
    features: list


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Linear(4, 4), torch.nn.Linear(4, 2)

    def forward(self, x, mask=None):
        features = self.first(x).relu()
        return Both(self.last(features if mask is None else features * mask), [features])


def checked(wrap, **options):
    torch.manual_seed(0)
    model, x = Net(), torch.randn(4, 4)
    options = {"train": True, "optimizer": lambda p: torch.optim.SGD(p, lr=0.1), "steps": 2} | options
    check_compile(model, x, mask=torch.ones(4, 4), compile=on_parts(wrap), **options)


def compiled(module):
    return torch.compile(module, backend="aot_eager")


def averaged(module):
    return DistributedDataParallel(compiled(module))


def not_averaged(module):
    return compiled(module)


def other_parts(module):
    inner = averaged(module)
    return lambda x, mask: inner(x.flip(0), mask)


def scaled_on_rank_1(module):
    inner = averaged(module)
    return lambda x, mask: inner(x * (1 + dist.get_rank()), mask)


def replaced_on_rank_1(module):
    if dist.get_rank():
        torch.nn.init.ones_(module.first.weight)  # DDP sends rank 0's, plain compilation does not
    return compiled(module)


def test_data_parallel_training_is_that_of_one_process(ranks):
    ranks.run(checked, averaged)


@pytest.mark.parametrize(
    ("wrap", "kind"),
    [
        (not_averaged, "gradient"),
        (other_parts, "numerics"),
        (scaled_on_rank_1, "numerics"),
        (replaced_on_rank_1, "numerics"),
    ],
)
def test_what_is_not_the_result_of_one_process_is_found_on_all_ranks(ranks, wrap, kind):
    with pytest.raises(CompileCheckFailed) as caught:
        ranks.run(checked, wrap, same=())
    assert kind in {finding.kind for finding in caught.value.findings}
    assert (0, 1) in {finding.ranks for finding in caught.value.findings}


def uneven():
    check_compile(torch.nn.Linear(2, 2), torch.ones(3, 2), compile=on_parts(compiled))


def test_a_batch_without_equal_parts_is_said_to_be_so(ranks):
    with pytest.raises(
        CompileCheckFailed,
        match="a batch of 3 cannot be split into 2 equal parts: use a batch size that is a multiple of 2",
    ):
        ranks.run(uneven)
