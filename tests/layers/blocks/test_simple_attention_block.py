"""Test MixerBlock and SimpleAttentionBlock against golden values and NumPy."""

from math import erf

import numpy as np
import pytest

from keras_permix.layers import CSP, MixerBlock, SimpleAttentionBlock
from tests.harness import assert_close, load_golden, to_numpy
from tests.layers.attention.test_simple_attention import golden_weights

GOLDEN = load_golden("simpletron")
X = GOLDEN["x"]


def make(**arguments):
    """Return a block of two heads with the golden weights."""
    block = fill(SimpleAttentionBlock(2, GOLDEN["fc1_bias"].size, **arguments))
    block.mixer.set_weights(golden_weights(block.mixer.use_output_projection))
    return block


def fill(block):
    """Build a block and load the golden weights of all parts except the mixer."""
    block.build(X.shape)
    parts = {"mixer_norm": "ln1", "mlp_in": "fc1", "mlp_out": "fc2", "mlp_norm": "ln2"}
    for part, name in parts.items():
        kinds = ("gamma", "beta") if "norm" in part else ("kernel", "bias")
        getattr(block, part).set_weights([GOLDEN[f"{name}_{kind}"] for kind in kinds])
    return block


def norm(x, name):
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-12)
    return x * GOLDEN[f"{name}_gamma"] + GOLDEN[f"{name}_beta"]


def block_of_numpy(attended, extra_skip):
    """Return the output of the block in float64, given that of its attention."""
    mixed = norm(X + attended + X * (extra_skip == "attention"), "ln1")
    hidden = mixed @ GOLDEN["fc1_kernel"] + GOLDEN["fc1_bias"]
    hidden = hidden * (1 + np.vectorize(erf)(hidden / np.sqrt(2))) / 2
    out = norm(mixed + hidden @ GOLDEN["fc2_kernel"] + GOLDEN["fc2_bias"], "ln2")
    return out + X * (extra_skip == "block")


def test_simple_block_matches_golden_values():
    block = make(variant="simple")
    assert_close(to_numpy(block(X.astype("float32"))), GOLDEN["block_simple"])
    assert_close(block_of_numpy(GOLDEN["attention_2heads_noproj"], None), GOLDEN["block_simple"])


@pytest.mark.parametrize("extra_skip", ["block", "attention"])
@pytest.mark.parametrize(
    ("variant", "attended", "skips"),
    [
        ("simple", "attention_2heads_noproj", False),
        ("simple_res", "attention_2heads_noproj", True),
        ("simple_resl", "attention_2heads_proj", True),
        ("simple_l", "attention_2heads_proj", False),
    ],
)
def test_variant_matches_numpy(variant, attended, skips, extra_skip):
    block = make(variant=variant, extra_skip=extra_skip)
    expected = block_of_numpy(GOLDEN[attended], extra_skip if skips else None)
    assert_close(to_numpy(block(X.astype("float32"))), expected)


@pytest.mark.parametrize("extra_skip", ["block", "attention"])
@pytest.mark.parametrize("variant", ["simple", "simple_res", "simple_resl", "simple_l"])
def test_config_keeps_given_arguments(variant, extra_skip):
    given = dict(num_heads=2, mlp_dim=12, variant=variant, extra_skip=extra_skip, causal=True)
    given |= dict(scale="valid", dropout=0.2, epsilon=1e-6, hidden_dropout=0.3, activation="relu")
    config = SimpleAttentionBlock(**given).get_config()
    assert given.items() <= config.items()
    assert SimpleAttentionBlock.from_config(config).get_config() == config


@pytest.mark.parametrize("extra_skip", [None, "block", "attention"])
def test_extra_skip_of_pre_norm_block(extra_skip):
    """The mixer is the identity, and the MLP outputs zeros."""
    identity = CSP(1, shift=[0] * 8, use_output_projection=False)
    block = fill(MixerBlock(identity, 12, extra_skip=extra_skip, epsilon=1e-12))
    identity.set_weights([np.eye(8)])
    block.mlp_out.set_weights([np.zeros((12, 8)), np.zeros(8)])
    wanted = X + norm(X, "ln1") + X * (extra_skip is not None)
    assert_close(to_numpy(block(X.astype("float32"))), wanted)


@pytest.mark.parametrize("rate", ["dropout", "hidden_dropout", "mixer_dropout"])
def test_each_dropout_acts_in_training_only(rate):
    """Test one dropout at a time; the other part outputs zeros."""
    block = fill(MixerBlock(CSP(5), GOLDEN["fc1_bias"].size, **{rate: 0.5}))
    silent = block.mlp_out if rate == "mixer_dropout" else block.mixer.output_dense
    silent.set_weights([0 * weight for weight in silent.get_weights()])
    inputs = X.astype("float32")
    outputs = to_numpy(block(inputs))
    np.testing.assert_array_equal(to_numpy(block(inputs, training=False)), outputs)
    assert not np.allclose(to_numpy(block(inputs, training=True)), outputs)


def test_block_accepts_any_mixer():
    identity = CSP(1, shift=[0] * 8, use_output_projection=False)
    block = fill(MixerBlock(identity, GOLDEN["fc1_bias"].size, norm_first=False, epsilon=1e-12))
    identity.set_weights([np.eye(8)])
    assert_close(to_numpy(block(X.astype("float32"))), block_of_numpy(X, None))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(variant="complex"), "`variant` must be one of.*'simple_resl'.*'complex'"),
        (dict(extra_skip="twice"), "`extra_skip` must be one of.*'twice'"),
        (dict(extra_skip=None), "`extra_skip` must be one of.*None"),
        (dict(variant="simple", extra_skip="twice"), "`extra_skip` must be one of.*'twice'"),
        (dict(mlp_dim=0), "`mlp_dim` must be a positive integer.*0"),
        (dict(num_heads=3), "`num_heads` must divide the input width.*num_heads=3"),
        (dict(dropout=1), r"`dropout` must be in \[0, 1\).*1"),
    ],
)
def test_invalid_argument_raises(arguments, message):
    arguments = {"num_heads": 2, "mlp_dim": 12, **arguments}
    with pytest.raises(ValueError, match=f"(?s){message}"):
        SimpleAttentionBlock(**arguments)(X)
