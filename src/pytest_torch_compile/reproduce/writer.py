"""Write values as source: a function body that creates the target and its calls."""

from __future__ import annotations

import enum
import functools
import io
import logging
import math
import pickletools
import sys
import types
import zipfile
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import torch

from .._torch.custom_ops import is_opaque
from .._torch.dynamic import mark_statements
from ..legs.calls import Call
from .definitions import Definitions, Unwritable, is_users

_HOOKS = ("_forward_hooks", "_forward_pre_hooks")
_NO_HOOKS = ("_backward_hooks", "_backward_pre_hooks", "_state_dict_hooks", "_load_state_dict_pre_hooks")
_INTERNALS = frozenset(vars(torch.nn.Module()))
_PLAIN = (types.NoneType, bool, int, str, bytes, types.EllipsisType, complex)
_DEFINITIONS = (type, types.FunctionType, types.ModuleType, types.BuiltinFunctionType)
_SCALARS = (*_PLAIN, float, torch.dtype, torch.device, torch.layout, torch.memory_format)
TINY = 16

NEW_MODULE = '''
def new_module(kind, parameters=(), buffers=(), modules=(), **attributes):
    """Create a module of class `kind` from these parts, without running its __init__."""
    module = kind.__new__(kind)
    torch.nn.Module.__init__(module)
    for name, value in attributes.items():
        object.__setattr__(module, name, value)
    for name, value in dict(parameters).items():
        module.register_parameter(name, value)
    for name, (value, persistent) in dict(buffers).items():
        module.register_buffer(name, value, persistent=persistent)
    for name, value in dict(modules).items():
        module.register_module(name, value)
    return module
'''
NEW_OBJECT = '''
def new_object(kind, **attributes):
    """Create an object of class `kind` with these attributes, without running its __init__."""
    new = kind.__new__(kind)
    new.__dict__.update(attributes)
    return new
'''


