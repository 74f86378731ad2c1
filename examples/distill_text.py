"""Convert a text model to simple attention: swap its attention, then distill the original.

    python tools/make_minilm.py
    permix train simpletron/sst2_softmax
    python examples/distill_text.py [--epochs 8 3] [--out runs/simpletron/sst2_taught]

The first two commands train a SimpleTRON with the softmax attention of a BERT on SST-2. The copy
learns the hidden states and logits of this model without labels. It starts with the training texts,
which are mostly phrases of a few words. Sentences of IMDB's training reviews follow. Training is in
bfloat16. Accuracy is measured on the test texts. SST-2 and IMDB are read from the folder that
KERAS_PERMIX_DATA names. `--smoke` uses a few sentences of this text instead, and the preset
`simpletron/sst2`.
"""

import argparse
import re

from keras_permix import distill
from keras_permix.data import Pipeline, TextSource, load_texts
from keras_permix.tasks import task_of
from keras_permix.zoo import SimpleTRON

import keras
import numpy as np

QUERIES = 0.01  # The queries of a BERT are too large without a softmax.
LENGTH = 64  # tokens of a padded text
WORD = re.compile(r"n't|'\w+|\w+?(?=n't)|\w+(?:-\w+)*|\.\.\.|--|[^\w\s]")


def sentences_of(reviews):
    """Yield the sentences of 8 to 45 tokens as in SST-2: lowercase, with spaces between tokens."""
    for review in reviews:
        for sentence in re.split(r"(?<=[.!?])\s+|<br />", review):
            words = WORD.findall(sentence.lower())
            if 8 <= len(words) <= 45:
                yield " ".join(words)


def shrink_queries(student):
    """Scale the projections to queries by `QUERIES`."""
    for weight in student.weights:
        if "/qkv/" in weight.path:
            width = weight.shape[-1] // 3
            weight.assign(weight * np.repeat([QUERIES, 1, 1], width).astype("float32"))


def train(student, teacher, texts, epochs, rate, seed):
    """Distill the teacher into the student on texts without labels."""
    unused = np.zeros(len(texts), "int32")
    source = TextSource(texts, unused, LENGTH, teacher.text_encoder(), pad_to=[16, 32])
    batches = Pipeline(source, batch_size=64, shuffle=True, seed=seed, drop_remainder=True)
    steps = epochs * len(batches)
    schedule = keras.optimizers.schedules.CosineDecay(
        0.0, steps, alpha=0.01, warmup_target=rate, warmup_steps=min(50, steps // 10)
    )
    adamw = keras.optimizers.AdamW(schedule, weight_decay=0.01, global_clipnorm=1.0)
    distill(student, teacher, batches, optimizer=adamw, epochs=epochs, verbose=2)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", default="runs/simpletron/sst2_softmax/preset")
    parser.add_argument("--epochs", type=int, nargs=2, default=(8, 3), help="of both parts")
    parser.add_argument("--sentences", type=int, default=40_000, help="of reviews")
    parser.add_argument("--out", help="folder of the copy (default: runs/simpletron/sst2_taught)")
    parser.add_argument("--smoke", action="store_true", help="sentences of this text, four steps")
    arguments = parser.parse_args()
    if arguments.smoke:
        arguments.preset, arguments.epochs = "simpletron/sst2", (1, 1)
    out = arguments.out or "runs/simpletron/sst2_taught" + "_smoke" * arguments.smoke

    keras.utils.set_random_seed(0)
    keras.config.set_dtype_policy("mixed_bfloat16")
    teacher = SimpleTRON.from_preset(arguments.preset, dropout=0.0, dtype="mixed_bfloat16")
    if arguments.smoke:
        teacher = teacher.with_variant("softmax")
        phrases = sentences = list(sentences_of([__doc__])) * 20
        test = TextSource(phrases[:10], np.zeros(10, "int32"), LENGTH, teacher.text_encoder())
    else:
        data = load_texts("sst2", LENGTH, encode=teacher.text_encoder())
        phrases, test = data.train[0].texts, data.test[0]
        sentences = list(sentences_of(load_texts("imdb", LENGTH).train[0].texts))
        count = arguments.sentences
        sentences = [sentences[i * len(sentences) // count] for i in range(count)]

    def report(what, model):
        score = task_of(model).evaluate((test, None), 64)["accuracy"]
        print(f"{what}: {100 * score:.2f} % of {len(test)} texts", flush=True)

    student = teacher.with_variant("simple_l")
    report("softmax attention", teacher)
    report("simple attention", student)
    shrink_queries(student)
    report("smaller queries", student)
    train(student, teacher, phrases, arguments.epochs[0], 3e-4, seed=0)
    report("distilled on phrases", student)
    train(student, teacher, [*phrases, *sentences], arguments.epochs[1], 2e-4, seed=1)
    report("distilled on sentences", student)
    student.save_to_preset(out)


if __name__ == "__main__":
    main()
