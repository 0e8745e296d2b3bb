"""diffusers under torch.compile: whole networks and their repeated blocks, with several shapes, in training and in
pipelines."""

import pytest
import torch
from diffusers import (
    AutoencoderKL,
    DDPMPipeline,
    DDPMScheduler,
    DiTTransformer2DModel,
    FlowMatchEulerDiscreteScheduler,
    FluxPipeline,
    FluxTransformer2DModel,
    UNet2DConditionModel,
    UNet2DModel,
)

from examples.planted import KINDS, plant
from pytest_torch_compile import CompileCheckFailed, call, compile_guard


def make_flux():
    torch.manual_seed(0)
    return FluxTransformer2DModel(
        patch_size=1,
        in_channels=4,
        num_layers=1,
        num_single_layers=2,
        attention_head_dim=16,
        num_attention_heads=2,
        joint_attention_dim=32,
        pooled_projection_dim=32,
        axes_dims_rope=[4, 4, 8],
    ).eval()


def flux_inputs(height, width=None, text=8, batch=1):
    generator = torch.Generator().manual_seed(height)
    places = height * (width or height)
    return {
        "hidden_states": torch.randn(batch, places, 4, generator=generator),
        "encoder_hidden_states": torch.randn(batch, text, 32, generator=generator),
        "pooled_projections": torch.randn(batch, 32, generator=generator),
        "img_ids": torch.randn(places, 3, generator=generator),
        "txt_ids": torch.zeros(text, 3),
        "timestep": torch.tensor([1.0]).expand(batch),
    }


def flux_call(*size, **more):
    return call(**flux_inputs(*size, **more)).under(torch.no_grad)


def repeated(model):
    model.compile_repeated_blocks(fullgraph=True, backend="eager")
    return model


def make_dit():
    torch.manual_seed(0)
    return DiTTransformer2DModel(
        num_attention_heads=2, attention_head_dim=8, in_channels=4, num_layers=2, sample_size=8, norm_num_groups=4
    ).eval()


def make_conditional_unet():
    torch.manual_seed(0)
    return UNet2DConditionModel(
        sample_size=8,
        block_out_channels=(8, 16),
        norm_num_groups=4,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        cross_attention_dim=8,
        attention_head_dim=2,
        layers_per_block=1,
    ).eval()


def make_unet():
    torch.manual_seed(0)
    return UNet2DModel(
        sample_size=8,
        in_channels=3,
        out_channels=3,
        block_out_channels=(8, 16),
        norm_num_groups=4,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    ).eval()


def make_autoencoder():
    torch.manual_seed(0)
    return AutoencoderKL(block_out_channels=(8,), norm_num_groups=4, latent_channels=1, sample_size=8).eval()


def image(channels, side, seed=0):
    return torch.randn(1, channels, side, side, generator=torch.Generator().manual_seed(seed))


MODELS = {
    "DiT": (make_dit, lambda side: (image(4, side), torch.tensor([3]), torch.tensor([1]))),
    "UNet": (make_unet, lambda side: (image(3, side), torch.tensor([3]))),
    "conditional UNet": (make_conditional_unet, lambda side: (image(4, side), torch.tensor([3]), torch.ones(1, 5, 8))),
    "autoencoder": (make_autoencoder, lambda side: (image(3, side),)),
}


def test_transformer_equals_eager_in_one_graph(compile_check):
    report = compile_check(make_flux(), calls=[flux_call(4)] * 2)
    assert len(report.graphs) == 1


@pytest.mark.parametrize("name", MODELS)
def test_network_equals_eager_in_one_graph(compile_check, name):
    make, inputs = MODELS[name]
    report = compile_check(make(), calls=[call(*inputs(8)).under(torch.no_grad)] * 2)
    assert len(report.graphs) == 1


def test_half_precision(compile_check):
    half = {name: value.bfloat16() for name, value in flux_inputs(4).items()}
    compile_check(make_flux().bfloat16(), calls=[call(**half).under(torch.no_grad)])


def test_sizes_of_images_cost_one_recompile(compile_check):
    compile_check(make_flux(), calls=[flux_call(4), flux_call(6), flux_call(7), flux_call(4, 8)], max_recompiles=1)


def test_sizes_of_images_and_texts_cost_nothing_when_dynamic(compile_check):
    sizes = [flux_call(4), flux_call(6, 8), flux_call(8, 4), flux_call(4, text=12)]
    compile_check(make_flux(), calls=sizes, dynamic=True)


