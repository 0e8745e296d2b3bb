"""Breaks in every place. Their fingerprints are constants in test_observer.py, the same on every torch."""

import torch


def at_start(x):
    torch._dynamo.graph_break()
    return x.sin()


def in_middle(x):
    x = x.sin()
    torch._dynamo.graph_break()
    return x.cos()


def at_end(x):
    x = x.sin()
    torch._dynamo.graph_break()
    return x


def in_loop(x):
    for _ in range(2):
        x = x.sin()
        torch._dynamo.graph_break()
    return x


def in_with(x):
    with torch.enable_grad():
        x = x.sin()
        torch._dynamo.graph_break()
    return x


def in_try(x):
    try:
        x = x.sin()
        torch._dynamo.graph_break()
    except KeyError:
        return x
    return x.cos()


def helper(x):
    print("in helper")
    return x.cos()


def in_called_function(x):
    return helper(x.sin())


def on_data(x):
    x = x.sin()
    if x.sum() > 100:
        return x + 1
    return x - 1


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        print("in backward")
        return grad * 2


def in_custom_backward(x):
    return Doubled.apply(x).sin()


def several(x):
    print("one")
    x = x.sin()
    print("two")
    x = x.cos()
    if x.sum() > 100:
        return x + 1
    torch._dynamo.graph_break()
    return x - 1


def cut():
    torch._dynamo.graph_break()


def through_a_helper(x):
    x = x.sin()
    cut()
    x = x.cos()
    cut()
    for _ in range(2):
        x = x.tan()
    cut()
    return x + 1


class Layer(torch.nn.Module):
    def forward(self, x):
        x = x.sin()
        torch._dynamo.graph_break()
        return x.cos()


class Layers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = Layer()

    def forward(self, x):
        x = self.layer(x)
        x = x + 1
        return self.layer(x)


through_layers = Layers()


def met_in_a_loop(x):
    for _ in range(3):
        x = with_a_cut(x)
    return x


def with_a_cut(x):
    x = x.sin()
    cut()
    return x.cos()


def in_a_comprehension(x):
    return sum([shown(value) for value in (x, x + 1)])


def shown(x):
    print("value")
    return x.sin()


def in_vmap(x):
    return torch.vmap(shown)(x.cos())
