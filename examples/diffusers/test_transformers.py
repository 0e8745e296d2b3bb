"""diffusers under torch.compile: a transformer whole and by repeated blocks, over shapes, and a pipeline."""

import pytest
import torch
from diffusers import DDPMPipeline, DDPMScheduler, FluxTransformer2DModel, UNet2DModel

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


def flux_call(side, text=8):
    generator = torch.Generator().manual_seed(side)
    return call(
        hidden_states=torch.randn(1, side * side, 4, generator=generator),
        encoder_hidden_states=torch.randn(1, text, 32, generator=generator),
        pooled_projections=torch.randn(1, 32, generator=generator),
        img_ids=torch.randn(side * side, 3, generator=generator),
        txt_ids=torch.zeros(text, 3),
        timestep=torch.tensor([1.0]),
    ).under(torch.no_grad)


def repeated(model):
    model.compile_repeated_blocks(fullgraph=True, backend="eager")
    return model


def test_transformer_equals_eager_in_one_graph(compile_check):
    report = compile_check(make_flux(), calls=[flux_call(4)] * 2)
    assert len(report.graphs) == 1


def test_sizes_of_images_cost_one_recompile(compile_check):
    compile_check(make_flux(), calls=[flux_call(4), flux_call(6), flux_call(7)], max_recompiles=1)


def test_repeated_blocks_equal_eager(compile_check):
    # One graph for each class of blocks, and one more: the second single block gets its input with another stride.
    report = compile_check(make_flux(), calls=[flux_call(4)] * 2, compile=repeated, max_recompiles=1)
    assert len(report.graphs) == 3


def make_pipeline():
    torch.manual_seed(0)
    unet = UNet2DModel(
        sample_size=8,
        in_channels=3,
        out_channels=3,
        block_out_channels=(8, 16),
        norm_num_groups=4,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    )
    return DDPMPipeline(unet.eval(), DDPMScheduler(num_train_timesteps=10))


def run(pipeline):
    pipeline.set_progress_bar_config(disable=True)
    generator = torch.Generator().manual_seed(0)
    return torch.from_numpy(pipeline(generator=generator, num_inference_steps=3, output_type="np").images)


def test_pipeline_compiles_its_network_once_and_draws_the_same_image():
    expected, pipeline = run(make_pipeline()), make_pipeline()
    pipeline.unet = torch.compile(pipeline.unet, backend="eager")
    with compile_guard(max_graph_breaks=0, max_recompiles=0, name="DDPMPipeline") as seen:
        actual = run(pipeline)
    assert len(seen.graphs) == 1
    torch.testing.assert_close(actual, expected)


def broken(module, args, output):
    return (output[0] * (2 if output[0].sum() > 0 else 1),)


def wrong(module, args, output):
    return (output[0] * (1.001 if torch.compiler.is_compiling() else 1.0),)


def counted(module, args, output):
    module.calls = getattr(module, "calls", 0) + 1
    return (output[0] * module.calls,)


@pytest.mark.parametrize(
    ("planted", "kind"),
    [(broken, "graph-break"), (wrong, "numerics"), (counted, "recompile")],
    ids=["break", "wrong number", "recompile"],
)
def test_what_is_planted_is_found(compile_check, planted, kind):
    class Planted(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.flux = make_flux()

        def forward(self, **inputs):
            return planted(self, (), self.flux(**inputs, return_dict=False))

    with pytest.raises(CompileCheckFailed) as failed:
        compile_check(Planted(), calls=[flux_call(4)] * 3)
    assert {finding.kind for finding in failed.value.findings} == {kind}
