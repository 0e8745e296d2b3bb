"""The oracle: determine the correct results for a target with plain torch only. This module does not import the plugin.

Each run (eager in float32, twice; eager in float64; and compiled) builds a new target with the same seed, so nothing
needs to be copied or restored. Breaks are determined from the errors under ``fullgraph=True``, and from dynamo's trace
and counters in the default mode. Recompiles are read from dynamo's messages. A backend that wraps the real backend
counts graphs.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, is_dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch._dynamo.backends.registry import lookup_backend
from torch._dynamo.utils import counters
from torch._logging import _internal as torch_logging

from .targets import INFERENCE, TRAINING, Factory, Target, built, seed, tensors

NUMBERS = (bool, int, float, str, type(None))
# Attributes that torch itself keeps in a module; torch.compile sets the last one.
OF_TORCH = frozenset([*vars(nn.Module()), "_is_torch_compile"])
COUNTED = "counted"  # replaces the location of a break that appears only in dynamo's counters
OF_TORCH_ITSELF = str(Path(torch.__file__).parent) + "/"
MULTIPLE, RELATIVE, ABSOLUTE, UNRELATED = 20.0, 2e-5, 1e-6, 0.01


@dataclass
class Truth:
    """The oracle's result for one target in one mode.

    ``breaks`` are locations (``file:line``); ``wrong`` lists the leaves that differ from eager, and how they differ.
    ``refused`` is the error of ``fullgraph=True``. ``unstable`` are leaves in which two eager runs differ.
    """

    breaks: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    refused: str = ""
    recompiles: int = 0
    graphs: int = 0
    fallbacks: int = 0
    wrong: list[str] = field(default_factory=list)
    unstable: list[str] = field(default_factory=list)
    reference: str = "float64"
    eager_raises: str = ""
    compiled_raises: str = ""
    leaves: int = 0


def truth(factory: Factory, mode: str, backend: str) -> dict[str, Any] | None:
    """The oracle's result for a target; None if there is nothing to train."""
    if built(factory, mode) is None:
        return None
    # The compiled run comes first, because the eager runs fill caches that the library keeps between runs.
    compiled, said = run_compiled(factory, mode, backend)
    eager = run(factory, mode)
    again = run(factory, mode)
    exact = run(factory, mode, convert=in_float64)
    found = Truth(
        eager_raises=eager.raised,
        compiled_raises=compiled.raised,
        leaves=len(eager.leaves),
        unstable=[name for name in eager.leaves if differs(eager, again, None, name)],
        reference="eager" if exact.raised and not eager.raised else "float64",
        **said,
    )
    found.wrong = differences(eager, compiled, exact, set(found.unstable))
    return asdict(found)


@dataclass
class Leg:
    """The results of one run: the numbers and properties of every leaf, by name, and the exception, if any."""

    leaves: dict[str, Any] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    raised: str = ""


def run(
    factory: Factory,
    mode: str,
    convert: Callable[[Target], Target] = lambda target: target,
    compile: Callable[[Any], Any] = lambda target: target,
) -> Leg:
    """Build the target, run its calls up to the first that raises an exception, and record the values that they return
    and write."""
    made = convert(built(factory, mode))  # type: ignore[arg-type]
    compiled = compile(made.target)
    seed(1)
    leg = Leg()
    with float64_by_default() if convert is in_float64 else nullcontext():
        for number, arguments in enumerate(made.calls, 1):
            try:
                one_call(leg, made, compiled, arguments, mode, f"call {number}")
            except Exception as error:
                leg.raised = (
                    leg.raised or f"call {number}: {type(error).__name__}: {' '.join(str(error).split())[:300]}"
                )
                leg.facts[f"call {number} raised"] = type(error).__name__
                break
    leg.leaves.update(state_of(made.target))
    return leg


def one_call(leg: Leg, made: Target, compiled: Any, arguments: tuple[Any, ...], mode: str, label: str) -> None:
    with torch.no_grad() if mode == INFERENCE else nullcontext():
        output = compiled(*arguments)
    noted = dict(named_leaves(output, f"{label} output"))
    leg.leaves.update({name: kept(leaf) for name, leaf in noted.items()})
    leg.facts.update({name: fact(leaf) for name, leaf in noted.items()})
    leg.facts[f"{label} shared"] = shared({**noted, **dict(named_leaves(arguments, f"{label} input"))})
    if mode == TRAINING:
        backward(leg, made, arguments, list(noted.values()), label)
    for name, leaf in named_leaves(arguments, f"{label} input"):
        leg.leaves[name] = kept(leaf)


