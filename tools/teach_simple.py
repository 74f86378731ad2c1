"""Make the preset that `simpletron/sst2` starts from: SimpleAttention that does what softmax did.

    python tools/teach_simple.py [PRESET] [--out runs/simpletron/sst2_taught] [--epochs 4]

PRESET is a SimpleTRON with softmax attention, `simpletron/sst2_softmax` or a folder, whose weights
SimpleAttention takes over. Where these began as a BERT's, their products of queries and keys are
large, and without a softmax drown everything else: queries are made smaller. Then the states that
the blocks of PRESET give for the training texts of SST-2 are learned, without their labels. Printed
is the error of the states of each block, as a share of their variance.
"""

import argparse
from pathlib import Path

import keras
import numpy as np

from keras_permix.data import load_texts
from keras_permix.zoo import SimpleTRON, preset_info

QUERIES = 0.01  # of the size that they had
TOKENS = 1024  # of a batch
LENGTHS = 16  # texts are padded to a multiple of this
LEARNING_RATE = 3e-4


class Lessons(keras.utils.PyDataset):
    """Batches of texts of a like length, the teacher's states for them, and which tokens count."""

    def __init__(self, inputs, states, seed=0, **kwargs):
        super().__init__(**kwargs)
        self.inputs, self.states = inputs, states
        self.rng = np.random.default_rng(seed)
        lengths = -(-inputs["mask"].sum(1) // LENGTHS) * LENGTHS
        parts = [np.flatnonzero(lengths == length) for length in np.unique(lengths)]
        sizes = [max(TOKENS // lengths[part[0]], 1) for part in parts]
        self.batches = [
            (part[start : start + size], lengths[part[0]])
            for part, size in zip(parts, sizes, strict=True)
            for start in range(0, len(part), size)
        ]
        self.on_epoch_end()

    def __len__(self):
        return len(self.batches)

    def __getitem__(self, index):
        samples, length = self.batches[index]
        inputs = {name: array[samples, :length] for name, array in self.inputs.items()}
        states = keras.tree.flatten(self.states.predict_on_batch(inputs))
        return inputs, states, [inputs["mask"]] * len(states)

    def on_epoch_end(self):
        self.rng.shuffle(self.batches)


def states_of(model):
    """A model of the states after each block, which shares its layers."""
    blocks = [layer for layer in model.layers if layer.name.startswith("block_")]
    return keras.Model(model.inputs, [block.output for block in blocks])


def begun(teacher):
    """The teacher with SimpleAttention, small queries, and no dropout."""
    model = teacher.with_attention("simple", variant="simple_l")
    student = SimpleTRON.from_config({**model.get_config(), "dropout": 0.0})
    student.set_weights(model.get_weights())
    for weight in student.weights:
        if "/qkv/" in weight.path:
            values = weight.numpy()
            values[..., : values.shape[-1] // 3] *= QUERIES
            weight.assign(values)
    return student


def errors_of(learner, lessons, batches=32):
    """Of the states of each block at the real tokens of the first batches, by their variance."""
    pairs = []
    for index in range(min(batches, len(lessons))):
        inputs, states, (real, *_) = lessons[index]
        learned = keras.tree.flatten(learner.predict_on_batch(inputs))
        pairs.append([(its[real], mine[real]) for its, mine in zip(states, learned, strict=True)])
    for block in zip(*pairs, strict=True):
        its, mine = (np.concatenate(part) for part in zip(*block, strict=True))
        yield float(((its - mine) ** 2).mean() / its.var(0).mean())


def taught(teacher, texts, epochs):
    """A model with SimpleAttention, and its errors, one per block."""
    lessons = Lessons(teacher.encode(texts), states_of(teacher))
    _, first, (real, *_) = lessons[0]
    variances = [state[real].var(0).mean() for state in first]
    steps = epochs * len(lessons)
    rate = keras.optimizers.schedules.CosineDecay(
        0.0, steps, alpha=0.01, warmup_target=LEARNING_RATE, warmup_steps=min(50, steps // 4)
    )
    student = begun(teacher)
    learner = states_of(student)
    learner.compile(
        keras.optimizers.AdamW(rate, weight_decay=0.01, global_clipnorm=1.0),
        [keras.losses.MeanSquaredError(reduction="mean_with_sample_weight") for _ in variances],
        loss_weights=[float(1 / variance) for variance in variances],
    )
    learner.fit(lessons, epochs=epochs, verbose=2)
    model = teacher.with_attention("simple", variant="simple_l")
    model.set_weights(student.get_weights())
    return model, list(errors_of(learner, lessons))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("preset", nargs="?", default="simpletron/sst2_softmax")
    parser.add_argument("--out", type=Path, default=Path("runs/simpletron/sst2_taught"))
    parser.add_argument("--epochs", type=int, default=4)
    arguments = parser.parse_args()
    keras.utils.set_random_seed(0)
    teacher = SimpleTRON.from_preset(arguments.preset)
    texts = load_texts("sst2", teacher.get_config()["max_length"]).train[0].texts
    model, errors = taught(teacher, texts, arguments.epochs)
    model.save_to_preset(arguments.out, license=preset_info(arguments.preset).metadata["license"])
    print(f"{arguments.out}: errors {' '.join(f'{error:.3f}' for error in errors)}")


if __name__ == "__main__":
    main()
