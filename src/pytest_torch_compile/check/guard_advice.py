"""The advice in ``fix:`` lines for recompiles and eager fallbacks, by the kind of guard that failed."""

from __future__ import annotations

EXPLANATIONS: dict[str, str] = {
    "size": "a tensor size changed; mark the dimension as dynamic (dynamic_dims=...), compile with dynamic=True, or "
    "pad to a fixed set of sizes",
    "constant-size": "a tensor size changed that torch does not make dynamic, because the code requires the size to be "
    "constant (a Python loop over the dimension, int(size), a division with /, or a comparison of the size with a "
    "number), or because the tensor is a parameter, a buffer or marked as static. dynamic=True and dynamic_dims do not "
    "help; set TORCH_LOGS=+dynamic to find a line that you can rewrite, pad to a fixed set of sizes, or allow one "
    "recompile for each size with max_recompiles",
    "size-0-or-1": "torch specializes on sizes 0 and 1, and compiles a separate graph for each of them, even "
    "with dynamic=True; allow one recompile for each, or avoid these sizes",
    "duck-shape": "two dimensions had the same size in the first call, so torch assumed that they are always equal "
    "(duck shaping); use different sizes in the first call, or mark both dimensions as dynamic",
    "stride": "a tensor's memory layout changed; make the tensor contiguous, or always pass the same memory format",
    "rank": "a tensor's number of dimensions changed; reshape the tensor before it reaches the compiled code",
    "dtype": "a tensor's dtype changed; cast the tensor before it reaches the compiled code",
    "device": "a tensor's device changed, and torch compiles a graph for each device; move the tensor with "
    ".to(device) before the call, or allow one recompile for each device with max_recompiles",
    "requires-grad": "a tensor's requires_grad flag changed; set it to the same value in every call (for example with "
    "detach()), or allow one recompile with max_recompiles",
    "type": "the type of an argument changed (tensor, None, number, Parameter, subclass), and torch compiles a graph "
    "for each type; always pass the same type (for example, an empty tensor instead of None), or allow the "
    "recompiles with max_recompiles",
    "dispatch-keys": "a tensor was created in a different mode (such as inference mode) or is a wrapper subclass; "
    "create all inputs in the same way, or clone() inference tensors outside inference mode before the call",
    "grad-mode": "grad mode changed; use the same grad mode (torch.no_grad()) for every call",
    "inference-mode": "inference mode changed; use the same mode for every call",
    "autocast": "the autocast state changed; use the same state for every call",
    "threads": "the number of threads changed, but torch generates code for a fixed number of threads; set it once, "
    "before the first call (torch.set_num_threads)",
    "concurrent-calls": "several threads called the function before it was compiled, so torch compiled a graph for "
    "each of these calls; call the function once before the threads start, or allow the recompiles with max_recompiles",
    "deterministic": "deterministic algorithms were turned on or off; set them once, before the first call "
    "(torch.use_deterministic_algorithms)",
    "default-dtype": "the default dtype changed; set it once, before the first call (torch.set_default_dtype)",
    "global-state": "a global setting of torch changed, and the compiled code is valid only for the earlier value; "
    "set it once, before the first call",
    "train-or-eval": "the module switched between train() and eval(), and torch compiles a graph for each mode; "
    "allow one recompile with max_recompiles, or check train() and eval() separately",
    "length": "the length or the keys of a container changed; always pass the same structure, or pass a tensor instead",
    "attribute": "an attribute was added to an object or removed from it after torch had compiled the code; set the "
    "attribute when the object is created (in __init__)",
    "new-object": "a different object (function, module or None) was passed, and the graph is valid only for the "
    "first object; create the object once, outside the call, and always pass the same object",
    "closure": "a variable of an enclosing function changed, and its value is part of the graph; pass it as an "
    "argument (as a tensor if it is a number), or do not change it between calls",
    "global": "a global variable changed, and its value is part of the graph; pass it as an argument (as a "
    "tensor if it is a number), or set it once, before the first call",
    "python-number": "a Python number changed; pass it as a tensor, or compile with dynamic=True. By default, torch "
    "treats a number that is an attribute of a module as a constant; store it in a buffer (register_buffer)",
    "python-bool": "a Python flag changed, and torch compiles a graph for each value; allow one recompile for it "
    "with max_recompiles, or replace it with a tensor and torch.where",
    "python-string": "a Python string changed, and torch compiles a graph for each value; keep it out of compiled "
    "code (for example, use it before the call to choose the function or tensor), or allow one "
    "recompile for each value with max_recompiles",
    "python-value": "a Python value (a dtype, a device, ...) changed, and torch compiles a graph for each value; do "
    "not change it between calls, or allow one recompile for each value with max_recompiles",
    "new-code": "torch compiled a new function object from the same source line; define the function once, outside "
    "the call",
    "new-backend": "a different backend object was used; create one backend callable and use it for every compilation",
    "dynamic-mark": "the dimensions marked as dynamic changed; mark the same dimensions of this tensor in every call",
    "other": "the guard above shows which value changed; do not change it between calls, or pass it as a tensor",
}


def for_guard(cause: str) -> str:
    """Return the fix for the kind of guard that failed."""
    return f"{cause}: {EXPLANATIONS[cause]}"
