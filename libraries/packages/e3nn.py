"""e3nn: equivariant operations, layers, and rotations."""

from __future__ import annotations

import e3nn
import torch
from e3nn import nn as layers
from e3nn import o3
from e3nn.math import soft_one_hot_linspace

from libraries.inputs import Calls, calls, tensors
from libraries.targets import Target

# By default, e3nn compiles its modules with TorchScript when they are created.
e3nn.set_optimization_defaults(jit_mode="eager")
IRREPS = o3.Irreps("4x0e+2x1o")


def features(irreps: o3.Irreps = IRREPS) -> Calls:
    return tensors(irreps.dim)


def two(left: str, right: str) -> Calls:
    return calls(lambda n: (torch.randn(n, o3.Irreps(left).dim), torch.randn(n, o3.Irreps(right).dim)))


def angles(count: int = 3) -> Calls:
    return calls(lambda n: tuple(torch.rand(n) for _ in range(count)))


def quaternions(count: int = 1) -> Calls:
    return calls(lambda n: tuple(torch.nn.functional.normalize(torch.randn(n, 4), dim=-1) for _ in range(count)))


TARGETS = {
    "Linear": lambda: Target(o3.Linear(IRREPS, "3x0e+2x1o"), features()),
    "Linear_with_bias": lambda: Target(o3.Linear(IRREPS, "3x0e+2x1o", biases=True), features()),
    "FullTensorProduct": lambda: Target(o3.FullTensorProduct("2x0e+1x1o", "1x1o"), two("2x0e+1x1o", "1x1o")),
    "FullyConnectedTensorProduct": lambda: Target(
        o3.FullyConnectedTensorProduct("2x0e+1x1o", "1x1o", "2x0e+1x1o"), two("2x0e+1x1o", "1x1o")
    ),
    "ElementwiseTensorProduct": lambda: Target(
        o3.ElementwiseTensorProduct("2x0e+1x1o", "2x0e+1x1o"), two("2x0e+1x1o", "2x0e+1x1o")
    ),
    "TensorSquare": lambda: Target(o3.TensorSquare("2x0e+1x1o"), features(o3.Irreps("2x0e+1x1o"))),
    "Norm": lambda: Target(o3.Norm(IRREPS), features()),
    "SphericalHarmonics": lambda: Target(o3.SphericalHarmonics([0, 1, 2], normalize=True), tensors(3)),
    "SphericalHarmonics_not_normalized": lambda: Target(o3.SphericalHarmonics(2, normalize=False), tensors(3)),
    "spherical_harmonics": lambda: Target(lambda x: o3.spherical_harmonics(2, x, True), tensors(3)),
    "Legendre": lambda: Target(o3.Legendre([0, 1, 2]), calls(lambda n: (torch.rand(n), torch.rand(n)))),
    "SphericalHarmonicsAlphaBeta": lambda: Target(o3.SphericalHarmonicsAlphaBeta([0, 1]), angles(2)),
    "ToS2Grid": lambda: Target(o3.ToS2Grid(2, (6, 5)), tensors(9)),
    "FromS2Grid": lambda: Target(o3.FromS2Grid((6, 5), 2), tensors(6, 5)),
    "Activation": lambda: Target(layers.Activation("4x0e", [torch.tanh]), tensors(4)),
    "BatchNorm": lambda: Target(layers.BatchNorm(IRREPS), features()),
    "Dropout": lambda: Target(layers.Dropout(IRREPS, 0.5), features()),
    "Extract": lambda: Target(layers.Extract(IRREPS, ["4x0e"], [(0,)]), features()),
    "ExtractIr": lambda: Target(layers.ExtractIr(IRREPS, "1o"), features()),
    "FullyConnectedNet": lambda: Target(layers.FullyConnectedNet([4, 8, 2], torch.relu), tensors(4)),
    "Gate": lambda: Target(
        layers.Gate("4x0e", [torch.tanh], "2x0e", [torch.sigmoid], "2x1o"), features(o3.Irreps("6x0e+2x1o"))
    ),
    "NormActivation": lambda: Target(layers.NormActivation(IRREPS, torch.sigmoid), features()),
    "S2Activation": lambda: Target(layers.S2Activation(o3.Irreps("0e+1o"), torch.tanh, 6), tensors(4)),
    "angles_to_matrix": lambda: Target(o3.angles_to_matrix, angles()),
    "angles_to_quaternion": lambda: Target(o3.angles_to_quaternion, angles()),
    "angles_to_xyz": lambda: Target(o3.angles_to_xyz, angles(2)),
    "matrix_x": lambda: Target(o3.matrix_x, angles(1)),
    "compose_angles": lambda: Target(o3.compose_angles, angles(6)),
    "compose_quaternion": lambda: Target(o3.compose_quaternion, quaternions(2)),
    "quaternion_to_axis_angle": lambda: Target(o3.quaternion_to_axis_angle, quaternions()),
    "wigner_D": lambda: Target(lambda a, b, c: o3.wigner_D(2, a, b, c), angles()),
    "xyz_to_angles": lambda: Target(o3.xyz_to_angles, tensors(3)),
    "soft_one_hot_linspace": lambda: Target(
        lambda x: soft_one_hot_linspace(x, 0.0, 1.0, 5, "smooth_finite", True), angles(1)
    ),
    "soft_one_hot_gaussian": lambda: Target(
        lambda x: soft_one_hot_linspace(x, 0.0, 1.0, 5, "gaussian", False), angles(1)
    ),
}