def backward(leg: Leg, made: Target, arguments: tuple[Any, ...], outputs: list[Any], label: str) -> None:
    """Gradients of a weighted sum of all outputs. The weights depend on the position, because a plain sum would hide
    errors.
    """
    losses = [
        (out * torch.linspace(0.5, 1.5, out.numel(), dtype=out.real.dtype if out.is_complex() else out.dtype).reshape(out.shape)).sum()
        for out in outputs
        if isinstance(out, torch.Tensor) and out.requires_grad and (out.is_floating_point() or out.is_complex())
    ]  # fmt: skip
    if not losses:
        return
    sum(loss.real if loss.is_complex() else loss for loss in losses).backward()
    held = dict(made.target.named_parameters()) if isinstance(made.target, nn.Module) else {}
    held.update({f"input {i}": leaf for i, leaf in enumerate(tensors(arguments)) if leaf.is_leaf})
    for name, leaf in held.items():
        leg.leaves[f"{label} grad {name}"] = None if leaf.grad is None else leaf.grad.detach().clone()
        leaf.grad = None


def run_compiled(factory: Factory, mode: str, backend: str) -> tuple[Leg, dict[str, Any]]:
    """Run the target compiled and record torch's messages, first with ``fullgraph=True`` and, if this fails, without
    it.

    Training runs without it from the start, as in the plugin's check.
    """
    refused = ""
    if mode == INFERENCE:
        leg, said = one_compiled(factory, mode, backend, fullgraph=True)
        if not leg.raised:
            return leg, said
        refused = leg.raised
    leg, said = one_compiled(factory, mode, backend, fullgraph=False)
    if not refused and said["breaks"] and all(name.startswith(COUNTED) for name in said["breaks"]):
        # Dynamo also counts a break if it then traces the code in another way. This code passes with fullgraph=True.
        again, _ = one_compiled(factory, mode, backend, fullgraph=True)
        if not again.raised:
            said = {**said, "breaks": [], "reasons": []}
    return leg, {**said, "refused": refused}


def one_compiled(factory: Factory, mode: str, backend: str, fullgraph: bool) -> tuple[Leg, dict[str, Any]]:
    torch._dynamo.reset()
    counters.clear()
    graphs: list[int] = []

    def counting(graph: torch.fx.GraphModule, examples: list[Any]) -> Any:
        ops = sum(node.op.startswith("call_") for node in graph.graph.nodes)
        graphs.append(ops)
        return lookup_backend(backend)(graph, examples)

    with listening(trace=not fullgraph) as heard:
        leg = run(factory, mode, compile=lambda it: torch.compile(it, backend=counting, fullgraph=fullgraph))
    torch._dynamo.reset()
    counted = [
        why for why in counters["graph_break"] | counters["unimplemented"] if "recompile limit" not in why.lower()
    ]
    breaks = {} if fullgraph else heard.breaks
    if counted and not breaks and not (fullgraph or leg.raised):
        breaks = {f"{COUNTED}:{number}": why for number, why in enumerate(counted)}
    return leg, {
        "breaks": sorted(breaks),
        "reasons": [" ".join(reason.split())[:160] for reason in breaks.values()],
        "refused": "",
        "recompiles": heard.recompiles,
        "graphs": sum(ops > 0 for ops in graphs),
        "fallbacks": heard.fallbacks,
    }


class Heard(logging.Handler):
    """Read breaks from the structured trace, and recompiles and fallbacks from torch's log messages."""

    def __init__(self) -> None:
        super().__init__(logging.NOTSET)
        self.breaks: dict[str, str] = {}
        self.recompiles = self.fallbacks = 0

    def emit(self, record: logging.LogRecord) -> None:
        metadata = getattr(record, "metadata", None)
        if isinstance(metadata, dict):
            artifact = metadata.get("artifact", {})
            if isinstance(artifact, dict) and artifact.get("name") == "dynamo_graph_break_reason":
                reason = str(getattr(record, "payload", ""))
                self.breaks.setdefault(place(reason), reason)
            return
        message = record.getMessage()
        self.recompiles += message.startswith("Recompiling function")
        # torch also logs "Recompiling function" if the recompile limit then prevents the recompile.
        forbidden = message.startswith("torch._dynamo hit config.")
        self.fallbacks += forbidden
        self.recompiles -= forbidden


