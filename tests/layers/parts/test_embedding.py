"""Test the Embedding wrapper: repeated tokens in training, dtypes, LoRA and quantization."""

import keras
import numpy as np
import pytest

from keras_permix.layers.parts.wrappers import Embedding
from keras_permix.ops.backend import running
from tests.harness import assert_close, to_numpy
from tests.zoo.models import TINY, tiny

TOKENS = np.array([[0, 3, 3, 1], [3, 0, 2, 3], [1, 1, 1, 1]])
RATE, BETA_1, BETA_2, EPSILON = 0.1, 0.9, 0.999, 1e-7


def adam(table, targets, steps):
    """Return the table after `steps` steps of Adam on the mean squared error."""
    first = second = np.zeros_like(table)
    for step in range(1, steps + 1):
        errors = 2 * (table[TOKENS] - targets) / targets.size
        gradient = np.zeros_like(table)
        np.add.at(gradient, TOKENS, errors)
        first = BETA_1 * first + (1 - BETA_1) * gradient
        second = BETA_2 * second + (1 - BETA_2) * gradient**2
        rate = RATE * np.sqrt(1 - BETA_2**step) / (1 - BETA_1**step)
        table = table - rate * first / (np.sqrt(second) + EPSILON)
    return table


def test_adam_sums_gradients_of_repeated_tokens():
    targets = np.random.default_rng(0).normal(size=(*TOKENS.shape, 2))
    layer = Embedding(5, 2)
    model = keras.Sequential([keras.Input(TOKENS.shape[1:], dtype="int32"), layer])
    table = to_numpy(layer.embeddings).astype("float64")
    optimizer = keras.optimizers.Adam(RATE, BETA_1, BETA_2, EPSILON)
    model.compile(optimizer, keras.losses.MeanSquaredError())
    model.fit(TOKENS, targets, epochs=3, batch_size=len(TOKENS), verbose=0)
    assert_close(to_numpy(layer.embeddings), adam(table, targets, 3))


@pytest.mark.parametrize("ids", ["int32", "int64", "uint8", "float32"])
def test_tokens_of_any_dtype(ids):
    layer = Embedding(5, 2, dtype="mixed_bfloat16")
    found = layer(keras.ops.convert_to_tensor(TOKENS.astype(ids)))
    assert found.dtype == layer(TOKENS).dtype and "bfloat16" in str(found.dtype)
    wanted = to_numpy(keras.ops.cast(layer.embeddings, "bfloat16"))[TOKENS]
    np.testing.assert_array_equal(to_numpy(found), wanted)


def test_lora_and_quantization():
    layer = Embedding(5, 16)
    layer.build()
    before = to_numpy(layer(TOKENS))
    layer.enable_lora(2)
    layer.lora_embeddings_b.assign(np.ones((2, 16), "float32"))
    added = to_numpy(layer.lora_embeddings_a) @ np.ones((2, 16), "float32")
    assert_close(to_numpy(layer(TOKENS)), before + added[TOKENS])
    layer.quantize("int8")
    assert keras.backend.standardize_dtype(layer._embeddings.dtype) == "int8"
    assert np.abs(to_numpy(layer(TOKENS)) - before - added[TOKENS]).max() < 0.01


@pytest.mark.skipif(running.name() != "tensorflow", reason="only TensorFlow has sparse gradients")
@pytest.mark.parametrize("name", TINY)
def test_zoo_gradients_are_dense(name):
    import tensorflow as tf

    model = tiny(name)
    with tf.GradientTape() as tape:
        total = sum(tf.reduce_sum(x) for x in keras.tree.flatten(model(model.make_inputs(0, 2))))
    weights = model.trainable_weights
    gradients = tape.gradient(total, [weight.value for weight in weights])
    sparse = [isinstance(gradient, tf.IndexedSlices) for gradient in gradients]
    assert [w.path for w, rows in zip(weights, sparse, strict=True) if rows] == []
