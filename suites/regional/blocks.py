"""Regional compilation by class: find the blocks that a model repeats, wherever they are."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from torch import nn


def repeated_blocks(model: nn.Module) -> dict[type[nn.Module], list[nn.Module]]:
    """Maps each class that occurs more than once in a module list to its members."""
    found: dict[type[nn.Module], list[nn.Module]] = defaultdict(list)
    for blocks in model.modules():
        if isinstance(blocks, (nn.ModuleList, nn.Sequential)) and len({type(block) for block in blocks}) == 1:
            found[type(blocks[0])] += list(blocks)
    return {kind: blocks for kind, blocks in found.items() if len(blocks) > 1}


def compile_blocks(model: nn.Module, **options: Any) -> nn.Module:
    """Compile each repeated block in place, with options of `torch.compile`, and leave the rest in eager."""
    for blocks in repeated_blocks(model).values():
        for block in blocks:
            block.compile(**options)
    return model
