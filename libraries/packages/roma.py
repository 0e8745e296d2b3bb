"""roma: rotations."""

from __future__ import annotations

import roma
import torch
from torch.nn.functional import normalize

from libraries.inputs import Calls, calls, pairs, tensors
from libraries.targets import Target


def quaternions(count: int = 1) -> Calls:
    return calls(lambda n: tuple(normalize(torch.randn(n, 4), dim=-1) for _ in range(count)))


def matrices(count: int = 1) -> Calls:
    return calls(lambda n: tuple(roma.random_rotmat(n) for _ in range(count)))


def vectors(count: int = 1) -> Calls:
    return calls(lambda n: tuple(torch.randn(n, 3) for _ in range(count)))


STEPS = torch.linspace(0, 1, 4)

TARGETS = {
    "quat_product": lambda: Target(roma.quat_product, quaternions(2)),
    "quat_conjugation": lambda: Target(roma.quat_conjugation, quaternions()),
    "quat_inverse": lambda: Target(roma.quat_inverse, quaternions()),
    "quat_action": lambda: Target(
        roma.quat_action, calls(lambda n: (normalize(torch.randn(n, 4), dim=-1), torch.randn(n, 3)))
    ),
    "quat_normalize": lambda: Target(roma.quat_normalize, tensors(4)),
    "quat_wxyz_to_xyzw": lambda: Target(roma.quat_wxyz_to_xyzw, quaternions()),
    "unitquat_to_rotmat": lambda: Target(roma.unitquat_to_rotmat, quaternions()),
    "unitquat_to_rotvec": lambda: Target(roma.unitquat_to_rotvec, quaternions()),
    "unitquat_to_euler": lambda: Target(lambda q: roma.unitquat_to_euler("xyz", q), quaternions()),
    "unitquat_slerp": lambda: Target(lambda a, b: roma.unitquat_slerp(a, b, STEPS), quaternions(2)),
    "unitquat_slerp_fast": lambda: Target(lambda a, b: roma.unitquat_slerp_fast(a, b, STEPS), quaternions(2)),
    "unitquat_geodesic_distance": lambda: Target(roma.unitquat_geodesic_distance, quaternions(2)),
    "rotvec_to_rotmat": lambda: Target(roma.rotvec_to_rotmat, vectors()),
    "rotvec_to_unitquat": lambda: Target(roma.rotvec_to_unitquat, vectors()),
    "rotvec_to_euler": lambda: Target(lambda v: roma.rotvec_to_euler("zyx", v), vectors()),
    "rotvec_inverse": lambda: Target(roma.rotvec_inverse, vectors()),
    "rotvec_composition": lambda: Target(lambda a, b: roma.rotvec_composition((a, b)), vectors(2)),
    "rotvec_slerp": lambda: Target(lambda a, b: roma.rotvec_slerp(a, b, STEPS), vectors(2)),
    "rotvec_geodesic_distance": lambda: Target(roma.rotvec_geodesic_distance, vectors(2)),
    "rotmat_to_rotvec": lambda: Target(roma.rotmat_to_rotvec, matrices()),
    "rotmat_to_unitquat": lambda: Target(roma.rotmat_to_unitquat, matrices()),
    "rotmat_to_euler": lambda: Target(lambda r: roma.rotmat_to_euler("xyz", r), matrices()),
    "rotmat_inverse": lambda: Target(roma.rotmat_inverse, matrices()),
    "rotmat_composition": lambda: Target(lambda a, b: roma.rotmat_composition((a, b)), matrices(2)),
    "rotmat_geodesic_distance": lambda: Target(roma.rotmat_geodesic_distance, matrices(2)),
    "rotmat_slerp": lambda: Target(lambda a, b: roma.rotmat_slerp(a, b, STEPS), matrices(2)),
    "special_gramschmidt": lambda: Target(roma.special_gramschmidt, tensors(3, 2)),
    "special_procrustes": lambda: Target(roma.special_procrustes, tensors(3, 3)),
    "procrustes": lambda: Target(roma.procrustes, tensors(3, 3)),
    "rigid_vectors_registration": lambda: Target(roma.rigid_vectors_registration, pairs(6, 3)),
    "rigid_points_registration": lambda: Target(roma.rigid_points_registration, pairs(6, 3)),
    "sinc": lambda: Target(roma.sinc, tensors(4)),
    "symmatrixvec_to_unitquat": lambda: Target(roma.symmatrixvec_to_unitquat, tensors(10)),
    "random_unitquat": lambda: Target(lambda x: roma.random_unitquat(3) * x, calls(lambda n: (torch.randn(n, 3, 4),))),
}
