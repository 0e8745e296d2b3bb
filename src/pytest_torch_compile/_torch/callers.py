"""The modules that call the user's code in order to compile, trace or transform it, or to run an optimizer step. Does
not import torch.
"""

from __future__ import annotations

# Side effects of these modules are part of compilation.
COMPILERS = ("torch._dynamo", "torch._inductor", "torch._functorch", "torch._logging", "torch.fx", "triton", "sympy")

# Maps a torch module to a clause that describes how the module calls the user's code.
CALLS_WHILE = {
    "torch._dynamo": "the test calls it during compilation",
    "torch.fx": "the test calls it during tracing",
    "torch.jit": "the test calls it during tracing",
    "torch.export": "the test calls it during tracing",
    "torch.onnx": "the test calls it during tracing",
    "torch._functorch": "the test calls it inside a torch.func transform",
    "torch._higher_order_ops": "the test calls it during tracing",
    "torch.autograd.function": "the test calls it inside a torch.autograd.Function",
    "torch.optim": "an optimizer calls it",
}
