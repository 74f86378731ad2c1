"""Train a small language model of bytes, then generate text with a state of constant size.

    python examples/generate_text.py [--mixer linear_attention] [--data-dir FOLDER]

The model is trained on reviews of IMDB, in pieces of 256 bytes. Its mixer is causal and streams.
Each new byte therefore takes the same time and memory, however long the text is. `--smoke` trains
for a few steps on a text of two sentences.
"""

import argparse

from keras_permix.data import load_texts
from keras_permix.layers import CausalCSP, DampedEMA, LinearAttention, SimpleAttention

import keras
import numpy as np
from keras import ops

BYTES = 256
MIXERS = {
    "linear_attention": lambda: LinearAttention(num_heads=4, causal=True),
    "simple_attention": lambda: SimpleAttention(num_heads=4, causal=True, scale="valid"),
    "causal_csp": lambda: CausalCSP(delays=64),
    "damped_ema": lambda: DampedEMA(),
}


class Block(keras.layers.Layer):
    """Combine a streaming mixer and an MLP in a pre-norm block."""

    def __init__(self, mixer, width, mlp_dim):
        super().__init__()
        self.mixer_norm, self.mlp_norm = (keras.layers.LayerNormalization() for _ in range(2))
        self.mixer = mixer
        self.hidden = keras.layers.Dense(mlp_dim, "gelu")
        self.outputs = keras.layers.Dense(width)

    def call(self, x):
        return self._mix_channels(x + self.mixer(self.mixer_norm(x)))

    def chunk(self, x, state):
        mixed, state = self.mixer.chunk(self.mixer_norm(x), state)
        return self._mix_channels(x + mixed), state

    def _mix_channels(self, x):
        return x + self.outputs(self.hidden(self.mlp_norm(x)))


class ByteModel(keras.Model):
    """Predict each next byte from those before it: logits `(batch, tokens, 256)`.

    Args:
        make_mixer: Function that makes the mixer of a block.
        width: Channels per token.
        depth: Number of blocks.
    """

    def __init__(self, make_mixer, width=96, depth=2):
        super().__init__()
        self.embedding = keras.layers.Embedding(BYTES, width)
        self.blocks = [Block(make_mixer(), width, 2 * width) for _ in range(depth)]
        self.norm = keras.layers.LayerNormalization()
        self.logits = keras.layers.Dense(BYTES)

    def call(self, tokens):
        x = self._embed(tokens, 0)
        for block in self.blocks:
            x = block(x)
        return self.logits(self.norm(x))

    def initial_state(self, batch_size):
        states = [block.mixer.initial_state(batch_size) for block in self.blocks]
        return {"mixers": states, "position": ops.zeros((), "int32")}

    def chunk(self, tokens, state):
        x, states = self._embed(tokens, state["position"]), []
        for block, before in zip(self.blocks, state["mixers"], strict=True):
            x, after = block.chunk(x, before)
            states.append(after)
        position = state["position"] + tokens.shape[1]
        return self.logits(self.norm(x)), {"mixers": states, "position": position}

    def _embed(self, tokens, start):
        x = self.embedding(tokens)
        positions = ops.cast(start + ops.arange(ops.shape(tokens)[1]), x.dtype)
        rates = 1e4 ** -np.linspace(0, 1, x.shape[-1] // 2, dtype="float32")
        angles = positions[:, None] * ops.convert_to_tensor(rates)
        return x + ops.concatenate([ops.sin(angles), ops.cos(angles)], axis=-1)


def generate(model, logits, state, length, seed=0):
    """Sample bytes one after the other.

    Args:
        model: A built `ByteModel`.
        logits: Logits of the first byte, `(batch, 256)`.
        state: State before the first byte.
        length: Number of bytes.
        seed: Seed of the samples.

    Returns:
        Integers `(batch, length)`.
    """
    uniform = keras.random.uniform((length, *logits.shape), 1e-6, 1 - 1e-6, seed=seed)
    noise = -ops.log(-ops.log(uniform))  # Gumbel noise: the argmax of the sum is a sample

    def step(index, text, logits, state):
        token = ops.cast(ops.argmax(logits + noise[index], axis=-1), "int32")
        text = ops.slice_update(text, (index, 0), token[None])
        logits, state = model.chunk(token[:, None], state)
        return index + 1, text, logits[:, 0], state

    text = ops.zeros((length, logits.shape[0]), "int32")
    start = (ops.zeros((), "int32"), text, logits, state)
    _, text, *_ = ops.while_loop(lambda index, *_: index < length, step, start)
    return ops.transpose(text)


def pieces(texts, length):
    """Join the bytes of texts and split them into pieces `(count, length + 1)`."""
    joined = np.frombuffer("\n".join(texts).encode(), "uint8").astype("int32")
    return joined[: len(joined) // (length + 1) * (length + 1)].reshape(-1, length + 1)


def train(model, data, steps, batch_size=16):
    """Train for a number of steps on random pieces."""
    chosen = np.random.default_rng(0).integers(0, len(data), steps * batch_size)
    model.compile(
        optimizer=keras.optimizers.AdamW(keras.optimizers.schedules.CosineDecay(3e-3, steps)),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    model.fit(data[chosen, :-1], data[chosen, 1:], batch_size=batch_size, shuffle=False, verbose=2)


def bits_per_byte(model, data):
    """Return the mean cross-entropy in bits per byte."""
    return model.evaluate(data[:, :-1], data[:, 1:], batch_size=16, verbose=0) / np.log(2)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mixer", default="linear_attention", choices=MIXERS)
    parser.add_argument("--data-dir", help="folder of IMDB; else KERAS_PERMIX_DATA")
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--prompt", default="This movie")
    parser.add_argument("--length", type=int, default=300, help="bytes to generate")
    parser.add_argument("--smoke", action="store_true", help="a few steps on a short text")
    arguments = parser.parse_args()

    keras.utils.set_random_seed(0)
    if arguments.smoke:
        known = asked = pieces(["A short text. And the next one."] * 100, 32)
        arguments.steps, arguments.length = min(arguments.steps, 30), 40
    else:
        data = load_texts("imdb", 256, data_dir=arguments.data_dir)
        known, asked = (pieces(part[0].texts[::10], 256) for part in (data.train, data.test))
    model = ByteModel(MIXERS[arguments.mixer])
    train(model, known, arguments.steps)
    print(f"{arguments.mixer}: {bits_per_byte(model, asked[:200]):.2f} bits per byte")

    prompt = np.frombuffer(arguments.prompt.encode(), "uint8").astype("int32")
    logits, state = model.chunk(prompt[None], model.initial_state(batch_size=1))
    size = sum(np.prod(x.shape) * 4 for x in keras.tree.flatten(state))
    print(f"state: {size / 1024:.0f} kB, independent of the length of the text")
    text = ops.convert_to_numpy(generate(model, logits[:, -1], state, arguments.length))[0]
    print(f"\n{arguments.prompt}{bytes(text.astype('uint8')).decode(errors='replace')}")


if __name__ == "__main__":
    main()
