"""Change the calls of the compiled run. The eager run uses the original calls, whose results are the reference."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from .._torch.sandbox import kept_rng
from .._torch.trees import tree_flatten, tree_leaves, tree_unflatten
from ..findings import CompileReport
from ..legs.calls import Call
from .first_call import set_up
from .subject import Subject

Sizes = list[list[torch.Size | None]]  # for each call, the sizes of the tensors in its output (None for non-tensors)


@dataclass(frozen=True)
class Adaptation:
    """The changes to the calls of the compiled run: ``call`` changes each call's arguments. If ``cuts`` is set, each
    call's results are cut to the sizes of the eager results.

    If ``eager_first`` is set, the target runs once in eager, with the arguments of the first call, before it is
    compiled.
    """

    call: Callable[[Call], Call] = lambda call: call
    cuts: bool = False
    eager_first: bool = False


def checked(subject: Subject, adaptation: Adaptation, backend: str | None, **changes: Any) -> CompileReport | None:
    """Run the check with the adapted calls and return its report, or return None if the calls cannot be adapted."""
    sizes = _sizes_in_eager(subject) if adaptation.cuts else []
    if sizes is None:
        return None
    compiling = replace(subject.compiling, **changes)
    if backend is not None:
        compiling = replace(compiling, backend=backend, mode=None, options=None)

    def compile_adapted(target: Any) -> Callable[..., Any]:
        compiled, left, started = compiling(target), itertools.cycle(sizes), False

        def run(*args: Any, **kwargs: Any) -> Any:
            nonlocal started
            if adaptation.eager_first and not started:
                with kept_rng():
                    set_up(target, args, kwargs)
            started = True
            changed = adaptation.call(Call(args, kwargs))
            output = compiled(*changed.args, **changed.kwargs)
            return _cut(output, next(left)) if adaptation.cuts else output

        return run

    # Ignore the layout: results that are cut, or computed from contiguous inputs, have different strides.
    with subject.loosened(strides=False):
        return subject.again(backend, wrapper=compile_adapted, more={})


def _sizes_in_eager(subject: Subject) -> Sizes | None:
    """Return the sizes of the eager results, or None if an eager run is not possible or fails."""
    sizes: Sizes = []

    def in_eager(target: Any) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            with torch.compiler.set_stance("force_eager"):
                output = target(*args, **kwargs)
            sizes.append([leaf.shape if isinstance(leaf, torch.Tensor) else None for leaf in tree_leaves(output)])
            return output

        return run

    report = subject.again("eager", wrapper=in_eager, more={})
    alike = report is not None and all(finding.kind == "nothing-compiled" for finding in report.findings)
    return sizes if alike else None


def _cut(output: Any, sizes: list[torch.Size | None]) -> Any:
    """Cut each tensor in the output to its size in the eager run, which removes padding, and return the result."""
    leaves, structure = tree_flatten(output)
    if len(leaves) != len(sizes):
        return output
    for place, (leaf, size) in enumerate(zip(leaves, sizes, strict=True)):
        if size is not None and isinstance(leaf, torch.Tensor) and leaf.ndim == len(size) and leaf.shape != size:
            leaves[place] = leaf[tuple(slice(length) for length in size)]
    return tree_unflatten(leaves, structure)
