"""Defects at a known depth of real models: the right module is the one that they were planted in."""

from __future__ import annotations

from functools import partial

import torch
from torch import nn

from pytest_torch_compile import call
from tests.diagnose.failing import custom_ops, planting, wrong_results
from tests.diagnose.failing.breaks import DEFAULT_MODE, chosen, config, normalised
from tests.diagnose.failing.recompiles import integers_of_modules_dynamic
from tests.diagnose.failing.record import Check, failing, options, since, within

# Before, transformers 5 breaks the graphs of its own models.
OWN_BREAKS = ">=2.8"
EAGER, AOT = {"backend": "eager"}, {"backend": "aot_eager"}
SIZES = {"vocab_size": 32, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
IMAGES = {"image_size": 16, "patch_size": 8, "num_labels": 3}


def bert():
    import transformers as tf

    return tf.BertForMaskedLM(tf.BertConfig(**SIZES, max_position_embeddings=16)).eval()


def gpt2(**options):
    import transformers as tf

    sizes = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 16, "vocab_size": 32, "bos_token_id": 1}
    return tf.GPT2LMHeadModel(tf.GPT2Config(**sizes, eos_token_id=2, use_cache=False, **options)).eval()


def llama():
    import transformers as tf

    options = {"num_key_value_heads": 1, "use_cache": False, "max_position_embeddings": 16}
    return tf.LlamaForCausalLM(tf.LlamaConfig(**SIZES, **options)).eval()


def vit():
    import transformers as tf

    sizes = {name: size for name, size in SIZES.items() if name != "vocab_size"}
    return tf.ViTForImageClassification(tf.ViTConfig(**sizes, **IMAGES)).eval()


