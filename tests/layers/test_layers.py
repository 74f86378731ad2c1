"""Test every layer in several configurations, as CONTRIBUTING.md requires."""

from functools import partial

import keras
import numpy as np
import pytest

from keras_permix import layers, zoo
from keras_permix.layers import (
    CSP,
    BlockDense,
    ButterflyAttention,
    ButterflyBlock,
    ButterflyLinear,
    ButterflyLinearMLP,
    ButterflyMLP,
    CausalCSP,
    DampedEMA,
    FourierMixer,
    LinearAttention,
    LinformerAttention,
    LocalAttention,
    MegaBlock,
    MixerBlock,
    PatchOnlyMixer,
    PerformerAttention,
    RandomOrder,
    SimpleAttention,
    SimpleAttentionBlock,
    SinkhornCSP,
    SliceSort,
    SoftmaxAttention,
)
from tests.harness import check_layer, check_other_backend, to_numpy
from tests.zoo.models import TINY, tiny

SHAPE = (4, 16, 8)
BARE = dict(use_value_projection=False, use_output_projection=False)
MEGA = partial(MegaBlock, inner_dim=12, shared_dim=4, average={"ema_dim": 4})


def butterfly_attention(dropout=0.0, stage=1, axis=1, **dtype):
    return ButterflyBlock(SoftmaxAttention(2, dropout=dropout, **dtype), 4, stage, axis, **dtype)


def butterfly_csp(**dtype):
    return ButterflyBlock(CSP(**dtype), 8, **dtype)


def mixer_block(mixer, dtype=None, **arguments):
    return MixerBlock(mixer(dtype=dtype), 12, dtype=dtype, **arguments)


def mixer_built_before(mixer, **arguments):
    """Return a block around a mixer that is already built, as for another model."""
    mixer = mixer(**arguments)
    mixer.build((None, *SHAPE[1:]))
    return MixerBlock(mixer, 12, **arguments)