def place(reason: str) -> str:
    """The first line of a break's reason; for a break in torch, the line outside torch that leads there."""
    found = re.search(r"Graph break in user code at (.+?):(\d+)", reason)
    if found and found[1].startswith(OF_TORCH_ITSELF):
        stack = re.findall(r'File "(.+?)", line (\d+)', reason.partition("User code traceback:")[2])
        outside = [f"{file}:{line}" for file, line in stack if not file.startswith(OF_TORCH_ITSELF)]
        return outside[-1] if outside else f"unknown:{found[1]}:{found[2]}"
    return f"{found[1]}:{found[2]}" if found else "unknown:" + " ".join(reason.split())[:80]


@contextmanager
def listening(trace: bool) -> Iterator[Heard]:
    """Listen to torch's logs. The structured trace makes torch format every graph, so it is used only if breaks may
    occur.
    """
    heard = Heard()
    guards = logging.getLogger("torch._dynamo.guards.__recompiles")
    loggers = [guards, logging.getLogger("torch._dynamo.convert_frame"), *([torch_logging.trace_log] if trace else [])]
    torch._logging.set_logs(recompiles=True)
    if trace:
        vars(torch_logging.trace_log)["isEnabledFor"] = lambda level: True
    for logger in loggers:
        logger.addHandler(heard)
    guards.propagate = False
    try:
        yield heard
    finally:
        for logger in loggers:
            logger.removeHandler(heard)
        vars(torch_logging.trace_log).pop("isEnabledFor", None)
        torch._logging.set_logs()


def in_float64(made: Target) -> Target:
    """The target and its calls with all float32 tensors converted to float64: parameters, buffers, inputs, and tensors
    in attributes.
    """
    if isinstance(made.target, nn.Module):
        made.target.double()
        for module in made.target.modules():
            for name, value in list(vars(module).items()):
                if isinstance(value, torch.Tensor) and value.dtype == torch.float32:
                    setattr(module, name, value.double())
    for leaf in tensors(made.calls):
        if leaf.dtype == torch.float32:
            leaf.data = leaf.data.double()
    return made


@contextmanager
def float64_by_default() -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def named_leaves(tree: Any, name: str) -> Iterator[tuple[str, Any]]:
    """All values in nested containers. A container itself is also a leaf, so that its type is compared."""
    if isinstance(tree, dict):
        yield f"{name} type", type(tree).__name__
        for key, value in tree.items():
            yield from named_leaves(value, f"{name}[{key!r}]")
    elif type(tree) in (list, tuple) or hasattr(tree, "_fields"):  # len() may raise an exception for other tuples
        yield f"{name} type", f"{type(tree).__name__} of {len(tree)}"
        for key, value in enumerate(tree):
            yield from named_leaves(value, f"{name}[{key}]")
    elif is_dataclass(tree) and not isinstance(tree, type):
        yield f"{name} type", type(tree).__name__
        for key, value in vars(tree).items():
            yield from named_leaves(value, f"{name}.{key}")
    else:
        yield name, tree


def kept(leaf: Any) -> Any:
    if not isinstance(leaf, torch.Tensor):
        return leaf if isinstance(leaf, NUMBERS) else type(leaf).__name__
    plain = leaf.detach()
    if plain.layout != torch.strided:
        plain = plain.to_dense()
    return plain.clone()


def fact(leaf: Any) -> Any:
    if not isinstance(leaf, torch.Tensor):
        return type(leaf).__name__
    strides = tuple(stride for stride, size in zip(leaf.stride(), leaf.shape, strict=True) if size > 1) if leaf.layout == torch.strided else ()  # fmt: skip
    dtype = torch.float32 if leaf.dtype == torch.float64 else leaf.dtype
    return (tuple(leaf.shape), str(leaf.dtype), str(dtype), strides if leaf.numel() else (), leaf.requires_grad)


def shared(named: dict[str, Any]) -> list[tuple[str, str]]:
    """The groups of leaves that share a storage."""
    places: dict[int, list[str]] = {}
    for name, leaf in named.items():
        if isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided and leaf.untyped_storage().nbytes():
            places.setdefault(leaf.untyped_storage().data_ptr(), []).append(name)
    return sorted((names[0], other) for names in places.values() for other in names[1:])


