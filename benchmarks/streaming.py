"""Compare causal mixers that stream with attention: quality, speed and state of a byte model.

    KERAS_BACKEND=jax python -m benchmarks.streaming --out FILE.csv [--data-dir FOLDER]

Each mixer is trained on IMDB with the same recipe, and scored in bits per byte. Then it generates
64 bytes after contexts of several lengths. Attention generates with a cache of keys and values
("attention"), and with a whole forward pass per byte ("attention, recomputed"), as
`keras.layers.MultiHeadAttention` does without further code. The size of the state is measured
after the context. Times are the shortest of the rounds, which alternate between the mixers.
"""

import argparse
import csv
import datetime
import time
from functools import partial
from pathlib import Path

import jax
import keras
import numpy as np
from keras import ops

from examples.generate_text import MIXERS, ByteModel, bits_per_byte, generate, pieces, train
from keras_permix.data import load_texts
from keras_permix.utils.machine import machine

NEW = 64  # bytes to generate
LARGEST_MAP = 4096  # tokens of a whole forward pass with attention


class CachedAttention(keras.layers.Layer):
    """Keras' causal attention, streaming with a cache of the keys and values of all tokens."""

    def __init__(self, length=0):
        super().__init__()
        self.length = length
        self.attention = keras.layers.MultiHeadAttention(num_heads=4, key_dim=24)

    def build(self, shape):
        self.attention.build(shape, shape)

    def call(self, x):
        return self.attention(x, x, use_causal_mask=True)

    def initial_state(self, batch_size):
        shape = (batch_size, self.length, 4, 24)
        return {
            "keys": ops.zeros(shape),
            "values": ops.zeros(shape),
            "position": ops.zeros((), "int32"),
        }

    def chunk(self, x, state):
        attention, start = self.attention, (0, state["position"], 0, 0)
        keys = ops.slice_update(state["keys"], start, attention._key_dense(x))
        values = ops.slice_update(state["values"], start, attention._value_dense(x))
        positions = state["position"] + ops.arange(x.shape[1])
        seen = ops.arange(self.length) <= positions[:, None]
        mixed, _ = attention._compute_attention(
            attention._query_dense(x), keys, values, attention_mask=seen[None]
        )
        position = state["position"] + x.shape[1]
        state = {"keys": keys, "values": values, "position": position}
        return attention._output_dense(mixed), state


def make_generator(model, context, rng):
    """Return a compiled function that generates after a context, and its state."""
    for block in model.blocks:
        if isinstance(block.mixer, CachedAttention):
            block.mixer.length = context + NEW
    state = model.initial_state(1)
    read = jax.jit(model.chunk)
    for _ in range(0, context, 256):
        logits, state = read(ops.array(rng.integers(32, 127, (1, 256), "int32")), state)
    return jax.jit(partial(generate, model, length=NEW)), logits[:, -1], state


def seconds(function, *arguments):
    start = time.perf_counter()
    jax.block_until_ready(function(*arguments))
    return time.perf_counter() - start


def measure(models, contexts, rounds):
    """Yield (mixer, context, bytes per second, bytes of the state)."""
    for context in contexts:
        rng, calls, sizes = np.random.default_rng(0), {}, {}
        for name, model in models.items():
            function, *arguments = make_generator(model, context, rng)
            calls[name] = (NEW, partial(function, *arguments))
            sizes[name] = sum(x.nbytes for x in keras.tree.flatten(arguments[1]))
        if context <= LARGEST_MAP:
            tokens = ops.array(rng.integers(32, 127, (1, context), "int32"))
            calls["attention, recomputed"] = (1, partial(jax.jit(models["attention"]), tokens))
        best = {name: seconds(call) for name, (_, call) in calls.items()}  # which compiles
        best = dict.fromkeys(best, float("inf"))
        for _ in range(rounds):
            for name, (_, call) in calls.items():
                best[name] = min(best[name], seconds(call))
        for name, (count, _) in calls.items():
            yield name, context, count / best[name], sizes.get(name, 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="a CSV file")
    parser.add_argument("--data-dir", help="folder of IMDB; else KERAS_PERMIX_DATA")
    parser.add_argument("--steps", type=int, default=500, help="0: measure speed only")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--contexts", type=int, nargs="+", default=[1024, 4096, 16384])
    arguments = parser.parse_args()

    data = load_texts("imdb", 256, data_dir=arguments.data_dir)
    known, asked = (pieces(part[0].texts[::10], 256) for part in (data.train, data.test))
    models, scores = {}, {}
    for name, make in {"attention": CachedAttention, **MIXERS}.items():
        keras.utils.set_random_seed(0)
        models[name] = ByteModel(make)
        if arguments.steps:
            train(models[name], known, arguments.steps)
            scores[name] = round(bits_per_byte(models[name], asked[:: len(asked) // 400]), 3)
            print(f"{name}: {scores[name]} bits per byte", flush=True)
        else:
            models[name](known[:1, :-1])
    with arguments.out.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(
            "mixer context bytes_per_second state_bytes bits_per_byte steps parameters date keras "
            "backend backend_version machine".split()
        )
        for name, context, speed, size in measure(models, arguments.contexts, arguments.rounds):
            key = name.partition(",")[0]
            row = [name, context, round(speed, 1), size, scores.get(key, ""), arguments.steps]
            row += [models[key].count_params(), datetime.date.today(), keras.__version__]
            row += [keras.config.backend(), jax.__version__, machine()]
            print(*row[:5], flush=True)
            writer.writerow(row)
            file.flush()


if __name__ == "__main__":
    main()