# Also checked in low precision and in training. Names with "selects" mark layers that depend on
# ranks or maxima of rounded values.
CORE = {
    "csp": partial(CSP),
    "csp full sort": partial(CSP, None),
    "csp selects by reference": partial(CSP, align="reference"),
    "csp wide with bias and dropout": partial(
        CSP, shift="linear_head", inner_dim=20, use_value_bias=True, dropout=0.5
    ),
    "mixer_block around csp": partial(mixer_block, CSP),
    "mixer_block post-norm with every dropout": partial(
        mixer_block,
        partial(SoftmaxAttention, 2),
        norm_first=False,
        extra_skip="block",
        dropout=0.2,
        hidden_dropout=0.2,
        mixer_dropout=0.2,
    ),
    "simple_attention_block": partial(SimpleAttentionBlock, 2, 12),
    "simple_attention": partial(SimpleAttention, num_heads=2),
    "simple_attention causal with dropout": partial(
        SimpleAttention, 4, 3, dropout=0.3, scale="valid", causal=True
    ),
    "csp by sinkhorn": partial(SinkhornCSP, 0.5, 5, group_size=4),
    "damped_ema": partial(DampedEMA),
    "damped_ema bidirectional": partial(DampedEMA, 4, bidirectional=True, truncation=5),
    "mega": partial(MEGA, attention={"max_sequence_length": 16}),
    "mega laplace with dropout": partial(
        MEGA,
        mixer="laplace",
        attention={"chunk_size": 8, "ragged": True, "dropout": 0.2},
        dropout=0.2,
        hidden_dropout=0.2,
    ),
    # Random rotary biases may all be negative, for which relu2 has no gradient.
    "mega dense": partial(MEGA, mixer=keras.layers.Dense(12)),
    "mega attention of keras": partial(MEGA, mixer=keras.layers.MultiHeadAttention(2, 4)),
    "mega relu2": partial(
        MEGA, mixer="relu2", attention={"max_sequence_length": 16}, norm="batchnorm"
    ),
    "mega csp": partial(MEGA, mixer=CSP(**BARE), norm="scalenorm", norm_first=False),
    "slice_sort": partial(SliceSort),
    "slice_sort selects maxima": partial(SliceSort, "max_exchange"),
    "slice_sort interleave_haar": partial(
        SliceSort, "interleave_haar", inner_dim=12, head_dim=4, layer_index=1, num_layers=2
    ),
    "attention": partial(SoftmaxAttention, num_heads=2),
    "linear_attention": partial(LinearAttention, 2, dropout=0.2),
    "linear_attention causal": partial(LinearAttention, 2, causal=True),
    "performer": partial(PerformerAttention, 2, features=6),
    "linformer": partial(LinformerAttention, 2, mixtures=3, max_sequence_length=16),
    "local_attention": partial(LocalAttention, 2, block_size=5, dropout=0.2),
    "butterfly_attention": partial(ButterflyAttention, 2, 4, layer_index=1, num_layers=2),
    "butterfly attention": butterfly_attention,
    "butterfly csp": butterfly_csp,
    "attention plain with dropout": partial(SoftmaxAttention, 4, fused=False, dropout=0.3),
}
VARIANTS = {
    "csp shift only": partial(CSP, group_size=1),
    "csp groups of 4": partial(CSP, 4, "linear_code"),
    "csp reference groups of 4": partial(CSP, 4, align="reference", use_value_bias=True),
    "csp reference full sort": partial(CSP, None, align="reference"),
    "csp ragged groups of 3": partial(CSP, 3, ragged=True),
    "csp causal": partial(CausalCSP, delays=5),
    "csp power": partial(CSP, shift="power", layer_index=1, num_layers=3),
    "csp power_code": partial(CSP, 4, "power_code", layer_index=1, num_layers=2),
    "csp given steps": partial(CSP, shift=[3, -1, 0, 16, 5, 2, 7, 21]),
    "fourier": partial(FourierMixer, dropout=0.2),
    "csp bare": partial(CSP, **BARE),
    "csp without biases": partial(CSP, use_output_bias=False),
    "damped_ema with dropout": partial(DampedEMA, bidirectional=True, dropout=0.2),
    "mixer_block with relu": partial(mixer_block, CSP, activation="relu"),
    "mixer_block with gelu_tanh": partial(mixer_block, CSP, activation="gelu_tanh"),
    "csp without output projection": partial(CSP, use_output_projection=False),
    "simple_attention without output projection": partial(
        SimpleAttention, 4, use_qkv_bias=False, use_output_projection=False, scale=None
    ),
    "simple_attention_block simple": partial(SimpleAttentionBlock, 2, 12, "simple"),
    "simple_attention_block simple_res around attention": partial(
        SimpleAttentionBlock, 2, 12, "simple_res", "attention", "valid", causal=True, dropout=0.2
    ),
    "mixer_block around prebuilt mixer": partial(mixer_built_before, CSP),
    "mixer_block with a skip around attention": partial(
        mixer_block, partial(SoftmaxAttention, 2), extra_skip="attention"
    ),
    "mega causal rotary": partial(
        MEGA, causal=True, attention={"position_bias": "rotary"}, norm="rmsnorm"
    ),
    "mega csp with unused weights": partial(MEGA, mixer=CSP(**BARE), drop_unused=False),
    "slice_sort descend": partial(SliceSort, "descend", use_output_projection=False),
    "slice_sort interleave": partial(SliceSort, "interleave", layer_index=0, num_layers=3),
    "csp by sinkhorn full sort": partial(SinkhornCSP, 0.1, group_size=None, inner_dim=12),
    "attention with bias": partial(SoftmaxAttention, 3, 5, use_qkv_bias=True),
    "butterfly attention with dropout": partial(butterfly_attention, dropout=0.3, stage=2),
    "butterfly attention on channels": partial(butterfly_attention, axis=-1),
}
LAYERS = {**CORE, **VARIANTS}

