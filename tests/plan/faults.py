"""Faults planted in generated kernels: each changes one place of a planned kernel's source before it runs."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from tests.plan.innocents import CASES
from tests.plan.together import Case


@dataclass(frozen=True)
class Fault:
    """Replace the first ``pattern`` in the sources of kernels by ``replacement``; the case named ``of`` must fail."""

    of: str
    pattern: str
    replacement: str | Callable[[re.Match[str]], str]
    kinds: tuple[str, ...] = ("numerics",)

    def __call__(self, name: str, source: str) -> str:
        return re.sub(self.pattern, self.replacement, source, count=1)

    @property
    def case(self) -> Case:
        return replace(CASES[self.of], change=self)


def _swapped(access: re.Match[str]) -> str:
    """Exchange a pointer to an input and a pointer to an output."""
    before, word, after = (group for group in access.groups() if group is not None)
    return before + {"in_ptr0": "out_ptr0", "out_ptr0": "in_ptr0"}[word] + after


GRADIENT = ("numerics", "gradient")
FAULTS: dict[str, Fault] = {
    "flipped comparison": Fault("masks", r"tmp0 > tmp1", "tmp0 < tmp1"),
    "comparison off by one": Fault("masks", r">= (tmp\d+)", r"> \1"),
    "branches of where swapped": Fault("masks", r"tl\.where\((tmp\d+), (tmp\d+), (tmp\d+)\)", r"tl.where(\1, \3, \2)"),
    "mask of a reduction left out": Fault("softmax", r"tl\.where\(r0_mask & xmask, (tmp\d+), 0\)", r"\1"),
    "fill of a maximum is zero": Fault("softmax", r'float\("-inf"\)', "1e3"),
    "mask of a load left out": Fault("MLP", r"(tl\.load\(in_out_ptr0 \+ \([^)]*\)), r0_mask & xmask", r"\1, None"),
    "mask of a store left out": Fault("MLP", r"(tl\.store\([^,]*, tmp\d+), r0_mask & xmask", r"\1, None"),
    "wrong mask": Fault("MLP", r"r0_index < r0_numel", "r0_index < r0_numel - 1"),
    "index out of bounds": Fault("indexing", r"in_ptr1 \+ \(x0 \+ 9\*tmp4\)", "in_ptr1 + (x0 + 10*tmp4)"),
    "wrong stride": Fault("softmax", r"x0 \+ 37\*r0_1", "x0 + 36*r0_1"),
    "wrong index": Fault("indexing", r"8 \+ \(\(-1\)\*x0\)", "8 + ((-1)*0*x0)"),
    "negative indices not wrapped": Fault(
        "negative indices", r"tmp\d+ = tl\.where\((tmp\d+), (tmp\d+), (tmp\d+)\)", "tmp4 = tmp0"
    ),
    "cast dropped before an operation": Fault(
        "MLP in float16",
        r"tmp0 = (tl\.load\([^\n]*)\.to\(tl\.float32\)",
        r"tmp0 = (\1 * 4096 * 4096).to(tl.float32) / 4096 / 4096",
    ),
    "accumulation in half type": Fault("sum in float16", r"tl\.sum\((tmp\d+), 1\)", r"tl.sum(\1.to(tl.float16), 1)"),
    "running sum in half type": Fault(
        "long sum",
        r"(_tmp\d+) = tl\.where\((r0_mask[^,]*), (tmp\d+), (_tmp\d+)\)",
        r"\1 = tl.where(\2, \3, \4).to(tl.bfloat16).to(tl.float32)",
    ),
    "reduction over the wrong axis": Fault("square sum", r"x0 \+ 16\*r0_1|r0_1 \+ 16\*x0", r"r0_1 + 16*x0"),
    "reduction skips its last part": Fault(
        "long sum", r"range\(0, r0_numel, R0_BLOCK\)", "range(0, r0_numel - R0_BLOCK, R0_BLOCK)"
    ),
    "wrong number of elements in a mean": Fault(
        "MLP", r"tl\.full\(\[1, 1\], 40, tl\.int32\)", "tl.full([1, 1], 39, tl.int32)"
    ),
    "wrong sign": Fault("MLP", r"(tmp\d+) - (tmp\d+)", r"\1 + \2"),
    "wrong function": Fault("MLP", r"libdevice\.erf", "libdevice.tanh"),
    "wrong constant": Fault("MLP", r"0\.70710678", "0.71010678"),
    "epsilon left out": Fault("constant rows", r"1e-05", "0.0"),
    "write in place lost": Fault("changed input", r"tl\.store\(out_ptr2[^\n]*", "pass", ("mutation",)),
    "write to the wrong place": Fault(
        "changed input", r"(tl\.store\(out_ptr2) \+ \(x0\)", r"\1 + (143 - x0)", ("mutation",)
    ),
    "statistics of batch norm": Fault("batch norm", r"0\.9", "0.8", ("mutation",)),
    "store of a result lost": Fault("reductions", r"tl\.store\(out_ptr1[^\n]*", "pass"),
    "NaN not propagated": Fault(
        "NaN and infinity", r"(?:triton_helpers|tl)\.maximum\(([^,]*), ([^,)]*)[^)]*\)", r"tl.maximum(\1, \2)"
    ),
    "gradient of a threshold": Fault(
        "dropout", r"libdevice\.rsqrt\((tmp\d+)\)", r"libdevice.rsqrt(\1 + 1e-3)", GRADIENT
    ),
    "bias of backward": Fault(
        "softmax, training", r"tl\.store\((\w+ \+ \([^)]*\)), (tmp\d+)", r"tl.store(\1, \2 * 1.001", GRADIENT
    ),
    "ties of argmax": Fault("ties", r"tmp(\d+) = (tmp\d+_idx)\[", r"tmp\1 = (\2 + 1)["),
    "atomic addition is a store": Fault("scatter", r"tl\.atomic_add\((.*), sem=[^\n]*", r"tl.store(\1)"),
    "32-bit index overflows": Fault(
        "changed input",
        r"\+ \(x0\), xmask",
        r"+ ((x0 + 2147483647 - 2147483647 * 1) * 65536 * 65536 // 65536 // 65536), xmask",
    ),
    # The first kernel writes to the input that it reads, so the second kernel has nothing left to do.
    "an input is overwritten while other programs read it": Fault(
        "reversed input", r"(tl\.store\()(out_ptr0)( \+ \(x0\), tmp2)|(tl\.load\()(in_ptr0)( \+ \(x0\))", _swapped
    ),
}
