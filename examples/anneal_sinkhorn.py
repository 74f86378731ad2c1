"""Train with a soft permutation whose temperature falls, then use the hard one.

    python examples/anneal_sinkhorn.py

`SinkhornCSP` lets gradients flow through the order of the tokens. At a low temperature, `CSP` with
the same weights gives the same result without matrices. Two models learn to classify waves, one of
them with annealing. For each, the script prints the accuracy of the model, and of `CSP` with the
model's weights.
"""

from keras_permix.layers import CSP, SinkhornCSP

import keras
import numpy as np

TOKENS, WIDTH, GROUP, CLASSES, EPOCHS = 32, 16, 8, 4, 5
WARM, COLD = 10.0, 1e-3


def make_waves(count, seed):
    """Return waves of `CLASSES` frequencies, with random phase and noise, and their labels."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, count)
    phase = rng.uniform(0, 2 * np.pi, (count, 1))
    angle = 2 * np.pi * (labels[:, None] + 1) * np.arange(TOKENS) / TOKENS
    waves = np.sin(angle + phase) + 0.8 * rng.normal(size=(count, TOKENS))
    return waves[..., None].astype("float32"), labels.astype("int32")


def make_model(make_mixer):
    """Make a small transformer with two mixers."""
    inputs = keras.Input((TOKENS, 1))
    x = keras.layers.Conv1D(WIDTH, 3, padding="same")(inputs)
    for _ in range(2):
        x = x + make_mixer()(keras.layers.LayerNormalization()(x))
        hidden = keras.layers.Dense(2 * WIDTH, "gelu")(keras.layers.LayerNormalization()(x))
        x = x + keras.layers.Dense(WIDTH)(hidden)
    x = keras.layers.GlobalAveragePooling1D()(x)
    model = keras.Model(inputs, keras.layers.Dense(CLASSES)(x))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.AdamW(3e-3), loss, metrics=["accuracy"])
    return model


def temperature(epoch):
    """Return the temperature: from `WARM` to `COLD`, by a constant factor per epoch."""
    return WARM * (COLD / WARM) ** (epoch / (EPOCHS - 1))


def anneal(model):
    """Return a callback that lowers the temperature of every `SinkhornCSP` of the model."""
    mixers = [layer for layer in model.layers if isinstance(layer, SinkhornCSP)]

    def cool(epoch, logs=None):
        for mixer in mixers:
            mixer.temperature.assign(temperature(epoch))

    return keras.callbacks.LambdaCallback(on_epoch_begin=cool)


def score(model, waves):
    """Return the accuracy in percent."""
    return 100 * model.evaluate(*waves, verbose=0, return_dict=True)["accuracy"]


def main():
    train, test = make_waves(512, seed=0), make_waves(256, seed=1)
    print(f"Keras {keras.__version__} on {keras.config.backend()}")
    for name in ("warm", "annealed"):
        keras.utils.set_random_seed(0)
        soft = make_model(lambda: SinkhornCSP(WARM, iterations=5, group_size=GROUP))
        callbacks = [anneal(soft)] if name == "annealed" else []
        soft.fit(*train, batch_size=32, epochs=EPOCHS, callbacks=callbacks, verbose=0)
        hard = make_model(lambda: CSP(GROUP, align="reference"))
        for ours, theirs in zip(hard.trainable_weights, soft.trainable_weights, strict=True):
            ours.assign(theirs.numpy())  # a copy, since JAX donates the memory of weights
        scores = [score(model, test) for model in (soft, hard)]
        print(f"{name:>9}: {scores[0]:.1f} % soft, {scores[1]:.1f} % with CSP in its place")


if __name__ == "__main__":
    main()
