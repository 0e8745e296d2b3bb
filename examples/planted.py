"""Insert a deliberate bug (a planted defect) into a library, for the examples and, with ``-p examples.planted``, for
the library's own tests.

``python -m pytest -p examples.planted --plant torch_geometric.utils:scatter=break test/nn/test_compile_basic.py``
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
import torch

CALLS: list[None] = []


def split(x: torch.Tensor) -> torch.Tensor:
    """The same values, computed with a branch on a tensor's value."""
    return x * (1 if x.sum() < 1e9 else 2)


def compile_again(x: torch.Tensor) -> torch.Tensor:
    """The same values, computed with a guard that fails in every later call, so that each call recompiles."""
    CALLS.append(None)
    return x + 0 * len(CALLS)


def wrong_number(x: torch.Tensor) -> torch.Tensor:
    """Values that are wrong by a thousandth in compiled code."""
    return x * (1.001 if torch.compiler.is_compiling() else 1.0)


def wrong_gradient(x: torch.Tensor) -> torch.Tensor:
    """The same values, but half of the gradient in compiled code."""
    return x - (x - x.detach()) / 2 if torch.compiler.is_compiling() else x


DEFECTS = {"break": split, "recompile": compile_again, "number": wrong_number, "gradient": wrong_gradient}
# The expected finding kind of each defect.
KINDS = {"break": "graph-break", "recompile": "recompile", "number": "numerics", "gradient": "gradient"}


def changed(out: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """The result ``out`` with the defect: in the tensor itself, in the last item of a tuple, or in every entry of a
    TensorDict.
    """
    if isinstance(out, torch.Tensor):
        whole = out.dtype != torch.bool and change in (split, compile_again)
        return change(out) if out.is_floating_point() or whole else out
    if isinstance(out, tuple):
        return (*out[:-1], changed(out[-1], change))
    return out.apply(lambda entry: changed(entry, change)) if hasattr(out, "apply") else out


@contextmanager
def plant(where: str, defect: str) -> Iterator[None]:
    """Plant a defect in the result of ``package.module:name.name``, in every module of the package that imports it."""
    module, _, path = where.partition(":")
    *inner, name = path.split(".")
    owner = functools.reduce(getattr, inner, importlib.import_module(module))
    sound = getattr(owner, name)

    @functools.wraps(sound)
    def defective(*args: Any, **kwargs: Any) -> Any:
        return changed(sound(*args, **kwargs), DEFECTS[defect])

    package = module.split(".")[0]
    holders = [m for n, m in sys.modules.items() if n.split(".")[0] == package and vars(m).get(name) is sound]
    with ExitStack() as undone, pytest.MonkeyPatch.context() as patch:
        undone.callback(CALLS.clear)
        for holder in [owner, *holders]:
            patch.setattr(holder, name, defective)
        yield


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--plant", metavar="MODULE:NAME=DEFECT", help=f"one of {', '.join(DEFECTS)}")
    parser.addoption("--plant-backend", metavar="NAME", help="the backend if torch.compile is called without one")


def pytest_configure(config: pytest.Config) -> None:
    if planted := config.getoption("--plant"):
        stack = ExitStack()
        stack.enter_context(plant(*planted.split("=")))
        config.add_cleanup(stack.close)
    if backend := config.getoption("--plant-backend"):
        compile_, torch.compile = torch.compile, _with_backend(torch.compile, backend)
        config.add_cleanup(lambda: setattr(torch, "compile", compile_))


def _with_backend(compile_: Callable[..., Any], backend: str) -> Callable[..., Any]:
    @functools.wraps(compile_)
    def compiled(*args: Any, **kwargs: Any) -> Any:
        kwargs.pop("mode", None)
        return compile_(*args, **{"backend": backend, **kwargs})

    return compiled