class Writer:
    """Writes values as source, and collects the statements that create them. If ``exact`` is set, tensors keep their
    values; otherwise, tensors get random values.
    """

    def __init__(self, *, exact: bool) -> None:
        self.exact = exact
        self.definitions = Definitions(self._variable)
        self.helpers: dict[str, None] = {}
        self.body: list[str] = []
        self.state: list[str] = []
        self.stored: list[Any] = []
        self._made: dict[int, str] = {}
        self._keep: list[Any] = []
        self._taken: set[str] = set()
        self._storages: dict[int, str] = {}

    def call(self, call: Call) -> str:
        """Write a call as source: ``(args, kwargs, contexts, actions)``."""
        parts = (call.args, dict(call.kwargs), call.contexts, call.actions)
        return f"({', '.join(self.expression(part) for part in parts)})"

    def expression(self, value: Any, hint: str = "value") -> str:
        """Return the expression for a value. Statements on which the expression depends are written first."""
        if id(value) in self._made:
            return self._made[id(value)]
        if isinstance(value, torch.Tensor):
            return self._named(value, hint, self._tensor(value, hint))
        if isinstance(value, torch.nn.Module):
            return self._module(value, hint)
        if isinstance(value, (_SCALARS, torch.Size, slice, range)) and not isinstance(value, enum.Enum):
            return _scalar(value)
        if isinstance(value, types.MethodType):
            return f"{self.expression(value.__self__, hint)}.{value.__name__}"
        if isinstance(value, _DEFINITIONS) or is_opaque(value):
            return self.definitions.name_of(value, "" if hint == "value" else hint)
        container = self._container(value, hint)
        return container if container else self._object(value, hint)

    def _container(self, value: Any, hint: str) -> str:
        kind = type(value)
        if kind in (list, tuple, set, frozenset):
            items = ", ".join(self.expression(item, hint) for item in value)
            if kind is tuple:
                return f"({items}{',' if len(value) == 1 else ''})"
            return f"[{items}]" if kind is list else f"{kind.__name__}([{items}])"
        if kind in (dict, OrderedDict):
            pairs = [f"{self.expression(k)}: {self.expression(v, str(k))}" for k, v in value.items()]
            text = "{" + ", ".join(pairs) + "}"
            return text if kind is dict else f"{self.definitions.name_of(kind)}({text})"
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return f"{self.definitions.name_of(kind)}({', '.join(self.expression(item) for item in value)})"
        if isinstance(value, functools.partial):
            given = [self.expression(part) for part in (value.func, *value.args)]
            given += [f"{name}={self.expression(part, name)}" for name, part in value.keywords.items()]
            return f"{self.definitions.name_of(functools.partial)}({', '.join(given)})"
        return ""

    def _object(self, value: Any, hint: str) -> str:
        kind = type(value)
        if isinstance(value, enum.Enum):
            return f"{self.definitions.name_of(kind)}.{value.name}"
        if isinstance(value, logging.Logger):
            return f"{self.definitions.name_of(logging)}.getLogger({value.name!r})"
        slots = any("__slots__" in vars(one) for one in kind.__mro__[:-1])
        # Other objects, such as a library's model configuration, are stored in the script's .pt file.
        is_stored = not is_users(kind) or slots or issubclass(kind, (list, dict, tuple, set, str, int))
        if is_stored and kind.__module__.partition(".")[0] in sys.stdlib_module_names | {"torch"}:
            raise Unwritable(f"{hint}, a {kind.__module__}.{kind.__qualname__}, cannot be written as source")
        if is_stored:
            return self._store(value)
        self.helpers[NEW_OBJECT] = None
        given = [f"{name}={self.expression(part, name)}" for name, part in vars(value).items()]
        return self._named(value, hint, f"new_object({', '.join([self.definitions.name_of(kind), *given])})")

    def _named(self, value: Any, hint: str, expression: str) -> str:
        """Create a variable for a value that other values can reference, and return the variable's name."""
        name = self._free(hint)
        self.body.append(f"{name} = {expression}")
        self._made[id(value)] = name
        self._keep.append(value)  # as long as it exists, no other object gets its id
        return name

    def _free(self, hint: str) -> str:
        base = "".join(c if c.isidentifier() or c.isdigit() else "_" for c in hint).lower().strip("_") or "value"
        # ``torch``, ``make`` and ``run`` are names of the script itself.
        base = f"{base}_" if not base.isidentifier() or base in ("torch", "make", "run") else base
        base = f"value_{base}" if base[0].isdigit() else base
        name, number = base, 2
        while name in self._taken or name in self.definitions.taken:
            name, number = f"{base}_{number}", number + 1
        self._taken.add(name)
        return name

    def _variable(self, name: str, value: Any, stored: bool) -> None:
        """Write a global or closed-over variable. Constants are written at the top of the script, and mutable values in
        the function that creates the target.
        """
        if isinstance(value, _SCALARS) and not isinstance(value, enum.Enum):
            self.definitions.lines.append(f"{name} = {_scalar(value)}")
            if not stored:
                return
        self.state.append(name)
        self._taken.add(name)
        expression = self.expression(value, f"{name}_")
        if expression != name:
            self.body.append(f"{name} = {expression}")

    def _store(self, value: Any) -> str:
        self.stored.append(value)
        self.definitions.needs |= _packages(value)
        return f"values[{len(self.stored) - 1}]"

    def _tensor(self, tensor: torch.Tensor, hint: str) -> str:
        plain = type(tensor) in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
        if not plain or tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_inference():
            return self._store(tensor)
        ending = ".requires_grad_()" if tensor.requires_grad else ""
        if isinstance(tensor, torch.nn.Parameter):
            return f"torch.nn.Parameter({self._numbers(tensor, hint)}, requires_grad={tensor.requires_grad})"
        expression = self._numbers(tensor, hint) + ending
        if mark_statements(tensor, hint):
            name = self._free(hint)
            self.body += [f"{name} = {expression}", *mark_statements(tensor, name)]
            return name
        return expression

    def _numbers(self, tensor: torch.Tensor, hint: str) -> str:
        """Write the tensor's values, preserving its strides; tensors that share a storage also share a storage
        in the script.
        """
        whole = tensor.detach()
        storage = whole.untyped_storage()
        size = storage.nbytes() // whole.element_size()
        if whole.is_contiguous() and size == whole.numel() and storage.data_ptr() not in self._storages:
            self._storages[storage.data_ptr()] = ""
            return self._drawn(whole)
        base = self._storages.get(storage.data_ptr())
        if not base:
            flat = torch.empty(0, dtype=whole.dtype, device=whole.device).set_(storage)
            base = self._storages[storage.data_ptr()] = self._free(f"{hint}_storage")
            self.body.append(f"{base} = {self._drawn(flat)}")
            self._keep.append(flat)
        return f"{base}.as_strided({tuple(whole.shape)}, {whole.stride()}, {whole.storage_offset()})"

    def _drawn(self, tensor: torch.Tensor) -> str:
        shape = ", ".join(map(str, tensor.shape)) or "()"
        device = "" if tensor.device.type == "cpu" else f', device="{tensor.device}"'
        where = device if tensor.dtype is torch.get_default_dtype() else f", dtype={tensor.dtype}{device}"
        if tensor.numel() and bool((tensor == tensor.reshape(-1)[0]).all()):
            value = _scalar(tensor.reshape(-1)[0].item())
            return f"torch.full({tuple(tensor.shape)}, {value}, dtype={tensor.dtype}{device})"
        if self.exact and tensor.numel() <= TINY:
            return f"torch.tensor({_nested(tensor.tolist())}{where})"
        if self.exact:
            return self._store(tensor.clone())
        if tensor.dtype is torch.bool:
            return f"(torch.rand({shape}) < 0.5)" + (f'.to("{tensor.device}")' if "device" in where else "")
        if not (tensor.is_floating_point() or tensor.is_complex()):
            # Within the same range, indices stay valid.
            least, most = int(tensor.min()), int(tensor.max())
            return f"torch.randint({least}, {most + 1}, {tuple(tensor.shape)}{where or ''})"
        if not tensor.numel() or tensor.element_size() > 1:
            # Values such as variances and probabilities must not become negative.
            never_negative = tensor.numel() and not tensor.is_complex() and bool((tensor >= 0).all())
            return f"torch.{'rand' if never_negative else 'randn'}({shape}{where})"
        return self._store(tensor.clone())

    def _module(self, module: torch.nn.Module, hint: str) -> str:
        if any(getattr(module, name, None) for name in _NO_HOOKS):
            raise Unwritable(f"{hint}, a {type(module).__name__}, has backward hooks or state_dict hooks")
        expression = self._constructed(module) or self._assembled(module, hint)
        name = self._named(module, hint, expression)
        if self.exact and expression.startswith("torch.nn.") and (state := module.state_dict()):
            self.body.append(f"{name}.load_state_dict({self._store({k: v.clone() for k, v in state.items()})})")
        for hooks in _HOOKS:
            for hook in getattr(module, hooks, {}).values():
                self.body.append(f"{name}.register{hooks.removesuffix('s')}({self.expression(hook, 'hook')})")
        return name

    def _constructed(self, module: torch.nn.Module) -> str:
        """Write a constructor call for a torch.nn module whose ``repr`` shows the constructor's arguments, or for a
        ``Sequential`` or ``ModuleList``. Return an empty string for any other module.
        """
        kind = type(module)
        if getattr(torch.nn, kind.__name__, None) is not kind:
            return ""
        tensors = [*module.parameters(recurse=False), *module.buffers(recurse=False)]
        if (children := dict(module.named_children())) or kind in (torch.nn.Sequential, torch.nn.ModuleList):
            counted = list(children) == [str(i) for i in range(len(children))]
            plain = kind in (torch.nn.Sequential, torch.nn.ModuleList) and counted and not tensors
            if not plain or len(children) != len(module._modules):
                return ""
            parts = ", ".join(self.expression(child, _hint(name, child)) for name, child in children.items())
            listed_parts = parts if kind is torch.nn.Sequential else f"[{parts}]"
            text = f"torch.nn.{kind.__name__}({listed_parts})"
            return text + ("" if module.training else ".train(False)" if not children else "")
        text = f"torch.nn.{kind.__name__}({module.extra_repr()})"
        try:
            with torch.device("meta"):  # the twin needs no memory for its weights
                twin = eval(text, {"torch": torch})
        except Exception:  # the module's repr does not match its constructor
            return ""
        if not _is_like(twin, module) or any(id(tensor) in self._made for tensor in tensors):
            return ""
        where = {(t.dtype, t.device) for t in tensors if t.is_floating_point()}
        for dtype, device in where:
            text += "" if dtype is torch.get_default_dtype() else f".to({dtype})"
            text += "" if device.type == "cpu" else f'.to("{device}")'
        parameters = list(module.parameters())
        frozen = parameters and not any(parameter.requires_grad for parameter in parameters)
        text += "" if module.training else ".eval()"
        return text + (".requires_grad_(False)" if frozen else "")

    def _assembled(self, module: torch.nn.Module, hint: str) -> str:
        kind = self.definitions.name_of(type(module))
        self.helpers[NEW_MODULE] = None
        given = [kind]
        parameters = {n: self.expression(p, n) for n, p in module._parameters.items()}
        passing = module._non_persistent_buffers_set
        buffers = {n: f"({self.expression(b, n)}, {n not in passing})" for n, b in module._buffers.items()}
        modules = {n: self.expression(m, _hint(n, m)) for n, m in module._modules.items()}
        for name, parts in (("parameters", parameters), ("buffers", buffers), ("modules", modules)):
            if parts:
                given.append(f"{name}={{{', '.join(f'{k!r}: {v}' for k, v in parts.items())}}}")
        attributes = {n: v for n, v in vars(module).items() if n not in _INTERNALS or (n == "training" and not v)}
        given += [f"{n}={self.expression(v, n)}" for n, v in attributes.items()]
        return f"new_module({', '.join(given)})"


