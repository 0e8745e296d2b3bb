"""List the torch modules that call the user's code, for example to compile or trace it, or during an optimizer step.
This module does not import torch.
"""

from __future__ import annotations

# Side effects that happen while these modules call user code are part of compilation.
COMPILERS = ("torch._dynamo", "torch._inductor", "torch._functorch", "torch._logging", "torch.fx", "triton", "sympy")

# Maps a torch module to a clause that describes how the module calls the user's code.
CALLS_WHILE = {
    "torch._dynamo": "the target is called during compilation",
    "torch.fx": "the target is called during tracing",
    "torch.jit": "the target is called during tracing",
    "torch.export": "the target is called during tracing",
    "torch.onnx": "the target is called during tracing",
    "torch._functorch": "the target is called inside a torch.func transform",
    "torch._higher_order_ops": "the target is called during tracing",
    "torch.autograd.function": "the target is called inside a torch.autograd.Function",
    "torch.optim": "the target is called by an optimizer",
}