# Layers that ignore masks: name -> (constructor, input shape).
UNMASKED = {
    "block_dense": (partial(BlockDense, 2, 4, "gelu"), SHAPE),
    "butterfly_linear": (partial(ButterflyLinear, 2), SHAPE),
    "butterfly_mlp": (partial(ButterflyMLP, 4, 3), SHAPE),
    "butterfly_mlp on vectors": (partial(ButterflyMLP, 2, 1, "relu"), (4, 16)),
    "butterfly_linear_mlp": (partial(ButterflyLinearMLP, 2), (4, 9, 16)),
    "patch_only_mixer": (partial(PatchOnlyMixer, 3), (4, 6, 12, 4)),
    "patch_only_mixer with two sizes": (partial(PatchOnlyMixer, (3, 2)), (4, 6, 12, 4)),
    "random_order": (partial(RandomOrder, 1), SHAPE),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layer_basics(name):
    check_layer(LAYERS[name], SHAPE, numerics=name in CORE, continuous="selects" not in name)


@pytest.mark.parametrize("name", UNMASKED)
def test_layer_without_mask_basics(name):
    make, shape = UNMASKED[name]
    check_layer(make, shape, numerics=name != "random_order", masked=False)


def test_files_load_on_another_backend():
    check_other_backend({**UNMASKED, **{name: (make, SHAPE) for name, make in LAYERS.items()}})


@pytest.mark.parametrize(
    "make", [CSP, partial(SimpleAttention, 2), SliceSort, partial(SoftmaxAttention, 2)]
)
def test_dropout_acts_in_training_only(make):
    layer = make(dropout=0.5)
    inputs = np.random.default_rng(0).normal(size=SHAPE).astype("float32")
    outputs = to_numpy(layer(inputs))
    np.testing.assert_array_equal(to_numpy(layer(inputs, training=False)), outputs)
    zeros = np.mean(to_numpy(layer(inputs, training=True)) == 0)
    assert 0.4 < zeros < 0.6


@pytest.mark.parametrize(
    ("make", "count"),
    [
        (partial(CausalCSP, delays=5), 1),
        (DampedEMA, 1),
        (FourierMixer, 1),
        (partial(SoftmaxAttention, 2), 2),
        (partial(MEGA, attention={"dropout": 0.5, "max_sequence_length": 16}, hidden_dropout=0.5,
                 causal=True), 6),
    ],
)  # fmt: skip
def test_each_dropout_acts(make, count):
    layer = make(dropout=0.5)
    inputs = np.random.default_rng(0).normal(size=SHAPE).astype("float32")
    outputs = to_numpy(layer(inputs))
    parts = [part for part in layer._flatten_layers() if isinstance(part, keras.layers.Dropout)]
    assert len(parts) == count
    for active in parts:
        for part in parts:
            part.rate = 0.5 * (part is active)
        assert (to_numpy(layer(inputs, training=True)) != outputs).any(), active.path
        np.testing.assert_array_equal(to_numpy(layer(inputs, training=False)), outputs)


# Methods of Keras that layers and models are meant to override.
OVERRIDDEN = {
    "build", "call", "compute_mask", "compute_output_shape", "evaluate", "export", "fit",
    "from_config", "get_config", "load_own_variables", "predict", "predict_on_batch",
    "save_own_variables", "test_on_batch", "train_on_batch",
}  # fmt: skip


def test_classes_do_not_shadow_keras_or_torch_attributes():
    """On PyTorch, layers are `torch.nn.Module`s and need its attributes, such as `parameters`."""
    torch = pytest.importorskip("torch")
    taken = {*dir(keras.Layer), *dir(keras.Model), *dir(torch.nn.Module)} - OVERRIDDEN
    public = [kind for package in (layers, zoo) for kind in vars(package).values()]
    classes = {
        base
        for kind in public
        if isinstance(kind, type) and issubclass(kind, keras.Layer)
        for base in kind.__mro__
        if base.__module__.startswith("keras_permix")
    }
    hidden = {
        f"{kind.__name__}.{name}"
        for kind in classes
        for name in {*vars(kind), *getattr(kind, "__annotations__", ())}
        if name in taken and not name.startswith("_")
    }
    assert len(classes) > 40 and not hidden


@pytest.mark.parametrize("name", TINY)
def test_instances_do_not_shadow_torch_attributes(name):
    torch = pytest.importorskip("torch")
    for layer in tiny(name)._flatten_layers():
        if type(layer).__module__.startswith("keras_permix"):
            own = {name for name in vars(layer) if not name.startswith("_")}
            assert not own & (set(dir(torch.nn.Module)) - {"training"}), layer
