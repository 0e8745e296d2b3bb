"""Build, save and load deployment artifacts: AOTInductor packages, exported programs and precompiled functions.

This module uses these private torch names: ``torch._inductor.aoti_compile_and_package`` and ``aoti_load_package`` (both
are documented; checked with torch 2.6, 2.8, 2.11, 2.13 and 2.15), and ``torch._dynamo.config.enable_aot_compile`` and
``aot_compile`` of a ``torch.compile`` result (checked with torch 2.11, 2.13 and 2.15).
``torch.compiler.load_compiled_function`` is public.
"""

from __future__ import annotations

import inspect
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from .random_ops import draw_as_in_eager

ARTIFACT_KINDS = ("aot_inductor", "export", "precompile")
# Maps each positional argument (by position) and keyword argument (by name) to its dynamic dimensions. The value of a
# dimension is its bounds, its name, or None. All dimensions with the same name have the same size.
Dims = Mapping[int | str, Mapping[int, Any]]


def unavailable(via: str) -> str:
    """Return the reason why this torch version cannot build the artifact type ``via``, or an empty string if it can."""
    if via != "precompile" or hasattr(torch.compiler, "load_compiled_function"):
        return ""
    return (
        f"not supported on torch {torch.__version__}: this version cannot save a compiled function (requires torch "
        "2.11 or newer)"
    )


def build(
    via: str,
    model: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    dims: Dims,
    options: Mapping[str, Any] | None,
    path: Path,
) -> None:
    """Build an artifact of type ``via`` from one call of ``model``, and write it to ``path``. For ``precompile``,
    ``dims`` is ignored, because the caller has already marked the dynamic dimensions on the arguments.
    """
    draw_as_in_eager()
    if via == "precompile":
        _precompile(model, args, kwargs, options, path)
        return
    program = torch.export.export(model, args, dict(kwargs), dynamic_shapes=_dynamic_shapes(model, args, kwargs, dims))
    if via == "export":
        torch.export.save(program, path)
    elif via == "aot_inductor":
        torch._inductor.aoti_compile_and_package(
            program, package_path=str(path), inductor_configs=dict(options) if options else None
        )
    else:
        raise ValueError(f"{via!r} is not in ARTIFACT_KINDS")


def load(via: str, path: Path, model: torch.nn.Module | None) -> Callable[..., Any]:
    """Load the artifact and return a callable. A ``precompile`` artifact contains only code and uses the weights of
    ``model``.
    """
    if via == "aot_inductor":
        package: Callable[..., Any] = torch._inductor.aoti_load_package(str(path))
        return package
    if via == "export":
        module: Callable[..., Any] = torch.export.load(path).module()
        return module
    if via == "precompile":
        assert model is not None
        # The compiled code refers to globals of the model's module, such as the class of an output.
        defined_in = getattr(inspect.unwrap(model.forward), "__globals__", None)
        with path.open("rb") as file:
            compiled = torch.compiler.load_compiled_function(file, f_globals=defined_in)
        return lambda *args, **kwargs: compiled(model, *args, **kwargs)
    raise ValueError(f"{via!r} is not in ARTIFACT_KINDS")


def has_own_cpp_library(path: Path) -> bool:
    """Return whether the C++ standard library was statically linked into an AOTInductor package.

    torch has already loaded the C++ standard library ``libstdc++.so``. If a package contains a second copy of this
    library, calls to the second copy fail or crash, for example when the package parses the device name with a regular
    expression.
    """
    with zipfile.ZipFile(path) as package:
        libraries = [package.read(name) for name in package.namelist() if name.endswith(".so")]
    return any(b"libstdc++.so" not in library and b"libc++.so" not in library for library in libraries)


def _precompile(
    model: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    options: Mapping[str, Any] | None,
    path: Path,
) -> None:
    with torch._dynamo.config.patch(enable_aot_compile=True):
        compiled = torch.compile(model.forward, fullgraph=True, options=dict(options) if options else None)
        compiled.aot_compile((args, dict(kwargs))).save_compiled_function(str(path))


def _dynamic_shapes(model: torch.nn.Module, args: Any, kwargs: Any, dims: Dims) -> dict[str, Any] | None:
    """Convert ``dims`` to the ``dynamic_shapes`` argument of ``torch.export.export``, with an entry for every argument
    of the model.
    """
    if not dims:
        return None
    names = {limit for marked in dims.values() for limit in marked.values() if isinstance(limit, str)}
    named = {
        name: torch.export.Dim(name if name.isidentifier() else f"size_{position}")
        for position, name in enumerate(sorted(names))
    }
    marks = {
        argument: {
            dim: named[limit] if isinstance(limit, str) else _unnamed_dim(limit) for dim, limit in marked.items()
        }
        for argument, marked in dims.items()
    }
    # Like the arguments, the marks of *args are a tuple, and the marks of **kwargs are a dict.
    positional = [marks.get(position) for position in range(len(args))]
    bound = inspect.signature(model.forward).bind(*positional, **{name: marks.get(name) for name in kwargs})
    return dict(bound.arguments)


def _unnamed_dim(bounds: tuple[int, int] | None) -> Any:
    # AUTO detects equal dimensions, and specializes dimensions for which the code allows only one size.
    auto: Any = torch.export.Dim.AUTO
    return auto(min=bounds[0], max=bounds[1]) if bounds and callable(auto) else auto