def t5():
    import transformers as tf

    sizes = {"vocab_size": 32, "d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 2, "num_heads": 2}
    return tf.T5EncoderModel(tf.T5Config(**sizes)).eval()


def resnet():
    from torchvision.models import ResNet
    from torchvision.models.resnet import BasicBlock

    return ResNet(BasicBlock, [1, 1, 1, 1], num_classes=3, width_per_group=64).eval()


def mobilenet():
    from torchvision.models import MobileNetV2

    return MobileNetV2(3, width_mult=0.25, inverted_residual_setting=[[1, 16, 1, 1], [2, 16, 2, 2]]).eval()


def tokens(batch=2, length=8):
    return (torch.randint(3, 32, (batch, length)),)


def image(batch=2, side=16):
    return (torch.randn(batch, 3, side, side),)


def planted(model, path, part):
    """The model with the part in the place of what stands at the path."""
    parent, _, name = path.rpartition(".")
    setattr(model.get_submodule(parent), name, part)
    return model


class Applied(nn.Module):
    """What was there before, followed by a function."""

    def __init__(self, inner, function):
        super().__init__()
        self.inner, self.function = inner, function

    def forward(self, *args, **kwargs):
        return self.function(self.inner(*args, **kwargs))


def followed(model, path, function):
    return planted(model, path, Applied(model.get_submodule(path), function))


# Numerics

BERT_ACTIVATION = "bert.encoder.layer.1.intermediate.intermediate_act_fn"


@failing("numerics", stage="eager", module=BERT_ACTIVATION, innocent=True, torch=OWN_BREAKS)
def lying_activation_in_bert():
    return Check(followed(bert(), BERT_ACTIVATION, wrong_results.lying), [tokens()], AOT)


GPT2_ACTIVATION = "transformer.h.1.mlp.act"


@failing(
    "numerics",
    cause="sinh",
    stage="aot_eager_decomp_partition",
    module=GPT2_ACTIVATION,
    fixes=wrong_results.DECOMPOSITION_LEFT_OUT,
    torch=OWN_BREAKS,
)
def decomposition_in_gpt2():
    model = followed(gpt2(), GPT2_ACTIVATION, torch.sinh)
    return Check(model, [tokens()], wrong_results.DECOMPOSED, [wrong_results.WRONG_SINH])


MOBILENET_ACTIVATION = "features.1.conv.0.2"


@failing("numerics", cause="atan", stage="inductor", module=MOBILENET_ACTIVATION, fixes=wrong_results.LEFT_TO_ATEN)
def lowering_in_mobilenet():
    defect = partial(planting.lowered_as, wrong_results.ATAN, wrong_results.TAN)
    model = followed(mobilenet(), MOBILENET_ACTIVATION, torch.atan)
    return Check(model, [image()], wrong_results.INDUCTOR, [defect])


@failing("numerics", cause="atan", stage="inductor", module="act_fn", fixes=wrong_results.LEFT_TO_ATEN)
def kernel_in_a_block_of_llama():
    defect = partial(planting.generated_as, "atan", "tanh")
    block = followed(llama().model.layers[1].mlp, "act_fn", torch.atan)
    return Check(block, [(torch.randn(2, 16),)], wrong_results.INDUCTOR, [defect])


def widened(x):
    return custom_ops.wide(x).float()


@failing("exception", stage="aot_eager", module="layer2.0.bn2")
def fake_of_a_custom_op_in_resnet():
    model = followed(resnet(), "layer2.0.bn2", widened).requires_grad_(False)
    return Check(model, [image()], AOT)


@failing("numerics", stage="aot_eager", module="encoder.block.1.layer.1.DenseReluDense.act", torch=OWN_BREAKS)
def undeclared_write_in_t5():
    model = followed(t5(), "encoder.block.1.layer.1.DenseReluDense.act", custom_ops.filled)
    return Check(model, [tokens()], AOT)


@failing("gradient", stage="eager", module=BERT_ACTIVATION, innocent=True, torch=">=2.11")
def custom_backward_in_bert():
    model = followed(bert(), BERT_ACTIVATION, wrong_results.HalvedGradient.apply)
    return Check(model, [tokens()], {**AOT, "train": lambda output: output.logits.square().mean()})


COSH_AS_SINH = partial(planting.decomposed_as, torch.ops.aten.cosh.default, wrong_results.one_and_a_half)


@failing(
    "gradient",
    cause="cosh",
    stage="aot_eager_decomp_partition",
    module="transformer.h.0.mlp.act",
    fixes={"cosh": within(partial(planting.not_decomposed, torch.ops.aten.cosh.default))},
    torch=OWN_BREAKS,
)
def decomposition_of_a_backward_in_gpt2():
    model = followed(gpt2(), "transformer.h.0.mlp.act", torch.sinh)
    options = {**wrong_results.DECOMPOSED, "train": lambda output: output.logits.square().mean()}
    return Check(model, [tokens()], options, [COSH_AS_SINH])


# Breaks


def printing(x):
    print("here")
    return x


def branching(x):
    y = x.sin()
    if x.sum() > 0:
        return y * 2
    return y - 1


def scaled_by_item(x):
    return x / x.abs().max().item()


def replaced(build, path, function):
    """The fix at the place of the defect."""
    return lambda check: Check(followed(build(), path, function), check.calls, check.options, check.contexts)


def unchanged(x):
    return x


@failing(
    "graph-break",
    cause=("call to print or a logger", "unsupported code"),
    also=frozenset({"recompile"}),
    module="bert.encoder.layer.1.output.LayerNorm",
    fixes={"print": replaced(bert, "bert.encoder.layer.1.output.LayerNorm", unchanged)},
    torch=OWN_BREAKS,
)
def print_in_bert():
    return Check(followed(bert(), "bert.encoder.layer.1.output.LayerNorm", printing), [tokens()], EAGER)


@failing(
    "graph-break",
    cause=("data-dependent branch", "unsupported code"),
    also=frozenset({"recompile"}),
    module="vit.layers.1.mlp",
    fixes={
        "torch.where": replaced(vit, "vit.layers.1.mlp", chosen),
        "torch.cond": replaced(vit, "vit.layers.1.mlp", chosen),
    },
    torch=OWN_BREAKS,
)
def branch_in_vit():
    return Check(followed(vit(), "vit.layers.1.mlp", branching), [image()], EAGER)


@failing(
    "graph-break",
    cause="scalar from a tensor",
    module="layer3.0.conv1",
    fixes={
        "item": replaced(resnet, "layer3.0.conv1", normalised),
        "keep": replaced(resnet, "layer3.0.conv1", normalised),
        **since("2.11", {"fullgraph": options(fullgraph=True)}),
        "capture_scalar_outputs": within(config(capture_scalar_outputs=True)),
    },
)
def item_in_resnet():
    return Check(followed(resnet(), "layer3.0.conv1", scaled_by_item), [image()], DEFAULT_MODE)


def with_loss(model):
    model.loss_type = "ForCausalLM"
    return model


@failing(
    "graph-break",
    cause="call to print or a logger",
    fixes={"loss": lambda check: Check(with_loss(gpt2()), check.calls, check.options)},
    torch=OWN_BREAKS,
)
def loss_that_gpt2_does_not_know():
    """The real failure of transformers' GPT2LMHeadModel in a class of another name."""
    model = type("OurModel", (type(gpt2()),), {})(gpt2().config)
    return Check(model, [call(*tokens(), labels=tokens()[0])], {**EAGER, "train": lambda output: output.loss})


# Recompiles


class Counting(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner, self.steps = inner, 2

    def forward(self, *args, **kwargs):
        self.steps += 1
        return self.inner(*args, **kwargs) * self.steps


@failing(
    "recompile",
    cause="python-number",
    module="model.layers.1.post_attention_layernorm",
    fixes=since("2.8", {"allow_unspec_int_on_nn_module": integers_of_modules_dynamic}),
    torch=OWN_BREAKS,
)
def counter_in_llama():
    model = llama()
    part = Counting(model.model.layers[1].post_attention_layernorm)
    return Check(planted(model, "model.layers.1.post_attention_layernorm", part), [tokens(), tokens()], EAGER)


@failing(
    "recompile",
    cause="size",
    module=None,
    fixes={
        "dynamic=True": lambda check: Check(check.target, check.calls, {**EAGER, "dynamic": True}),
        "dynamic_dims=": lambda check: Check(check.target, check.calls, {**EAGER, "dynamic_dims": {"input_ids": 1}}),
        "pad ": lambda check: Check(check.target, [tokens(), tokens()], EAGER),
    },
    torch=OWN_BREAKS,
)
def length_of_texts_in_bert():
    return Check(bert(), [tokens(length=6), tokens(length=7)], EAGER)


# Errors


@failing("compile-error", also=frozenset({"nothing-compiled"}), stage="eager", module=MOBILENET_ACTIVATION)
def op_without_a_fake_in_mobilenet():
    model = followed(mobilenet(), MOBILENET_ACTIVATION, custom_ops.bare).requires_grad_(False)
    return Check(model, [image()], AOT)
