"""normflows: invertible layers, each with its log determinant, and distributions."""

from __future__ import annotations

import normflows as nf
import torch
from normflows import flows

from libraries.inputs import Calls, calls, tensors
from libraries.targets import Target


def maps() -> Calls:
    return calls(lambda n: (torch.randn(n, 4, 4, 4),))


def mlp() -> torch.nn.Module:
    return nf.nets.MLP([2, 8, 4], init_zeros=False)


def mask() -> torch.Tensor:
    return torch.tensor([1.0, 0.0, 1.0, 0.0])


def net() -> torch.nn.Module:
    return nf.nets.MLP([4, 8, 4])


TARGETS = {
    "ActNorm": lambda: Target(flows.ActNorm(4), tensors(4)),
    "AffineConstFlow": lambda: Target(flows.AffineConstFlow((4,)), tensors(4)),
    "AffineConstFlow.inverse": lambda: Target(flows.AffineConstFlow((4,)).inverse, tensors(4)),
    "AffineCouplingBlock": lambda: Target(flows.AffineCouplingBlock(mlp()), tensors(4)),
    "AffineCouplingBlock.inverse": lambda: Target(flows.AffineCouplingBlock(mlp()).inverse, tensors(4)),
    "AffineCouplingBlock_sigmoid": lambda: Target(flows.AffineCouplingBlock(mlp(), scale_map="sigmoid"), tensors(4)),
    "MaskedAffineFlow": lambda: Target(flows.MaskedAffineFlow(mask(), net(), net()), tensors(4)),
    "MaskedAffineFlow.inverse": lambda: Target(flows.MaskedAffineFlow(mask(), net(), net()).inverse, tensors(4)),
    "MaskedAffineAutoregressive": lambda: Target(flows.MaskedAffineAutoregressive(4, 8, num_blocks=1), tensors(4)),
    "MaskedAffineAutoregressive.inverse": lambda: Target(
        flows.MaskedAffineAutoregressive(4, 8, num_blocks=1).inverse, tensors(4)
    ),
    "AutoregressiveRationalQuadraticSpline": lambda: Target(
        flows.AutoregressiveRationalQuadraticSpline(2, 1, 8), tensors(2)
    ),
    "CoupledRationalQuadraticSpline": lambda: Target(flows.CoupledRationalQuadraticSpline(2, 1, 8), tensors(2)),
    "CoupledRationalQuadraticSpline.inverse": lambda: Target(
        flows.CoupledRationalQuadraticSpline(2, 1, 8).inverse, tensors(2)
    ),
    "BatchNorm": lambda: Target(flows.BatchNorm(), tensors(4)),
    "Planar": lambda: Target(flows.Planar((4,)), tensors(4)),
    "Planar_leaky": lambda: Target(flows.Planar((4,), act="leaky_relu"), tensors(4)),
    "Radial": lambda: Target(flows.Radial((4,)), tensors(4)),
    "Permute": lambda: Target(flows.Permute(4), tensors(4)),
    "Permute_swap": lambda: Target(flows.Permute(4, mode="swap"), tensors(4)),
    "LULinearPermute": lambda: Target(flows.LULinearPermute(4), tensors(4)),
    "LULinearPermute.inverse": lambda: Target(flows.LULinearPermute(4).inverse, tensors(4)),
    "InvertibleAffine": lambda: Target(flows.InvertibleAffine(4), tensors(4)),
    "Invertible1x1Conv": lambda: Target(flows.Invertible1x1Conv(4), maps()),
    "Split": lambda: Target(flows.Split(), maps()),
    "Squeeze": lambda: Target(flows.Squeeze(), maps()),
    "GlowBlock": lambda: Target(flows.GlowBlock(4, 8), maps()),
    "PeriodicShift": lambda: Target(flows.PeriodicShift([0, 1]), tensors(4)),
    # In training, the number of its terms is random, and therefore the number of recompiles as well.
    "Residual": lambda: Target(flows.Residual(nf.nets.LipschitzMLP([4, 8, 4])), tensors(4), train=False),
    "DiagGaussian.log_prob": lambda: Target(nf.distributions.DiagGaussian(4).log_prob, tensors(4)),
    "GaussianMixture.log_prob": lambda: Target(nf.distributions.GaussianMixture(3, 4).log_prob, tensors(4)),
    "NormalizingFlow.log_prob": lambda: Target(
        nf.NormalizingFlow(
            nf.distributions.DiagGaussian(4), [flows.AffineCouplingBlock(mlp()), flows.Permute(4)]
        ).log_prob,
        tensors(4),
    ),
    "NormalizingFlow.forward_kld": lambda: Target(
        nf.NormalizingFlow(nf.distributions.DiagGaussian(4), [flows.AffineCouplingBlock(mlp())]).forward_kld, tensors(4)
    ),
    "ResidualNet": lambda: Target(nf.nets.ResidualNet(4, 4, 8, num_blocks=1), tensors(4)),
    "MADE": lambda: Target(nf.nets.MADE(4, 8, num_blocks=1), tensors(4)),
}
