"""Test every public layer on inputs without samples or without tokens."""

from functools import partial

import numpy as np
import pytest

from keras_permix import layers
from keras_permix.layers import (
    GraphEmbedding,
    GraphormerBias,
    GraphormerBlock,
    ImagePreprocessor,
    MLPMixerBlock,
    PatchEmbedding,
    PositionEmbedding,
    TokenEmbedding,
)
from keras_permix.ops.backend import running
from tests.harness import check_empty, exported
from tests.layers.test_layers import LAYERS, SHAPE, UNMASKED


def graphs(count, nodes):
    """Return an all-zero batch for `GraphEmbedding` and `GraphormerBias`."""
    pairs = (count, nodes, nodes)
    shapes = {"x": (count, nodes, 3), "in_degree": (count, nodes), "out_degree": (count, nodes)}
    shapes |= {"attn_bias": (count, nodes + 1, nodes + 1), "spatial_pos": pairs}
    shapes |= {"attn_edge_type": (*pairs, 2), "edge_input": (*pairs, 5, 2)}
    return {
        name: np.zeros(shape, "float32" if name == "attn_bias" else "int32")
        for name, shape in shapes.items()
    }


def like_inputs(make, shape, refused=False):
    """Return a case of `EMPTY` for a layer that keeps the shape of its inputs."""
    empty = (shape[0], 0, *shape[2:])
    no_tokens = (np.zeros(empty, "float32"),)
    return make, (np.zeros(shape, "float32"),), shape, no_tokens, None if refused else empty


def to_tokens(make, inputs, first=0):
    """Return a case of `EMPTY` for a layer that outputs tokens of 8 channels.

    The layer prepends `first` tokens.
    """
    batch, count = inputs.shape[:2]
    outputs = (batch, count + first, 8)
    return make, (inputs,), outputs, (inputs[:, :0],), (batch, first, 8)


IMAGES = np.zeros((2, 6, 12, 3), "float32")
IDS = np.zeros((2, 5), "int32")
TOKENS = np.zeros((2, 5, 8), "float32")
BIAS = np.zeros((2, 2, 5, 5), "float32")
# Layers that require at least one full block of tokens.
WHOLE_BLOCKS = (
    "butterfly_attention", "butterfly attention", "butterfly attention with dropout",
    "butterfly csp",
)  # fmt: skip
# name -> (layer, inputs, output shape, inputs without tokens, their output shape)
# The last one is `None` for layers that raise an error without tokens.
EMPTY = {
    **{name: like_inputs(make, SHAPE, name in WHOLE_BLOCKS) for name, make in LAYERS.items()},
    # Vectors have no tokens.
    **{
        name: like_inputs(*case, name in WHOLE_BLOCKS)
        for name, case in UNMASKED.items()
        if len(case[1]) > 2
    },
    "mlp_mixer_block": like_inputs(MLPMixerBlock, SHAPE, True),
    "mlp_mixer_block butterfly": like_inputs(
        partial(MLPMixerBlock, "butterfly", 2), (4, 16, 9), True
    ),
    "images": (
        partial(ImagePreprocessor, 4, mean=[0.5] * 3, std=[0.5] * 3),
        (IMAGES,),
        (2, 4, 4, 3),
        (IMAGES[:, :0],),
        None,
    ),
    "patches": (partial(PatchEmbedding, 3, 8), (IMAGES,), (2, 8, 8), (IMAGES[:, :0],), (2, 0, 8)),
    "positions": to_tokens(PositionEmbedding, TOKENS),
    "positions and a class token": to_tokens(
        partial(PositionEmbedding, True, max_tokens=7), TOKENS, 1
    ),
    "ids": to_tokens(partial(TokenEmbedding, 9, 8, 10), IDS),
    "ids with a class token": to_tokens(partial(TokenEmbedding, 9, 8, 10, "learned", True), IDS, 1),
    "graph_embedding": (
        partial(GraphEmbedding, 8),
        (graphs(2, 4),),
        (2, 5, 8),
        (graphs(2, 0),),
        (2, 1, 8),
    ),
    **{
        f"graphormer_bias {edges}": (
            partial(GraphormerBias, 2, edges),
            (graphs(2, 4),),
            (2, 2, 5, 5),
            (graphs(2, 0),),
            (2, 2, 1, 1),
        )
        for edges in ("multi_hop", "single")
    },
    **{
        f"graphormer_block {mixer}": (
            partial(GraphormerBlock, 2, mixer=mixer),
            (TOKENS, BIAS),
            (2, 5, 8),
            (TOKENS[:, :0], BIAS[:, :, :0, :0]),
            (2, 0, 8),
        )
        for mixer in ("attention", "slice_sort")
    },
}


@pytest.mark.parametrize("name", EMPTY)
def test_empty_inputs(name):
    if name == "images" and running.name() == "torch" and running.module("runtime").chip():
        pytest.skip("PyTorch cannot resize empty batches on CUDA")
    make, *case = EMPTY[name]
    check_empty(make(), *case)


@pytest.mark.once
def test_every_layer_is_covered():
    found = {type(make()).__name__ for make, *_ in EMPTY.values()}
    assert sorted(found) == exported(layers)