def state_of(target: Any) -> dict[str, Any]:
    """Parameters, buffers, and the numbers, tensors and short containers among the attributes of a target."""
    owner = getattr(target, "__self__", target)
    held: dict[str, Any] = {}
    objects = owner.named_modules() if isinstance(owner, nn.Module) else [("", owner)]
    for path, one in objects:
        attributes = {name: value for name, value in vars(one).items() if name not in OF_TORCH} if hasattr(one, "__dict__") else {}  # fmt: skip
        if isinstance(one, nn.Module):
            attributes |= {**one._parameters, **one._buffers}
        for name, value in attributes.items():
            for leaf_name, leaf in named_leaves(value, f"state {path}.{name}"):
                # torch 2.13 intentionally sets this option in the groups of any optimizer that it traces.
                if leaf_name.endswith("['capturable']"):
                    continue
                if isinstance(leaf, (torch.Tensor, *NUMBERS)):
                    held[leaf_name] = None if is_lazy(leaf) else kept(leaf)
    return held


def is_lazy(leaf: Any) -> bool:
    return isinstance(leaf, torch.nn.parameter.UninitializedTensorMixin)


def differences(eager: Leg, compiled: Leg, exact: Leg, unstable: set[str]) -> list[str]:
    """The leaves and properties in which compiled results differ from eager."""
    found = [
        f"{name}: {compiled.facts.get(name)} instead of {eager.facts.get(name)}"
        for name in dict.fromkeys([*eager.facts, *compiled.facts])
        if eager.facts.get(name) != compiled.facts.get(name)
    ]
    for name in dict.fromkeys([*eager.leaves, *compiled.leaves]):
        if name not in unstable and (why := differs(eager, compiled, exact, name)):
            found.append(f"{name}: {why}")
    return [what[:160] for what in found]


def differs(eager: Leg, other: Leg, exact: Leg | None, name: str) -> str:
    """A description of how a leaf differs from eager, or an empty string. Both results are compared with float64: the
    error of the other result must not be much larger than the error of eager.
    """
    missing = "nothing"
    old, new = eager.leaves.get(name, missing), other.leaves.get(name, missing)
    if not isinstance(old, torch.Tensor) or not isinstance(new, torch.Tensor):
        if isinstance(old, float) and isinstance(new, float):
            old, new = torch.tensor(old), torch.tensor(new)
        else:
            return "" if type(old) is type(new) and old == new else f"{str(new)[:60]} instead of {str(old)[:60]}"
    if old.shape != new.shape or old.dtype != new.dtype:
        return f"{tuple(new.shape)} {new.dtype} instead of {tuple(old.shape)} {old.dtype}"
    if not (old.is_floating_point() or old.is_complex()):
        return "" if torch.equal(old, new) else "other integers"
    truth = exact.leaves.get(name) if exact is not None else None
    wide = torch.complex128 if old.is_complex() else torch.float64
    usable = isinstance(truth, torch.Tensor) and truth.shape == old.shape
    true = truth.to(wide) if usable else old.to(wide)  # type: ignore[union-attr]
    return off_by(old.to(wide), new.to(wide), true, torch.finfo(old.dtype).eps / torch.finfo(torch.float32).eps)


def off_by(old: torch.Tensor, new: torch.Tensor, true: torch.Tensor, coarser: float) -> str:
    """A description of an error of ``new`` that is much larger than the error of ``old``, or an empty string."""
    if not torch.equal(old.isnan(), new.isnan()) or not torch.equal(old.isinf(), new.isinf()):
        return "NaN or infinity in other places"
    finite = old.isfinite() & true.isfinite()
    if not bool(finite.any()):
        return ""
    old, new, true = old[finite], new[finite], true[finite]
    if float((old - true).abs().max()) > UNRELATED * float(old.abs().max()):
        true = old  # random numbers differ between dtypes, so float64 cannot be the reference
    own, error = float((old - true).abs().max()), float((new - true).abs().max())
    limit = MULTIPLE * own + RELATIVE * coarser * float(true.abs().max()) + ABSOLUTE * coarser
    return f"error {error:.3g}, eager's {own:.3g}, limit {limit:.3g}" if error > limit else ""
