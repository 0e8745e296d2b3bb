"""The torchvision models that this suite compiles: real classes in narrow and shallow configurations, with random
weights.

To add a model, write a function that creates it, and add an entry to `MODELS`.
"""

from functools import partial

import torch
from torchvision import models as tv
from torchvision.models import convnext, detection, efficientnet, mobilenetv3, resnet, segmentation
from torchvision.models._utils import IntermediateLayerGetter
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.ops import MultiScaleRoIAlign

from .._models import Known, Model

CLASSES = 5


def images(batch, side=64):
    return {"x": torch.randn(batch, 3, side, side)}


def small_images(batch):
    return images(batch, side=32)


def segmented(batch):
    return {"input": torch.randn(batch, 3, 64, 64)}


def clips(batch):
    return {"x": torch.randn(batch, 3, 4, 16, 16)}


def photos(batch):
    """The input of a detector: a list of images of different sizes."""
    return {"images": [torch.rand(3, 48 + 8 * i, 64) for i in range(batch)]}


def boxes(batch):
    return {"targets": [{"boxes": torch.tensor([[4.0, 4.0, 30.0, 30.0]]), "labels": torch.tensor([1])}] * batch}


def total_loss(losses):
    return sum(losses.values())


def make_resnet():
    return tv.ResNet(resnet.BasicBlock, [1, 1, 1, 1], num_classes=CLASSES)


def make_mobilenet_v2():
    setting = [[1, 16, 1, 1], [4, 24, 2, 2]]
    return tv.MobileNetV2(CLASSES, width_mult=0.5, inverted_residual_setting=setting, dropout=0.0)


def make_mobilenet_v3():
    block = partial(mobilenetv3.InvertedResidualConfig, width_mult=1.0)
    setting = [
        block(16, 3, 16, 16, True, "RE", 2, 1),
        block(16, 5, 32, 24, True, "HS", 2, 1),
        block(24, 5, 48, 24, True, "HS", 1, 1),
    ]
    return tv.MobileNetV3(setting, last_channel=64, num_classes=CLASSES)


def make_efficientnet():
    setting = [
        efficientnet.FusedMBConvConfig(1, 3, 1, 16, 16, 1),
        efficientnet.MBConvConfig(4, 3, 2, 16, 24, 2),
    ]
    return tv.EfficientNet(setting, dropout=0.2, num_classes=CLASSES, last_channel=64)


def make_shufflenet():
    return tv.ShuffleNetV2([2, 2, 2], [16, 32, 48, 64, 64], num_classes=CLASSES)


def make_regnet():
    block = tv.regnet.BlockParams(
        depths=[1, 2],
        widths=[16, 32],
        group_widths=[8, 8],
        bottleneck_multipliers=[1.0, 1.0],
        strides=[2, 2],
        se_ratio=0.25,
    )
    return tv.RegNet(block, num_classes=CLASSES, stem_width=16)


def make_densenet():
    return tv.DenseNet(growth_rate=8, block_config=(2, 2), num_init_features=16, num_classes=CLASSES)


def make_inception_v3():
    return tv.Inception3(num_classes=CLASSES, aux_logits=False, init_weights=False)


def make_convnext():
    setting = [convnext.CNBlockConfig(24, 48, 1), convnext.CNBlockConfig(48, None, 1)]
    return tv.ConvNeXt(setting, stochastic_depth_prob=0.1, layer_scale=0.1, num_classes=CLASSES)


def make_vit():
    return tv.VisionTransformer(
        image_size=32, patch_size=8, num_layers=2, num_heads=2, hidden_dim=32, mlp_dim=64, num_classes=CLASSES
    )


def make_swin():
    return tv.SwinTransformer(
        patch_size=[4, 4], embed_dim=16, depths=[2, 1], num_heads=[2, 4], window_size=[4, 4], num_classes=CLASSES
    )


def make_video_resnet():
    from torchvision.models.video import resnet as video

    return video.VideoResNet(
        video.BasicBlock, [video.Conv3DSimple] * 4, [1, 1, 1, 1], video.BasicStem, num_classes=CLASSES
    )


