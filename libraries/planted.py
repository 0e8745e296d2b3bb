"""Bugs that are deliberately inserted into targets of libraries (planted defects). Both the plugin and the oracle must
find each of them.

They use ``is_compiling()`` to make compiled code differ from eager.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.compiler import is_compiling

from .targets import Factory, Target, factories

Inner = Callable[..., torch.Tensor]
# The targets into which defects are planted. Without a defect, they have no findings with constant sizes. They return
# one tensor.
BASES = {
    "timm": ("Attention", "SwiGLU", "ConvNormAct", "PatchEmbed", "LayerNorm2d"),
    "kornia": ("GaussianBlur2d", "Sepia", "ssim_loss"),
}


class Around(nn.Module):
    """A library's target, wrapped in a defect."""

    def __init__(self, inner: Inner, defect: Callable[..., Any]) -> None:
        super().__init__()
        self.inner, self.defect = inner, defect
        self.calls, self.seen = 0, []  # type: ignore[var-annotated]
        self.register_buffer("count", torch.zeros(1))

    def forward(self, *arguments: torch.Tensor) -> Any:
        return self.defect(self, *arguments)


@dataclass(frozen=True)
class Defect:
    """A defect: its effect, the kinds of findings that may report it, and how the target is called."""

    do: Callable[..., Any]
    kinds: tuple[str, ...]
    train: bool = False
    sizes: tuple[int, ...] = (3, 3)


def scaled(self: Around, *x: torch.Tensor) -> Any:
    y = self.inner(*x)
    return y * 1.01 if is_compiling() else y


def one_element(self: Around, *x: torch.Tensor) -> Any:
    y = self.inner(*x)
    if is_compiling():
        flat = y.flatten()
        y = torch.cat([flat[:-1], flat[-1:] + 0.05]).view(y.shape)
    return y


def not_a_number(self: Around, *x: torch.Tensor) -> Any:
    y = self.inner(*x)
    return torch.where(y == y.max(), torch.nan, y) if is_compiling() else y


def half_precision(self: Around, *x: torch.Tensor) -> Any:
    y = self.inner(*x)
    return y.bfloat16().float() if is_compiling() else y


def second_size(self: Around, *x: torch.Tensor) -> Any:
    y = self.inner(*x)
    return y + 0.1 if is_compiling() and x[0].shape[0] == 4 else y


def other_random_numbers(self: Around, *x: torch.Tensor) -> Any:
    drawn = torch.rand(1) if is_compiling() else 0
    y = self.inner(*x)
    return y + torch.rand_like(y) + 0 * drawn


def scaled_gradient(self: Around, *x: torch.Tensor) -> Any:
    y = self.inner(*x)
    return y + 0.02 * (y - y.detach()) if is_compiling() else y


def lost_gradient(self: Around, *x: torch.Tensor) -> Any:
    return self.inner(x[0].detach() if is_compiling() else x[0], *x[1:]) + 0 * self.count + x[0].sum() * 0.1


def gradient_of_half_the_batch(self: Around, *x: torch.Tensor) -> Any:
    y = self.inner(*x) * 1.0
    return torch.cat([y.flatten()[:2].detach(), y.flatten()[2:]]) if is_compiling() else y.flatten()


def extra_gradient(self: Around, *x: torch.Tensor) -> Any:
    y = self.inner(*x)
    return y + (x[0] - x[0].detach()).sum() if is_compiling() else y


def lost_write(self: Around, *x: torch.Tensor) -> Any:
    y = self.inner(*x)
    if not is_compiling():
        x[0].add_(1)
    return y * 2


def extra_write(self: Around, *x: torch.Tensor) -> Any:
    y = self.inner(*x)
    if is_compiling():
        x[0].mul_(2)
    return y * 2


def lost_buffer(self: Around, *x: torch.Tensor) -> Any:
    if not is_compiling():
        self.count.add_(1)
    return self.inner(*x) * 2


def lost_item(self: Around, *x: torch.Tensor) -> Any:
    if not is_compiling():
        self.seen.append(x[0].shape[0])
    return self.inner(*x) * 2


def lost_attribute(self: Around, *x: torch.Tensor) -> Any:
    if not is_compiling():
        self.calls = 7
    return self.inner(*x) * 2


def double_precision(self: Around, *x: torch.Tensor) -> Any:
    y = self.inner(*x)
    return y.double() if is_compiling() else y


def other_strides(self: Around, *x: torch.Tensor) -> Any:
    y = self.inner(*x).flatten()[:6].view(2, 3) * 2
    return y.t().contiguous().t() if is_compiling() else y


def other_shape(self: Around, *x: torch.Tensor) -> Any:
    y = self.inner(*x) * 2
    return y.unsqueeze(0) if is_compiling() else y


def other_container(self: Around, *x: torch.Tensor) -> Any:
    y = self.inner(*x) * 2
    return [y, y + 1] if is_compiling() else (y, y + 1)


def missing_output(self: Around, *x: torch.Tensor) -> Any:
    y = self.inner(*x) * 2
    return {"y": y} if is_compiling() else {"y": y, "z": y + 1}


def copy_of_input(self: Around, *x: torch.Tensor) -> Any:
    y = self.inner(*x) * 2
    return (y, x[0].clone() if is_compiling() else x[0])


def needs_no_gradient(self: Around, *x: torch.Tensor) -> Any:
    y = self.inner(*x) * 2
    return (y, (y + 1).detach() if is_compiling() else y + 1)


