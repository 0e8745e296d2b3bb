"""The transformers models that this suite compiles: real classes with small configurations and random weights.

To add a model, write a function that creates it, and add an entry to `MODELS`.
"""

from functools import partial

import transformers as tf

from .._models import Known, Model
from .inputs import (
    CLASSES,
    VOCAB,
    caption,
    image,
    image_and_text,
    label,
    label_map,
    next_tokens,
    spectrogram,
    text_pair,
    tokens,
    transcript,
    waveform,
)  # fmt: skip

# The dropout rate of models with dropout inside a fused attention kernel. On CUDA, a compiled graph uses a different
# attention kernel than eager, which draws different random numbers.
SAME_NUMBERS = 0.0


def model_loss(output):
    return output.loss


ENCODER = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
TOKENIZER = {"vocab_size": VOCAB, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
DECODER = {**ENCODER, **TOKENIZER, "num_key_value_heads": 1, "head_dim": 16, "use_cache": False}


def make_bert():
    return tf.BertForMaskedLM(tf.BertConfig(**ENCODER, vocab_size=VOCAB))


def make_deberta_v2():
    relative = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_buckets": 8}
    return tf.DebertaV2ForMaskedLM(
        tf.DebertaV2Config(**ENCODER, **relative, vocab_size=VOCAB, norm_rel_ebd="layer_norm", share_att_key=True)
    )


def make_modernbert():
    return tf.ModernBertForMaskedLM(
        tf.ModernBertConfig(**ENCODER, **TOKENIZER, cls_token_id=1, sep_token_id=2, local_attention=8)
    )


def make_gpt2():
    model = make_gpt2_unnamed_loss()
    model.loss_type = "ForCausalLM"
    return model


def make_gpt2_unnamed_loss():
    return tf.GPT2LMHeadModel(small_gpt2(use_cache=False))


def small_gpt2(**options):
    return tf.GPT2Config(n_embd=32, n_layer=1, n_head=2, n_positions=64, **TOKENIZER, **options)


def make_llama(**options):
    return tf.LlamaForCausalLM(tf.LlamaConfig(**(DECODER | options)))


def make_gemma3():
    layers = {"num_hidden_layers": 2, "layer_types": ["sliding_attention", "full_attention"], "sliding_window": 8}
    return tf.Gemma3ForCausalLM(tf.Gemma3TextConfig(**(DECODER | layers)))


def make_mamba():
    return tf.MambaForCausalLM(
        tf.MambaConfig(hidden_size=32, num_hidden_layers=1, state_size=8, use_cache=False, **TOKENIZER)
    )


def make_mixtral():
    return tf.MixtralForCausalLM(tf.MixtralConfig(**DECODER, num_local_experts=4, num_experts_per_tok=2))


def make_t5():
    return tf.T5ForConditionalGeneration(
        tf.T5Config(d_model=32, d_kv=8, d_ff=64, num_layers=1, num_heads=2, use_cache=False, **TOKENIZER)
    )


def make_dinov2(problem_type="single_label_classification"):
    return tf.Dinov2ForImageClassification(
        tf.Dinov2Config(
            **ENCODER, mlp_ratio=2, image_size=28, patch_size=7, num_labels=CLASSES, problem_type=problem_type
        )
    )


def make_segformer():
    model = make_segformer_never_called()
    model(**image(batch=1))
    return model


def make_segformer_never_called():
    stages = {"depths": [1, 1], "sr_ratios": [2, 1], "hidden_sizes": [16, 32], "patch_sizes": [7, 3], "strides": [4, 2]}
    heads = {"num_attention_heads": [1, 2], "mlp_ratios": [2, 2], "decoder_hidden_size": 16, "num_labels": CLASSES}
    return tf.SegformerForSemanticSegmentation(tf.SegformerConfig(num_encoder_blocks=2, **stages, **heads))


def make_clip():
    text = {**ENCODER, **TOKENIZER, "max_position_embeddings": 64}
    vision = {**ENCODER, "image_size": 32, "patch_size": 8}
    return tf.CLIPModel(tf.CLIPConfig(text_config=text, vision_config=vision, projection_dim=16))


def make_wav2vec2():
    convolutions = {"conv_dim": (16, 16), "conv_stride": (5, 4), "conv_kernel": (10, 4)}
    positions = {"num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 2}
    no_masks = {"layerdrop": 0.0, "apply_spec_augment": False, "attention_dropout": SAME_NUMBERS}
    return tf.Wav2Vec2ForCTC(tf.Wav2Vec2Config(**ENCODER, **convolutions, **positions, **no_masks, vocab_size=16))


def make_whisper():
    encoder = {"encoder_layers": 1, "encoder_attention_heads": 2, "encoder_ffn_dim": 64, "max_source_positions": 32}
    decoder = {"decoder_layers": 1, "decoder_attention_heads": 2, "decoder_ffn_dim": 64, "max_target_positions": 64}
    return tf.WhisperForConditionalGeneration(
        tf.WhisperConfig(d_model=32, num_mel_bins=16, use_cache=False, **encoder, **decoder, **TOKENIZER)
    )


def make_vision_encoder_decoder():
    encoder = tf.ViTConfig(**ENCODER, image_size=32, patch_size=8)
    decoder = small_gpt2(use_cache=False, attn_pdrop=SAME_NUMBERS)
    config = tf.VisionEncoderDecoderConfig.from_encoder_decoder_configs(encoder, decoder)
    return tf.VisionEncoderDecoderModel(config)


TEXTS = {"batch": [2, 3, 5], "length": [16, 24, 11]}
BATCHES = {"batch": [2, 3, 5]}
TEXT = {"input_ids": (0, 1), "attention_mask": (0, 1), "decoder_input_ids": (0, 1), "labels": (0, 1)}
IMAGE = {"pixel_values": 0, "labels": 0}

MODELS = [
    # encoders
    Model(
        "bert",
        make_bert,
        tokens,
        TEXTS,
        TEXT,
        targets=next_tokens,
        loss=model_loss,
        inductor=["training-fp32"],
        quick=["inference-fp32", "training-fp32"],
    ),
    Model("deberta_v2", make_deberta_v2, tokens, TEXTS, TEXT, next_tokens, model_loss),
    Model("modernbert", make_modernbert, tokens, TEXTS, TEXT, next_tokens, model_loss),
    # decoders
    Model("gpt2", make_gpt2, tokens, TEXTS, TEXT, next_tokens, model_loss),
    Model(
        "gpt2_unnamed_loss",
        make_gpt2_unnamed_loss,
        tokens,
        {"batch": [2], "length": [16]},
        TEXT,
        targets=next_tokens,
        loss=model_loss,
        only=["training-fp32"],
        known=[
            Known(
                "transformers cannot derive the loss from the class name, so it logs a warning while it is traced; "
                "the fix is to set model.loss_type, which the entry gpt2 covers",
                kind=["graph-break"],
            )
        ],
    ),
    Model(
        "llama",
        make_llama,
        tokens,
        TEXTS,
        TEXT,
        targets=next_tokens,
        loss=model_loss,
        inductor=["inference-bf16"],
        quick=["inference-bf16"],
    ),
    Model(
        "llama_with_cache",
        partial(make_llama, use_cache=True, num_key_value_heads=2),
        tokens,
        {"batch": [2], "length": [16]},
        TEXT,
        only=["inference-fp32"],
        known=[
            Known(
                "a cache starts as an empty tensor. In eager, torch.cat of the empty tensor and the transposed keys "
                "returns a contiguous tensor, but the decomposition of torch.cat returns the strides of the keys",
                kind="metadata",
            )
        ],
    ),
    Model("gemma3", make_gemma3, tokens, TEXTS, TEXT, next_tokens, model_loss),
    Model(
        "mamba",
        make_mamba,
        partial(tokens, length=8),
        BATCHES,
        {"input_ids": 0, "attention_mask": 0, "labels": 0},
        targets=partial(next_tokens, length=8),
        loss=model_loss,
        known=[
            Known(
                "torch's associative_scan, which eager code does not use, loses the gradient of the factors; before torch "
                "2.15, compiled code does not use it either",
                kind="gradient",
                torch=">=2.15",
                test="training",
                device="cuda",
            )
        ],
    ),
    Model(
        "mamba_other_length",
        make_mamba,
        tokens,
        {"batch": [2, 2], "length": [4, 6]},
        TEXT,
        only=["inference-bf16"],
        known=[
            Known(
                "without Mamba's CUDA kernel, the scan is torch's associative_scan. On the CPU, associative_scan is a "
                "Python recursion that halves the length. The depth of the recursion and the parity of each level are "
                "guards (before torch 2.9, associative_scan is a plain loop)",
                kind="recompile",
                device="cpu",
            ),
            Known(
                (
                    "on CUDA, torch's associative_scan turns the length into a constant. The length is marked as "
                    "dynamic, so torch.compile rejects the constant"
                ),
                kind="compile-error",
                torch="<2.15",
                device="cuda",
            ),
        ],
    ),
    # mixture of experts
    Model(
        "mixtral",
        make_mixtral,
        tokens,
        TEXTS,
        TEXT,
        next_tokens,
        model_loss,
        known=[
            Known(
                "the backward of the experts in float32 reads the number of tokens of each expert from the device; "
                "in transformers 5.23, the numbers remain on the device",
                kind=["graph-break", "recompile", "not-observable"],
                test="training",
                dtype="fp32",
                device="cuda",
                needs="transformers<5.23",
            )
        ],
    ),
    # encoder-decoders
    Model("t5", make_t5, text_pair, TEXTS, TEXT),
    # vision
    Model("dinov2", make_dinov2, partial(image, side=28), BATCHES, IMAGE, label, model_loss),
    Model(
        "dinov2_unset_problem_type",
        partial(make_dinov2, problem_type=None),
        partial(image, side=28),
        {"batch": [2]},
        IMAGE,
        targets=label,
        loss=model_loss,
        only=["training-fp32"],
        known=[
            Known(
                "the first loss writes config.problem_type, on which the graph is guarded, so the second step "
                "recompiles; the fix is to set it in the configuration, which the entry dinov2 covers",
                kind="recompile",
            )
        ],
    ),
    Model("segformer", make_segformer, image, BATCHES, IMAGE, label_map, model_loss),
    Model(
        "segformer_first_call",
        make_segformer_never_called,
        image,
        {"batch": [2]},
        IMAGE,
        only=["inference-fp32"],
        known=[
            Known(
                "if hidden states are requested, transformers installs its hooks in the first call, under a lock, "
                "which breaks the graph if the model is compiled before any eager call; the fix is one eager call "
                "first, which the entry segformer covers",
                kind=["graph-break", "recompile"],
            )
        ],
    ),
    Model("clip", make_clip, image_and_text, TEXTS, TEXT | IMAGE),
    # speech
    Model(
        "wav2vec2",
        make_wav2vec2,
        waveform,
        {"batch": [2, 3, 5], "length": [800, 1200, 1000]},
        {"input_values": (0, 1)},
        only=["inference-fp32", "inference-bf16"],
    ),
    Model(
        "wav2vec2_ctc",
        make_wav2vec2,
        waveform,
        {"batch": [2], "length": [800]},
        {},
        targets=transcript,
        loss=model_loss,
        only=["training-fp32", "training-bf16"],
        known=[
            Known(
                "the CTC loss branches on the largest label and selects by mask, and training sets requires_grad on "
                "the input: each depends on the data or changes the autograd graph while it is traced",
                kind=["graph-break", "recompile"],
            )
        ],
    ),
    Model(
        "whisper",
        make_whisper,
        spectrogram,
        TEXTS,
        TEXT | {"input_features": 0},
        known=[
            Known(
                "layer drop is decided by a random tensor even where its probability is 0; fixed in transformers 5.23",
                kind=["graph-break", "recompile"],
                test="training",
                needs="transformers<5.23",
            )
        ],
    ),
    # a vision encoder-decoder
    Model(
        "vision_encoder_decoder",
        make_vision_encoder_decoder,
        caption,
        TEXTS,
        TEXT | IMAGE,
    ),
]