def test_batches_cost_one_recompile(compile_check):
    compile_check(make_flux(), calls=[flux_call(4, batch=n) for n in (2, 3, 4)], max_recompiles=1)


def test_two_sizes_of_pictures_are_two_graphs_when_static(compile_check):
    make, inputs = MODELS["UNet"]
    calls = [call(*inputs(side)).under(torch.no_grad) for side in (8, 12, 8, 12)]
    report = compile_check(make(), calls=calls, dynamic=False, max_recompiles=1)
    assert len(report.graphs) == 2


def test_repeated_blocks_equal_eager(compile_check):
    # Each block class needs one graph, and one class needs a second graph, because the second single block gets an
    # input with a different stride.
    report = compile_check(make_flux(), calls=[flux_call(4)] * 2, compile=repeated, max_recompiles=1)
    assert len(report.graphs) == 3


def test_repeated_blocks_take_a_third_size_without_compiling(compile_check):
    calls = [flux_call(4), flux_call(6), flux_call(8)]
    report = compile_check(make_flux(), calls=calls, compile=repeated, max_recompiles=6)
    assert report.observation.during(3).graphs == []


def test_gradients(compile_check):
    compile_check(make_flux().train(), calls=[call(**flux_inputs(4))] * 2, train=lambda out: out.sample.square().mean())


def test_steps_of_an_optimizer(compile_check):
    adam = {"optimizer": lambda parameters: torch.optim.AdamW(parameters, lr=1e-3), "steps": 2}
    compile_check(make_unet().train(), image(3, 8), torch.tensor([3]), train=True, **adam)


def test_gradient_checkpointing(compile_check):
    model = make_flux().train()
    model.enable_gradient_checkpointing()
    compile_check(model, calls=[call(**flux_inputs(4))], train=True)


def run_ddpm(unet):
    pipeline = DDPMPipeline(unet, DDPMScheduler(num_train_timesteps=10))
    pipeline.set_progress_bar_config(disable=True)
    generator = torch.Generator().manual_seed(0)
    return torch.from_numpy(pipeline(generator=generator, num_inference_steps=3, output_type="np").images)


def run_flux(transformer, side=16):
    pipeline = FluxPipeline(
        FlowMatchEulerDiscreteScheduler(), AutoencoderKL(latent_channels=1), None, None, None, None, transformer
    )
    pipeline.set_progress_bar_config(disable=True)
    texts = {"prompt_embeds": torch.ones(1, 8, 32), "pooled_prompt_embeds": torch.ones(1, 32)}
    more = {"height": side, "width": side, "num_inference_steps": 2, "output_type": "latent"}
    return pipeline(**texts, **more, generator=torch.Generator().manual_seed(0)).images


PIPELINES = {"DDPM": (run_ddpm, make_unet), "Flux": (run_flux, make_flux)}


@pytest.mark.parametrize("name", PIPELINES)
def test_pipeline_compiles_its_network_once_and_draws_the_same_image(name):
    run, make = PIPELINES[name]
    expected = run(make())
    with compile_guard(max_graph_breaks=0, max_recompiles=0, name=name) as seen:
        actual = run(torch.compile(make(), backend="eager"))
    assert len(seen.graphs) == 1
    torch.testing.assert_close(actual, expected)


SITES = {
    "a block": "diffusers.models.transformers.transformer_flux:FluxTransformerBlock.forward",
    "attention": "diffusers.models.transformers.transformer_flux:FluxAttnProcessor.__call__",
    "rotary embeddings": "diffusers.models.embeddings:apply_rotary_emb",
    "the model": "diffusers.models.transformers.transformer_flux:AdaLayerNormContinuous.forward",
}


@pytest.mark.parametrize("defect", KINDS)
@pytest.mark.parametrize("site", SITES)
def test_what_is_planted_in_the_library_is_found(compile_check, site, defect):
    with plant(SITES[site], defect), pytest.raises(CompileCheckFailed) as failed:
        calls = [call(**flux_inputs(4))] * 2
        compile_check(make_flux(), calls=calls, train=lambda out: out.sample.square().mean(), diagnose="off")
    assert KINDS[defect] in {finding.kind for finding in failed.value.findings}


@pytest.mark.parametrize("defect", ["break", "recompile"])
def test_what_is_planted_in_a_pipeline_is_found(defect):
    with plant(SITES["a block"], defect), pytest.raises(CompileCheckFailed) as failed:
        with compile_guard(max_graph_breaks=0, max_recompiles=0, name="Flux"):
            run_flux(torch.compile(make_flux(), backend="eager"))
    assert KINDS[defect] in {finding.kind for finding in failed.value.findings}
