"""The code that the golden messages speak of. The lines are part of those messages: add at the end only."""

import torch  # noqa: F401


def helper(x):
    print("mean", x.shape)
    return x.cos()


def breaks_twice(x):
    x = helper(x.sin())
    if x.sum() > 0:
        return x + 1
    return x - 1


def scaled(x, flag="mean"):
    return x.sin() * len(flag)


def no_op(x):
    return x


def linear(x, w):
    return (x @ w).relu()


def add_in_place(x):
    x.add_(1)
    return x * 2


def first_row(x):
    return x.sin_()[0]


def transposed(x):
    return x.sin().t()


# Backends that do what a defect in a compiler would do.


def refuses(gm, example_inputs):
    raise ValueError("no kernel for aten.sin on this device")


def inexact(gm, example_inputs):
    def run(*args):
        out = list(gm(*args))
        out[0] = out[0].clone()
        out[0][-1, 0] += 0.5
        return out

    return run


def wrong_gradient(gm, example_inputs):
    def run(*args):
        return [out + 0.1 * (out - out.detach()) for out in gm(*args)]

    return run


def loses_writes(gm, example_inputs):
    return lambda *args: gm(*[arg.clone() for arg in args])


def copies_outputs(gm, example_inputs):
    return lambda *args: [out.clone() for out in gm(*args)]


def makes_contiguous(gm, example_inputs):
    return lambda *args: [out.contiguous() for out in gm(*args)]


def raises_when_run(gm, example_inputs):
    def run(*args):
        raise IndexError("index 7 is out of bounds for dimension 0 with size 4")

    return run


def limits(x, name):
    return x.sin() if name else x.cos()