def make_deeplab():
    backbone = IntermediateLayerGetter(make_resnet(), {"layer2": "aux", "layer3": "out"})
    return segmentation.DeepLabV3(
        backbone, segmentation.deeplabv3.DeepLabHead(256, CLASSES, [2, 4]), segmentation.fcn.FCNHead(128, CLASSES)
    )


def make_lraspp():
    backbone = IntermediateLayerGetter(make_mobilenet_v3().features, {"1": "low", "4": "high"})
    return segmentation.LRASPP(backbone, 16, 144, CLASSES, inter_channels=16)


def detector_backbone():
    features = make_mobilenet_v2().features
    features.out_channels = 1280
    return features


def make_faster_rcnn():
    return detection.FasterRCNN(
        detector_backbone(),
        min_size=64,
        max_size=64,
        rpn_anchor_generator=AnchorGenerator(((16, 32),), ((1.0,),)),
        box_roi_pool=MultiScaleRoIAlign(["0"], output_size=3, sampling_ratio=2),
        box_head=detection.faster_rcnn.TwoMLPHead(1280 * 9, 32),
        box_predictor=detection.faster_rcnn.FastRCNNPredictor(32, CLASSES),
    )


BATCHES = {"batch": [4, 6, 3]}
BATCH = {"x": 0}

# The longest cases come first, so that no worker still runs one when the other workers have finished.
MODELS = [
    # detection
    Model(
        "faster_rcnn",
        make_faster_rcnn,
        photos,
        {"batch": [2]},
        {},
        targets=boxes,
        loss=total_loss,
        only=["inference-fp32", "training-fp32"],
        light="eager",  # it has 41 graphs, and each pass after tracing would take as long as tracing
        known=[
            Known(
                "the number of boxes depends on the data (nms, nonzero), and the pooler and the resize call .item()",
                kind=["graph-break", "recompile", "eager-fallback"],
            )
        ],
    ),
    # Inception: at these sizes, its last feature maps have one or four pixels. Batch norm over so few values is noise
    # in bf16, even in eager, so a training run in bf16 would not compare anything. Only one size is used, because
    # tracing its 400 ops takes a long time.
    Model(
        "inception_v3",
        make_inception_v3,
        partial(images, side=80),
        {"batch": [4]},
        BATCH,
        only=["inference-fp32", "training-fp32"],
        slow=True,
    ),
    # residual
    Model(
        "resnet",
        make_resnet,
        images,
        {"batch": [4, 6, 3], "side": [64, 80, 48]},
        {"x": (0, 2, 3)},
        inductor=["training-fp32"],
        quick=["inference-fp32", "training-fp32"],
    ),
    Model("regnet", make_regnet, images, BATCHES, BATCH),
    Model("densenet", make_densenet, images, BATCHES, BATCH),
    # mobile
    Model("mobilenet_v3", make_mobilenet_v3, images, BATCHES, BATCH),
    Model("shufflenet_v2", make_shufflenet, images, BATCHES, BATCH),
    Model("efficientnet", make_efficientnet, images, BATCHES, BATCH),
    # ConvNeXt, and transformers
    Model("convnext", make_convnext, images, BATCHES, BATCH, inductor=["inference-fp32"]),
    Model(
        "vit",
        make_vit,
        small_images,
        {"batch": [2, 3, 5]},
        BATCH,
        inductor=["inference-bf16"],
        quick=["inference-bf16"],
    ),
    Model("swin", make_swin, small_images, BATCHES, BATCH),
    # video
    Model(
        "video_resnet",
        make_video_resnet,
        clips,
        BATCHES,
        BATCH,
        only=["inference-fp32", "inference-bf16", "training-fp32"],  # for the same reason as Inception
    ),
    # segmentation
    Model("deeplab_v3", make_deeplab, small_images, BATCHES, BATCH),
    Model("lraspp", make_lraspp, segmented, BATCHES, {"input": 0}),
]
