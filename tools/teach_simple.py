"""Make the preset that `simpletron/sst2` starts from: SimpleAttention that does what softmax did.

    python tools/teach_simple.py [PRESET] [--out runs/simpletron/sst2_taught] [--epochs 8 3]

PRESET is a SimpleTRON with softmax attention, `simpletron/sst2_softmax` or a folder, whose weights
SimpleAttention takes over. Where these began as a BERT's, their products of queries and keys are
large, and without a softmax drown everything else: queries are made smaller. Then the states that
the blocks of PRESET give are learned, without labels: for 8 epochs those for the training texts of
SST-2. Most of these are phrases of a few words, and what is learned is wrong for whole sentences.
So for 3 epochs sentences of IMDB's training reviews come along, written about as SST-2 writes, and
with the states the logits. Printed is the error of the states of each block for the texts that
SST-2 is tested on, as a share of their variance. It computes in bfloat16.
"""

import argparse
import re
from pathlib import Path

import keras
import numpy as np

from keras_permix.data import load_texts
from keras_permix.zoo import SimpleTRON, preset_info

QUERIES = 0.01  # of the size that they had
TOKENS = 1024  # of a batch
LENGTHS = 16  # texts are padded to a multiple of this
SENTENCES = 40_000  # of reviews, each of so many words
WORDS = range(8, 46)
RATES = (3e-4, 2e-4)  # learning rates of the phrases, and with sentences
PRECISION = "mixed_bfloat16"
WORD = re.compile(r"n't|'\w+|\w+?(?=n't)|\w+(?:-\w+)*|\.\.\.|--|[^\w\s]")  # about as in SST-2


class Lessons(keras.utils.PyDataset):
    """Batches of texts of a like length, what `states` gives for them, and which tokens count."""

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
        given = keras.tree.flatten(self.states.predict_on_batch(inputs))
        states = tuple(np.asarray(each, "float32") for each in given)
        whole = np.ones(len(samples), bool)  # logits are of a text, not of its tokens
        return inputs, states, tuple(inputs["mask"] if x.ndim == 3 else whole for x in states)

    def on_epoch_end(self):
        self.rng.shuffle(self.batches)


def sentences_of(reviews):
    """The sentences of reviews about as SST-2 writes: small letters, a blank between tokens."""
    for review in reviews:
        for sentence in re.split(r"(?<=[.!?])\s+|<br />", review):
            words = WORD.findall(sentence.lower())
            if len(words) in WORDS:
                yield " ".join(words)


def states_of(model, logits=False):
    """A model of the states after each block, and if wanted its logits, which shares its layers."""
    blocks = [layer.output for layer in model.layers if layer.name.startswith("block_")]
    return keras.Model(model.inputs, [*blocks, model.output] if logits else blocks)


def with_changes(model, **changes):
    """A model of the same weights."""
    changed = SimpleTRON.from_config({**model.get_config(), **changes})
    changed.set_weights(model.get_weights())
    return changed


def begun(teacher):
    """The teacher with SimpleAttention and small queries."""
    student = teacher.with_variant("simple_l")
    for weight in student.weights:
        if "/qkv/" in weight.path:
            values = weight.numpy()
            values[..., : values.shape[-1] // 3] *= QUERIES
            weight.assign(values)
    return student


def errors_of(student, teacher, texts):
    """Of the states of each block at the real tokens of texts, by their variance."""
    lessons, learner = Lessons(teacher.encode(texts), states_of(teacher)), states_of(student)
    pairs = []
    for index in range(len(lessons)):
        inputs, states, (real, *_) = lessons[index]
        learned = keras.tree.flatten(learner.predict_on_batch(inputs))
        pairs.append([(its[real], mine[real]) for its, mine in zip(states, learned, strict=True)])
    for block in zip(*pairs, strict=True):
        its, mine = (np.concatenate(part) for part in zip(*block, strict=True))
        yield float(((its - mine) ** 2).mean() / its.var(0).mean())


def teach(student, teacher, texts, epochs, learning_rate, logits=False):
    """Have a model learn, without dropout, the states that another gives for texts."""
    own = dict(dtype=PRECISION, dropout=0.0)
    lessons = Lessons(teacher.encode(texts), states_of(with_changes(teacher, **own), logits))
    _, first, counted = lessons[0]
    variances = [state[real].var(0).mean() for state, real in zip(first, counted, strict=True)]
    steps = epochs * len(lessons)
    rate = keras.optimizers.schedules.CosineDecay(
        0.0, steps, alpha=0.01, warmup_target=learning_rate, warmup_steps=min(50, steps // 4)
    )
    pupil = with_changes(student, **own)
    learner = states_of(pupil, logits)
    learner.compile(
        keras.optimizers.AdamW(rate, weight_decay=0.01, global_clipnorm=1.0),
        [keras.losses.MeanSquaredError(reduction="mean_with_sample_weight") for _ in variances],
        loss_weights=[float(1 / variance) for variance in variances],
    )
    learner.fit(lessons, epochs=epochs, verbose=2)
    student.set_weights(pupil.get_weights())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("preset", nargs="?", default="simpletron/sst2_softmax")
    parser.add_argument("--out", type=Path, default=Path("runs/simpletron/sst2_taught"))
    parser.add_argument("--epochs", type=int, nargs=2, default=(8, 3))
    arguments = parser.parse_args()
    keras.utils.set_random_seed(0)
    teacher = SimpleTRON.from_preset(arguments.preset)
    student = begun(teacher)
    length = teacher.get_config()["max_sequence_length"]
    sst2, imdb = (load_texts(name, length) for name in ("sst2", "imdb"))
    phrases, sentences = sst2.train[0].texts, list(sentences_of(imdb.train[0].texts))
    some = [sentences[number * len(sentences) // SENTENCES] for number in range(SENTENCES)]
    teach(student, teacher, phrases, arguments.epochs[0], RATES[0])
    teach(student, teacher, [*phrases, *some], arguments.epochs[1], RATES[1], logits=True)
    student.save_to_preset(arguments.out, license=preset_info(arguments.preset).metadata["license"])
    errors = errors_of(student, teacher, sst2.test[0].texts)
    print(f"{arguments.out}: errors {' '.join(f'{error:.3f}' for error in errors)}")


if __name__ == "__main__":
    main()
