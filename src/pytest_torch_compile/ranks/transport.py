"""Send functions, arguments and results between this process and the ranks."""

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
from types import CodeType, ModuleType
from typing import Any

from .._torch.user_lines import is_library
from ..findings import CompileUsageError

Reduce = Callable[[Any], Any]
_NO_FILE = "<dynamic-code>"


def pack(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], reduce: Reduce | None = None
) -> bytes:
    """Pack a call as bytes, which ``pickle.loads`` restores in a process with the import hook ``ModulesOfParent``.

    ``reduce`` decides how an object is packed, like ``Pickler.reducer_override``.

    Raises:
        CompileUsageError: If the function or an argument cannot be sent.
    """
    call = (function, args, kwargs)
    try:
        try:
            # Pickle functions and classes by name if possible, because dynamo imports the module of the code that it
            # compiles.
            buffer = io.BytesIO()
            _Pickler(buffer, reduce).dump(call)
            return buffer.getvalue()
        except CompileUsageError:
            raise
        except Exception:
            return pack_by_value(call, reduce)
    except CompileUsageError:
        raise
    except Exception as error:
        from ..check.describe import target_name

        advice = "Create models and other objects inside the function."
        if isinstance(error, ImportError):
            advice = "Nested functions and lambdas need cloudpickle: pip install 'pytest-torch-compile[ranks]'"
        raise CompileUsageError(
            f"{target_name(function)} or its arguments cannot be sent to another process: {error}. {advice}"
        ) from error


def pack_by_value(call: object, reduce: Reduce | None = None) -> bytes:
    """Pack a call as bytes, including the code of objects that cannot be imported by name."""
    import cloudpickle

    class Pickler(cloudpickle.Pickler):
        def reducer_override(self, thing: Any) -> Any:
            if (reduced := (reduce or _reduced_inference_tensor)(thing)) is not NotImplemented:
                return reduced
            # cloudpickle supports only plain modules; torch.ops is an instance of a subclass.
            if isinstance(thing, ModuleType) and type(thing) is not ModuleType:
                return import_module, (thing.__name__,)
            # cloudpickle drops the name of the file, which findings must show.
            if isinstance(thing, CodeType) and thing.co_filename != _NO_FILE:
                return _in_file, (thing.replace(co_filename=_NO_FILE), thing.co_filename)
            return super().reducer_override(thing)

    buffer = io.BytesIO()
    Pickler(buffer).dump(call)
    return buffer.getvalue()


def _in_file(code: CodeType, name: str) -> CodeType:
    return code.replace(co_filename=name)


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, reduce: Reduce | None) -> None:
        super().__init__(file)
        self._reduce = reduce or _reduced_inference_tensor

    def reducer_override(self, thing: Any) -> Any:
        return self._reduce(thing)


def _reduced_inference_tensor(thing: Any) -> Any:
    """Reduce an inference tensor so that unpickling restores an inference tensor. By default, unpickling creates a
    normal tensor, for which dynamo creates different guards.
    """
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
    """Convert a rank's result to bytes."""
    import torch

    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def unpack_value(packed: bytes) -> Any:
    """Restore a rank's result from bytes; its tensors are on the CPU."""
    import torch

    return torch.load(io.BytesIO(packed), map_location="cpu", weights_only=False)


def user_modules() -> dict[str, ModuleSpec]:
    """Return the import specs, with paths, of all imported modules that do not belong to an installed package, and of
    the packages that contain these modules.
    """
    specs: dict[str, ModuleSpec] = {}
    # Read from __dict__, because some torch modules return a value for any attribute.
    modules = {name: vars(module) for name, module in list(sys.modules.items()) if isinstance(module, ModuleType)}
    # Inductor loads generated files as submodules of torch; each rank generates its own files.
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
    """An import hook that finds modules at the paths from which the parent process imported them. Without the hook,
    modules that pytest imports in importlib mode could not be imported, because they are not on the search path.
    """

    def __init__(self) -> None:
        self.specs: Mapping[str, ModuleSpec] = {}

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the parent's spec for this module, or None to continue with the search path."""
        return self.specs.get(name)
