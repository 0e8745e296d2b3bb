"""What travels between a group and its ranks: a function with its arguments, and what it returned."""

from __future__ import annotations

import io
import os
import pickle
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from types import ModuleType
from typing import Any

from .._torch.user_lines import is_library
from ..findings import CompileUsageError


def pack(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
    """A call as bytes: ``pickle.loads`` gives it back, in a process that has ``ModulesOfParent``.

    Raises:
        CompileUsageError: something that cannot be sent.
    """
    call = (function, args, kwargs)
    try:
        try:
            # By name where it has one: dynamo imports the module of the code that it compiles.
            buffer = io.BytesIO()
            _Pickler(buffer).dump(call)
            return buffer.getvalue()
        except Exception:
            return pack_by_value(call)
    except Exception as error:
        from ..check.describe import target_name

        advice = "Build models and other objects inside the function."
        if isinstance(error, ImportError):
            advice = "Nested functions and lambdas need cloudpickle: pip install 'pytest-torch-compile[ranks]'"
        raise CompileUsageError(
            f"{target_name(function)} or its arguments cannot be sent to another process: {error}. {advice}"
        ) from error


def pack_by_value(call: object) -> bytes:
    """A call as bytes, with the code of what has no name that another process knows."""
    import cloudpickle

    class Pickler(cloudpickle.Pickler):
        def reducer_override(self, thing: Any) -> Any:
            if (reduced := _reduced_inference_tensor(thing)) is not NotImplemented:
                return reduced
            # cloudpickle knows plain modules only; torch.ops is of a class of its own.
            if isinstance(thing, ModuleType) and type(thing) is not ModuleType:
                return import_module, (thing.__name__,)
            return super().reducer_override(thing)

    buffer = io.BytesIO()
    Pickler(buffer).dump(call)
    return buffer.getvalue()


class _Pickler(pickle.Pickler):
    def reducer_override(self, thing: Any) -> Any:
        return _reduced_inference_tensor(thing)


def _reduced_inference_tensor(thing: Any) -> Any:
    """An inference tensor arrives as one: by itself pickle makes a normal one, which dynamo's guards tell apart."""
    import torch

    if not (isinstance(thing, torch.Tensor) and thing.is_inference()):
        return NotImplemented
    rebuild, arguments, *more = thing.__reduce_ex__(pickle.DEFAULT_PROTOCOL)
    return _in_inference_mode, (rebuild, arguments), *more


def _in_inference_mode(rebuild: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    import torch

    with torch.inference_mode():
        return rebuild(*arguments)


def pack_value(value: Any) -> bytes:
    """What a rank returned, as bytes."""
    import torch

    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def unpack_value(packed: bytes) -> Any:
    """What a rank returned; tensors are on the CPU."""
    import torch

    return torch.load(io.BytesIO(packed), map_location="cpu", weights_only=False)


def user_modules() -> dict[str, ModuleSpec]:
    """Where this process has the modules that are not installed, and the packages around them."""
    specs: dict[str, ModuleSpec] = {}
    # Read from __dict__: some modules of torch answer to any name.
    modules = {name: vars(module) for name, module in list(sys.modules.items()) if isinstance(module, ModuleType)}
    # Inductor loads generated files as modules below torch: a rank has torch itself, and makes its own.
    installed = {name for name, module in modules.items() if is_library(module.get("__file__") or "")}
    for name, module in modules.items():
        file = module.get("__file__")
        if file and os.path.isfile(file) and not is_library(file) and name.partition(".")[0] not in installed:
            folders = list(module["__path__"]) if "__path__" in module else None
            if spec := spec_from_file_location(name, file, submodule_search_locations=folders):
                specs[name] = spec
    packages = {name[:end] for name in specs for end, sign in enumerate(name) if sign == "."}
    for name in packages - specs.keys():
        specs[name] = ModuleSpec(name, None, is_package=True)  # a folder without __init__.py
        specs[name].submodule_search_locations = list(modules.get(name, {}).get("__path__", []))
    return specs


class ModulesOfParent(MetaPathFinder):
    """Finds modules where the parent has them: no search path leads to those of pytest's importlib mode."""

    def __init__(self) -> None:
        self.specs: Mapping[str, ModuleSpec] = {}

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The parent's module of this name; None for what the search path is left to find."""
        return self.specs.get(name)
