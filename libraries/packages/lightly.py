"""lightly: losses and heads of self-supervised learning."""

from __future__ import annotations

import torch
from lightly import loss
from lightly.models import modules, utils

from libraries.inputs import Calls, calls, pairs, tensors
from libraries.targets import Target


def views(features: int = 8) -> Calls:
    return pairs(features, sizes=(4, 6, 7))


def head(made: torch.nn.Module) -> Target:
    return Target(made, tensors(16, sizes=(4, 6, 7)))


TARGETS = {
    "BarlowTwinsLoss": lambda: Target(loss.BarlowTwinsLoss(), views()),
    "DCLLoss": lambda: Target(loss.DCLLoss(), views()),
    "DCLWLoss": lambda: Target(loss.DCLWLoss(), views()),
    "FroSSLLoss": lambda: Target(
        loss.FroSSLLoss(), calls(lambda n: ([torch.randn(n, 8), torch.randn(n, 8)],), (4, 6, 7))
    ),
    "NTXentLoss": lambda: Target(loss.NTXentLoss(), views()),
    "NTXentLoss_memory_bank": lambda: Target(loss.NTXentLoss(memory_bank_size=(16, 8)), views()),
    "NegativeCosineSimilarity": lambda: Target(loss.NegativeCosineSimilarity(), views()),
    "TiCoLoss": lambda: Target(loss.TiCoLoss(), views()),
    "VICRegLoss": lambda: Target(loss.VICRegLoss(), views()),
    "KoLeoLoss": lambda: Target(loss.KoLeoLoss(), tensors(8, sizes=(4, 6, 7))),
    "MSNLoss": lambda: Target(
        loss.MSNLoss(), calls(lambda n: (torch.randn(2 * n, 8), torch.randn(n, 8), torch.randn(5, 8)), (4, 6, 7))
    ),
    "MMCRLoss": lambda: Target(
        loss.MMCRLoss(), calls(lambda n: (torch.randn(n, 2, 8), torch.randn(n, 2, 8)), (4, 6, 7))
    ),
    "MACLLoss": lambda: Target(loss.MACLLoss(), views()),
    "DINOLoss": lambda: Target(
        loss.DINOLoss(output_dim=8),
        calls(lambda n: ([torch.randn(n, 8), torch.randn(n, 8)], [torch.randn(n, 8), torch.randn(n, 8)], 1), (4, 6, 7)),
    ),
    "SwaVLoss": lambda: Target(
        loss.SwaVLoss(), calls(lambda n: ([torch.randn(n, 8), torch.randn(n, 8)], [torch.randn(n, 8)]), (4, 6, 7))
    ),
    "SIGReg": lambda: Target(loss.SIGReg(num_vectors=8), tensors(8, sizes=(4, 6, 7))),
    "BYOLPredictionHead": lambda: head(modules.BYOLPredictionHead(16, 16, 8)),
    "BarlowTwinsProjectionHead": lambda: head(modules.BarlowTwinsProjectionHead(16, 16, 8)),
    "DINOProjectionHead": lambda: head(modules.DINOProjectionHead(16, 16, 8, 8)),
    "MoCoProjectionHead": lambda: head(modules.MoCoProjectionHead(16, 16, 8)),
    "NNCLRProjectionHead": lambda: head(modules.NNCLRProjectionHead(16, 16, 8)),
    "SMoGPrototypes": lambda: Target(
        modules.SMoGPrototypes(torch.randn(4, 8), 0.9),
        calls(lambda n: (torch.randn(n, 8), torch.randn(4, 8)), (4, 6, 7)),
    ),
    "SimCLRProjectionHead": lambda: head(modules.SimCLRProjectionHead(16, 16, 8)),
    "SimSiamPredictionHead": lambda: head(modules.SimSiamPredictionHead(16, 8, 16)),
    "SwaVPrototypes": lambda: head(modules.SwaVPrototypes(16, 4)),
    "NNMemoryBankModule": lambda: Target(modules.NNMemoryBankModule((16, 8)), tensors(8, sizes=(4, 6, 7)), train=False),
    "NNMemoryBankModule_update": lambda: Target(
        modules.NNMemoryBankModule((16, 8)), calls(lambda n: (torch.randn(n, 8), True), (4, 6, 7)), train=False
    ),
    "batch_shuffle": lambda: Target(utils.batch_shuffle, tensors(8, sizes=(4, 6, 7)), train=False),
    "random_token_mask": lambda: Target(
        lambda x: (x, *utils.random_token_mask((4, 10))), tensors(8, sizes=(4, 6, 7)), train=False
    ),
    "patchify": lambda: Target(lambda x: utils.patchify(x, 4), calls(lambda n: (torch.rand(n, 3, 8, 8),))),
    "normalize_weight": lambda: Target(lambda x: utils.normalize_mean_var(x), tensors(8, sizes=(4, 6, 7))),
}