def _packages(value: Any) -> set[str]:
    """Return the packages, in addition to torch, that are needed to load a value."""
    try:
        torch.save(value, data := io.BytesIO())
    except Exception as error:  # pickling may raise any exception
        raise Unwritable(f"a {type(value).__name__} cannot be pickled: {error}") from None
    with zipfile.ZipFile(data) as archive:
        pickled = next(archive.read(name) for name in archive.namelist() if name.endswith("data.pkl"))
    # ``torch.save`` uses pickle's protocol 2, which names every class with the instruction GLOBAL.
    named = [str(argument) for code, argument, _ in pickletools.genops(pickled) if code.name == "GLOBAL"]
    return {name.split(" ")[0].split(".")[0] for name in named} - sys.stdlib_module_names - {"torch", "__builtin__"}


def _hint(name: str, module: torch.nn.Module) -> str:
    return f"{type(module).__name__}_{name}" if name.isdigit() else name


def _is_like(twin: torch.nn.Module, module: torch.nn.Module) -> bool:
    """Return whether ``twin``, recreated from the ``repr`` of ``module``, has the same tensor shapes and attributes as
    ``module``.
    """

    def tensors(one: torch.nn.Module) -> dict[str, Any]:
        named = [*one.named_parameters(), *one.named_buffers()]
        return {name: tuple(tensor.shape) for name, tensor in named}

    def holds_weights(value: Any) -> bool:
        items = value if isinstance(value, (list, tuple)) else ()
        return any(callable(item) or isinstance(item, torch.Tensor) for item in items)

    def plain(one: torch.nn.Module) -> dict[str, str]:
        kept = {name: value for name, value in vars(one).items() if name not in _INTERNALS}
        return {name: repr(value) for name, value in kept.items() if not callable(value) and not holds_weights(value)}

    dtypes = {(t.dtype, t.device) for t in (*module.parameters(), *module.buffers()) if t.is_floating_point()}
    grads = {p.requires_grad for p in module.parameters()}
    hooked = type(module).forward is not getattr(module.forward, "__func__", None)
    uniform = len(dtypes) < 2 and len(grads) < 2
    return uniform and not hooked and tensors(twin) == tensors(module) and plain(twin) == plain(module)


def _scalar(value: Any) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if isinstance(value, torch.device):
        return f'torch.device("{value}")'
    return repr(value) if not isinstance(value, torch.Size) else f"torch.Size({list(value)})"


def _nested(numbers: Any) -> str:
    if isinstance(numbers, list):
        return f"[{', '.join(map(_nested, numbers))}]"
    return _scalar(numbers)


def listed(expressions: Sequence[str], indent: str) -> str:
    """Return the source of a list, with one expression per line."""
    return "[\n" + "".join(f"{indent}    {one},\n" for one in expressions) + f"{indent}]"
