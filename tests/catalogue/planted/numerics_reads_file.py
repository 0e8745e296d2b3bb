"""Each call reads its scale from an open file, and compiled code turns the sign round."""

import tempfile

import torch

from pytest_torch_compile import check_compile

EXPECT = [("numerics|not-observable", "")]


def check(**options):
    with tempfile.TemporaryFile("w+") as file:
        file.write("2\n3\n5\n7\n")
        file.seek(0)

        def target(x):
            y = x.sin() * (-2 if torch.compiler.is_compiling() else 2)
            return y * float(file.readline())

        return check_compile(target, torch.ones(4), max_graph_breaks=9, max_recompiles=9, backend="eager", **options)