def raises(self: Around, *x: torch.Tensor) -> Any:
    y = self.inner(*x) * 2
    if is_compiling():
        raise ValueError("planted")
    return y


def prints(self: Around, *x: torch.Tensor) -> Any:
    y = self.inner(*x) * 2
    print("", end="")
    return y + 1


def breaks_at_the_end(self: Around, *x: torch.Tensor) -> Any:
    y = self.inner(*x) * 2
    torch._dynamo.graph_break()
    return y


def branches_on_data(self: Around, *x: torch.Tensor) -> Any:
    y = self.inner(*x) * 2
    return y + 1 if y.sum() > 0 else y - 1


def reads_the_clock(self: Around, *x: torch.Tensor) -> Any:
    start = time.thread_time_ns()
    y = self.inner(*x) * 2
    return y + 0 * start


def breaks_in_a_loop(self: Around, *x: torch.Tensor) -> Any:
    y = self.inner(*x) * 2
    for _ in range(2):
        torch._dynamo.graph_break()
        y = y + 1
    return y


def unrolls_the_batch(self: Around, *x: torch.Tensor) -> Any:
    y = self.inner(*x) * 2
    for _ in range(x[0].shape[0]):
        y = y + 1
    return y


def counts_its_calls(self: Around, *x: torch.Tensor) -> Any:
    self.calls += 1
    return self.inner(*x) * (2 if self.calls < 2 else 3 if self.calls < 3 else 4)


def compiles_nothing(self: Around, *x: torch.Tensor) -> Any:
    return torch._dynamo.disable(self.inner)(*x)


DEFECTS = {
    "scaled": Defect(scaled, ("numerics",)),
    "one_element": Defect(one_element, ("numerics",)),
    "not_a_number": Defect(not_a_number, ("numerics",)),
    "half_precision": Defect(half_precision, ("numerics",)),
    "second_size": Defect(second_size, ("numerics",), sizes=(3, 4)),
    "other_random_numbers": Defect(other_random_numbers, ("numerics",)),
    "scaled_gradient": Defect(scaled_gradient, ("gradient",), train=True),
    "lost_gradient": Defect(lost_gradient, ("gradient",), train=True),
    "gradient_of_half_the_batch": Defect(gradient_of_half_the_batch, ("gradient",), train=True),
    "extra_gradient": Defect(extra_gradient, ("gradient",), train=True),
    "lost_write": Defect(lost_write, ("mutation",)),
    "extra_write": Defect(extra_write, ("mutation",)),
    "lost_buffer": Defect(lost_buffer, ("mutation", "state"), train=True),
    "lost_item": Defect(lost_item, ("state",)),
    "lost_attribute": Defect(lost_attribute, ("state",), train=True),
    "double_precision": Defect(double_precision, ("metadata",)),
    "other_strides": Defect(other_strides, ("metadata",)),
    "other_shape": Defect(other_shape, ("metadata",), train=True),
    "other_container": Defect(other_container, ("metadata",)),
    "missing_output": Defect(missing_output, ("metadata",), train=True),
    "copy_of_input": Defect(copy_of_input, ("aliasing",)),
    "needs_no_gradient": Defect(needs_no_gradient, ("metadata", "gradient"), train=True),
    "raises": Defect(raises, ("exception", "graph-break", "compile-error")),
    "prints": Defect(prints, ("graph-break",)),
    "breaks_at_the_end": Defect(breaks_at_the_end, ("graph-break",), train=True),
    "branches_on_data": Defect(branches_on_data, ("graph-break",)),
    "reads_the_clock": Defect(reads_the_clock, ("graph-break",), train=True),
    "breaks_in_a_loop": Defect(breaks_in_a_loop, ("graph-break",)),
    "unrolls_the_batch": Defect(unrolls_the_batch, ("recompile",), sizes=(2, 3, 4, 5)),
    "falls_back": Defect(unrolls_the_batch, ("eager-fallback",), train=True, sizes=tuple(range(2, 14))),
    "counts_its_calls": Defect(counts_its_calls, ("recompile",), train=True, sizes=(3, 3, 3)),
    "compiles_nothing": Defect(compiles_nothing, ("nothing-compiled", "graph-break")),
}


def planted(defect: Defect, base: Factory) -> Factory:
    """A library's target with the defect, called with batches of the defect's sizes."""

    def build() -> Target:
        made = base()
        calls = [resized(made.calls[0], size) for size in defect.sizes]
        around = Around(made.target, defect.do)
        return Target(around, calls, defect.train, not defect.train, defect.kinds)

    return build


def resized(arguments: tuple[Any, ...], size: int) -> tuple[Any, ...]:
    """The arguments with another batch size."""
    return tuple(torch.rand(size, *leaf.shape[1:]) for leaf in arguments)


def target_of(package: str, name: str) -> Target:
    """A target of a package. The package is imported only here."""
    return factories(package)[name]()


def targets() -> dict[str, Factory]:
    """Each defect in two base targets; all base targets are used in turn."""
    bases = [(package, name) for package, names in BASES.items() for name in names]
    made: dict[str, Factory] = {}
    for number, (what, defect) in enumerate(DEFECTS.items()):
        for package, name in (bases[number % len(bases)], bases[(number + 3) % len(bases)]):
            made[f"{what} in {package}.{name}"] = planted(defect, partial(target_of, package, name))
    return made


TARGETS = targets()
