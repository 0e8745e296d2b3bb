"""One `torch.Generator` as the argument of two calls: afterwards it stands where it stood."""

import torch

from pytest_torch_compile import call, check_compile


def target(x, generator):
    return x.sin() + torch.rand(4, generator=generator)


def check(**options):
    generator = torch.Generator().manual_seed(1)
    before = generator.get_state()
    report = check_compile(
        target,
        calls=[call(torch.ones(4), generator)] * 2,
        max_graph_breaks=9,
        max_recompiles=9,
        backend="eager",
        **options,
    )
    assert torch.equal(generator.get_state(), before)
    return report
