"""Replace `MultiHeadAttention` with `CSP` in a Keras model.

    python examples/replace_attention.py

Two models, one with attention and one with `CSP`, learn to classify waves of four frequencies. The
script prints parameters, time and accuracy of both.
"""

import time

from keras_permix.layers import CSP

import keras
import numpy as np

TOKENS, WIDTH, CLASSES = 64, 64, 4


def make_sequences(count, seed):
    """Return waves of `CLASSES` frequencies, with random phase and noise, and their labels."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, count)
    phase = rng.uniform(0, 2 * np.pi, (count, 1))
    angle = 2 * np.pi * (labels[:, None] + 2) * np.arange(TOKENS) / TOKENS
    waves = np.sin(angle + phase) + 0.5 * rng.normal(size=(count, TOKENS))
    return waves[..., None].astype("float32"), labels.astype("int32")


def attention(x):
    """Mix tokens by attention."""
    return keras.layers.MultiHeadAttention(num_heads=4, key_dim=WIDTH // 4)(x, x)


def permutation(x):
    """Mix tokens by `CSP`."""
    return CSP()(x)


def make_model(mix):
    """Make a transformer that mixes tokens by `mix`."""
    inputs = keras.Input((TOKENS, 1))
    angle = np.arange(TOKENS)[:, None] / 1000 ** (np.arange(WIDTH // 2) * 2 / WIDTH)
    positions = np.concatenate([np.sin(angle), np.cos(angle)], axis=1).astype("float32")
    x = keras.layers.Dense(WIDTH)(inputs) + positions
    for _ in range(2):
        x = x + mix(keras.layers.LayerNormalization()(x))
        hidden = keras.layers.Dense(2 * WIDTH, "gelu")(keras.layers.LayerNormalization()(x))
        x = x + keras.layers.Dense(WIDTH)(hidden)
    x = keras.layers.GlobalAveragePooling1D()(x)
    return keras.Model(inputs, keras.layers.Dense(CLASSES)(x))


def main():
    train, test = make_sequences(2048, seed=0), make_sequences(1024, seed=1)
    print(f"Keras {keras.__version__} on {keras.config.backend()}")
    for mix in (attention, permutation):
        keras.utils.set_random_seed(0)
        model = make_model(mix)
        model.compile(
            optimizer=keras.optimizers.AdamW(2e-3),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
        )
        model.fit(*train, batch_size=64, epochs=1, verbose=0)
        start = time.perf_counter()
        model.fit(*train, batch_size=64, epochs=2, verbose=0)
        seconds = time.perf_counter() - start
        accuracy = model.evaluate(*test, verbose=0, return_dict=True)["accuracy"]
        print(
            f"{mix.__name__:>12}: {model.count_params():,} parameters, "
            f"{seconds / 2:.1f} s per epoch, {100 * accuracy:.1f} % top-1"
        )


if __name__ == "__main__":
    main()
