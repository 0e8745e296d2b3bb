"""kornia: filters, colour, geometry, losses, morphology."""

from __future__ import annotations

import kornia as k
import torch

from libraries.inputs import calls, image_pairs, images, tensors
from libraries.targets import Target


def masks(classes: int = 3, size: int = 8):
    return calls(lambda n: (torch.randn(n, classes, size, size), torch.randint(0, classes, (n, size, size))))


def kernel():
    return torch.ones(3, 3)


def with_kernel(size: int = 12):
    return calls(lambda n: (torch.rand(n, 2, size, size), kernel()))


def rotations():
    return calls(lambda n: (torch.randn(n, 3),))


def quaternions():
    return calls(lambda n: (torch.nn.functional.normalize(torch.randn(n, 4), dim=-1),))


def homographies():
    return calls(lambda n: (torch.rand(n, 3, 16, 16), torch.eye(3).expand(n, 3, 3) + 0.01 * torch.randn(n, 3, 3)))


def affine():
    return calls(lambda n: (torch.rand(n, 3, 16, 16), torch.eye(2, 3).expand(n, 2, 3) + 0.01 * torch.randn(n, 2, 3)))


TARGETS = {
    "GaussianBlur2d": lambda: Target(k.filters.GaussianBlur2d((3, 3), (1.5, 1.5)), images()),
    "BoxBlur": lambda: Target(k.filters.BoxBlur((3, 3)), images()),
    "Sobel": lambda: Target(k.filters.Sobel(), images()),
    "Canny": lambda: Target(k.filters.Canny(), images()),
    "Laplacian": lambda: Target(k.filters.Laplacian(3), images()),
    "MedianBlur": lambda: Target(k.filters.MedianBlur((3, 3)), images()),
    "SpatialGradient": lambda: Target(k.filters.SpatialGradient(), images()),
    "UnsharpMask": lambda: Target(k.filters.UnsharpMask((3, 3), (1.5, 1.5)), images()),
    "BilateralBlur": lambda: Target(k.filters.BilateralBlur((3, 3), 0.1, (1.5, 1.5)), images(size=10)),
    "GuidedBlur": lambda: Target(k.filters.GuidedBlur(3, 0.1), image_pairs(size=10)),
    "MotionBlur": lambda: Target(k.filters.MotionBlur(3, 35.0, 0.5), images()),
    "MaxBlurPool2D": lambda: Target(k.filters.MaxBlurPool2D(3), images()),
    "BlurPool2D": lambda: Target(k.filters.BlurPool2D(3), images()),
    "EdgeAwareBlurPool2D": lambda: Target(k.filters.EdgeAwareBlurPool2D(3), images()),
    "InRange": lambda: Target(k.filters.InRange((0.2, 0.2, 0.2), (0.8, 0.8, 0.8)), images(), train=False),
    "OtsuThreshold": lambda: Target(k.filters.OtsuThreshold(), images(1)),
    "RgbToGrayscale": lambda: Target(k.color.RgbToGrayscale(), images()),
    "RgbToHsv": lambda: Target(k.color.RgbToHsv(), images(size=6)),
    "HsvToRgb": lambda: Target(k.color.HsvToRgb(), images(size=6)),
    "RgbToHls": lambda: Target(k.color.RgbToHls(), images(size=6)),
    "HlsToRgb": lambda: Target(k.color.HlsToRgb(), images(size=6)),
    "RgbToLab": lambda: Target(k.color.RgbToLab(), images(size=6)),
    "LabToRgb": lambda: Target(k.color.LabToRgb(), images(size=6)),
    "RgbToLuv": lambda: Target(k.color.RgbToLuv(), images(size=6)),
    "RgbToYcbcr": lambda: Target(k.color.RgbToYcbcr(), images(size=6)),
    "RgbToYuv420": lambda: Target(k.color.RgbToYuv420(), images(size=6)),
    "RawToRgb": lambda: Target(k.color.RawToRgb(k.color.CFA.BG), images(1, 6)),
    "Sepia": lambda: Target(k.color.Sepia(), images(size=6)),
    "ApplyColorMap": lambda: Target(
        k.color.ApplyColorMap(k.color.ColorMap("autumn", 256)),
        calls(lambda n: (torch.randint(0, 255, (n, 1, 6, 6)),)),
        train=False,
    ),
    "adjust_hue": lambda: Target(lambda x: k.enhance.adjust_hue(x, 0.3), images(size=6)),
    "adjust_contrast": lambda: Target(lambda x: k.enhance.adjust_contrast(x, 0.7), images(size=6)),
    "equalize": lambda: Target(k.enhance.equalize, images(size=6), train=False),
    "equalize_clahe": lambda: Target(k.enhance.equalize_clahe, images(1, 16), train=False),
    "posterize": lambda: Target(lambda x: k.enhance.posterize(x, 3), images(size=6), train=False),
    "sharpness": lambda: Target(lambda x: k.enhance.sharpness(x, 0.7), images(size=6)),
    "histogram": lambda: Target(
        lambda x: k.enhance.histogram(x, torch.linspace(0, 1, 8), torch.tensor(0.9)), tensors(20)
    ),
    "zca_whiten": lambda: Target(k.enhance.zca_whiten, tensors(4, sizes=(8, 10, 12))),
    "warp_perspective": lambda: Target(lambda x, m: k.geometry.warp_perspective(x, m, (12, 12)), homographies()),
    "warp_affine": lambda: Target(lambda x, m: k.geometry.warp_affine(x, m, (12, 12)), affine()),
    "rotate": lambda: Target(k.geometry.rotate, calls(lambda n: (torch.rand(n, 3, 12, 12), torch.rand(n) * 90))),
    "resize": lambda: Target(lambda x: k.geometry.resize(x, (8, 8)), images()),
    "pyrdown": lambda: Target(k.geometry.pyrdown, images()),
    "axis_angle_to_rotation_matrix": lambda: Target(k.geometry.axis_angle_to_rotation_matrix, rotations()),
    "quaternion_to_rotation_matrix": lambda: Target(k.geometry.quaternion_to_rotation_matrix, quaternions()),
    "rotation_matrix_to_quaternion": lambda: Target(
        lambda q: k.geometry.rotation_matrix_to_quaternion(k.geometry.quaternion_to_rotation_matrix(q)), quaternions()
    ),
    "spatial_soft_argmax2d": lambda: Target(k.geometry.spatial_soft_argmax2d, images(size=8)),
    "get_perspective_transform": lambda: Target(
        k.geometry.get_perspective_transform, calls(lambda n: (torch.rand(n, 4, 2), torch.rand(n, 4, 2)))
    ),
    "ssim_loss": lambda: Target(lambda x, y: k.losses.ssim_loss(x, y, 5), image_pairs()),
    "dice_loss": lambda: Target(k.losses.dice_loss, masks()),
    "focal_loss": lambda: Target(lambda x, y: k.losses.focal_loss(x, y, 0.5), masks()),
    "lovasz_softmax_loss": lambda: Target(k.losses.lovasz_softmax_loss, masks()),
    "tversky_loss": lambda: Target(lambda x, y: k.losses.tversky_loss(x, y, 0.4, 0.6), masks()),
    "dilation": lambda: Target(k.morphology.dilation, with_kernel()),
    "opening": lambda: Target(k.morphology.opening, with_kernel()),
    "gradient": lambda: Target(k.morphology.gradient, with_kernel()),
    "SIFTDescriptor": lambda: Target(k.feature.SIFTDescriptor(16), images(1, 16, (4, 6, 7))),
    "HardNet": lambda: Target(k.feature.HardNet(False), images(1, 32)),
    "CornerHarris": lambda: Target(k.feature.CornerHarris(0.04), images(1)),
    "RandomHorizontalFlip": lambda: Target(k.augmentation.RandomHorizontalFlip(p=0.5), images()),
    "ColorJiggle": lambda: Target(k.augmentation.ColorJiggle(0.1, 0.1, 0.1, 0.1), images()),
    "Normalize": lambda: Target(k.augmentation.Normalize(0.5, 0.5), images()),
}
