"""Make small files of pairs for the task `retrieval`, from IMDB's reviews.

    python tools/make_retrieval.py --out DATA

These pairs replace the papers of the Long Range Arena (`lra_release.gz`, 7.7 GB). A pair is the
first half of a review and the second half of the same review (class 1) or of another one (class 0).
Both classes are equally frequent, and every half occurs once. The training reviews give 24,000
pairs for training and 1,000 for validation, and the test reviews 25,000 for testing.

IMDB is read from `KERAS_PERMIX_DATA`. To use the files, set it or `--data-dir` to DATA.

Source: Maas et al., "Learning Word Vectors for Sentiment Analysis", 2011.
"""

import argparse
from pathlib import Path

import numpy as np

from keras_permix.data import load_texts
from keras_permix.data.lra.retrieval import FILES

HELD_OUT = 1_000  # training pairs for validation


def halves(text):
    """Cut a text into two halves, at a space; white space becomes single spaces."""
    words = text.split()
    return " ".join(words[: len(words) // 2]), " ".join(words[len(words) // 2 :])


def pairs(texts, rng):
    """Return shuffled lines with a class, two ids and two halves, separated by tabs."""
    order = rng.permutation(len(texts))
    same, others = np.array_split(order, 2)
    second = np.concatenate([same, np.roll(others, 1)])
    lines = [
        f"{int(a == b)}\t{a}\t{b}\t{halves(texts[a])[0]}\t{halves(texts[b])[1]}\n"
        for a, b in zip(order, second, strict=True)
    ]
    return [lines[index] for index in rng.permutation(len(lines))]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder of the files")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    data = load_texts("imdb", max_sequence_length=1)
    rng = np.random.default_rng(0)
    train, test = (pairs(part[0].texts, rng) for part in (data.train, data.test))
    parts = (train[HELD_OUT:], train[:HELD_OUT], test)
    for name, lines in zip(FILES, parts, strict=True):
        (arguments.out / name).write_text("".join(lines), encoding="utf-8")
        print(f"{arguments.out / name}: {len(lines):,} pairs")


if __name__ == "__main__":
    main()
