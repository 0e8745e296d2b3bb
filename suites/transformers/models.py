"""The transformers models this suite compiles: real classes from small configurations, with random weights.

To add one, write a factory, then add one entry to `MODELS`.
"""

import torch
import transformers as tf

VOCAB = 64


def tokens(batch, length):
    ids = torch.randint(3, VOCAB, (batch, length))
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids}


def make_bert():
    return tf.BertForMaskedLM(tf.BertConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, vocab_size=VOCAB))


def make_distilbert():
    return tf.DistilBertForMaskedLM(tf.DistilBertConfig(dim=32, n_layers=1, n_heads=2, hidden_dim=64, vocab_size=VOCAB))


def make_electra():
    return tf.ElectraForPreTraining(tf.ElectraConfig(embedding_size=16, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64, vocab_size=VOCAB))


def make_deberta_v2():
    return tf.DebertaV2ForMaskedLM(tf.DebertaV2Config(
        hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64, vocab_size=VOCAB,
        relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=8, norm_rel_ebd="layer_norm", share_att_key=True))


def make_modernbert():
    return tf.ModernBertForMaskedLM(tf.ModernBertConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, vocab_size=VOCAB, pad_token_id=0, local_attention=8,
        cls_token_id=1, sep_token_id=2, bos_token_id=1, eos_token_id=2))


def make_gpt2():
    return tf.GPT2LMHeadModel(tf.GPT2Config(n_embd=32, n_layer=2, n_head=2, n_positions=64, vocab_size=VOCAB, bos_token_id=1, eos_token_id=2))


def small_decoder(**kw):
    return dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=64, vocab_size=VOCAB, max_position_embeddings=128, head_dim=8, pad_token_id=0, bos_token_id=1, eos_token_id=2) | kw


def make_llama():
    return tf.LlamaForCausalLM(tf.LlamaConfig(**small_decoder()))


def make_gemma3():
    return tf.Gemma3ForCausalLM(tf.Gemma3TextConfig(**small_decoder(sliding_window=8, layer_types=["sliding_attention", "full_attention"])))


def make_qwen3():
    return tf.Qwen3ForCausalLM(tf.Qwen3Config(**small_decoder()))


def make_mamba():
    return tf.MambaForCausalLM(tf.MambaConfig(hidden_size=32, num_hidden_layers=1, state_size=8, vocab_size=VOCAB))


def make_mamba2():
    return tf.Mamba2ForCausalLM(tf.Mamba2Config(hidden_size=32, num_hidden_layers=1, state_size=8, vocab_size=VOCAB, num_heads=4, head_dim=16, n_groups=2, chunk_size=8))


def make_mixtral():
    return tf.MixtralForCausalLM(tf.MixtralConfig(**small_decoder(num_hidden_layers=1, num_local_experts=4, num_experts_per_tok=2)))


def make_qwen3_moe():
    return tf.Qwen3MoeForCausalLM(tf.Qwen3MoeConfig(**small_decoder(num_hidden_layers=1, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32)))


def make_gpt_oss():
    return tf.GptOssForCausalLM(tf.GptOssConfig(**small_decoder(num_local_experts=4, num_experts_per_tok=2, sliding_window=8)))


def make_t5():
    return tf.T5ForConditionalGeneration(tf.T5Config(d_model=32, d_kv=8, d_ff=64, num_layers=1, num_heads=4, vocab_size=VOCAB, decoder_start_token_id=0))


def make_bart():
    return tf.BartForConditionalGeneration(tf.BartConfig(d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2,
      encoder_ffn_dim=64, decoder_ffn_dim=64, vocab_size=VOCAB, max_position_embeddings=64, decoder_start_token_id=2))


def make_vit():
    return tf.ViTForImageClassification(tf.ViTConfig(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64, image_size=32, patch_size=8, num_labels=5))


def make_dinov2():
    return tf.Dinov2ForImageClassification(tf.Dinov2Config(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, mlp_ratio=2, image_size=28, patch_size=7, num_labels=5))


def make_segformer():
    return tf.SegformerForSemanticSegmentation(tf.SegformerConfig(num_encoder_blocks=2, depths=[1, 1], sr_ratios=[2, 1], hidden_sizes=[16, 32], patch_sizes=[7, 3], strides=[4, 2],
       num_attention_heads=[1, 2], mlp_ratios=[2, 2], decoder_hidden_size=16, num_labels=5))


def make_clip():
    text = dict(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64, vocab_size=VOCAB, max_position_embeddings=64, eos_token_id=2, bos_token_id=1, pad_token_id=0)
    image = dict(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64, image_size=32, patch_size=8)
    return tf.CLIPModel(tf.CLIPConfig(text_config=text, vision_config=image, projection_dim=16))


def make_wav2vec2():
    return tf.Wav2Vec2ForCTC(tf.Wav2Vec2Config(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64, vocab_size=16, conv_dim=(16, 16), conv_stride=(5, 4), conv_kernel=(10, 4),
       num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=2, mask_time_length=2))


def make_whisper():
    return tf.WhisperForConditionalGeneration(tf.WhisperConfig(d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=64, decoder_ffn_dim=64,
      vocab_size=VOCAB, num_mel_bins=16, max_source_positions=32, max_target_positions=64, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, suppress_tokens=[], begin_suppress_tokens=[]))


def make_vision_encoder_decoder():
    enc = tf.ViTConfig(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64, image_size=32, patch_size=8)
    dec = tf.GPT2Config(n_embd=32, n_layer=1, n_head=2, n_positions=64, vocab_size=VOCAB, bos_token_id=1, eos_token_id=2)
    c = tf.VisionEncoderDecoderConfig.from_encoder_decoder_configs(enc, dec)
    c.pad_token_id = 0
    c.decoder_start_token_id = 1
    return tf.VisionEncoderDecoderModel(c)


MODELS = {k[5:]: v for k, v in list(globals().items()) if k.startswith("make_")}
