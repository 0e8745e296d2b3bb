"""A backend that reads both inputs before it writes one: wrong only when the two share storage, on the second call."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("numerics", "call 2"), ("mutation", "call 2")]
ALSO = {"aliasing", "recompile"}


def snapshot(gm, example_inputs):
    def run(*args):
        copies = [arg.clone() for arg in args]
        outputs = gm(*copies)
        for arg, copy in zip(args, copies, strict=True):
            arg.copy_(copy)
        return outputs

    return run


def target(a, b):
    a.add_(1)
    return b * 2


def check(**options):
    one = torch.zeros(5)
    calls = [(torch.zeros(4), torch.zeros(4)), (one[:4], one[1:])]
    return check_compile(target, calls=calls, backend=snapshot, max_recompiles=1, **options)
