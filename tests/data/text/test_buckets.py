"""Test batches of texts with similar lengths: coverage, padding and order."""

import keras
import numpy as np
import pytest

from keras_permix.data import Pipeline, TextSource, TokenSource

ONE_SHAPE = keras.backend.backend() == "tensorflow"  # `Pipeline` pads all batches to one shape
LENGTHS = np.random.default_rng(0).integers(1, 33, 500)
TEXTS = ["x" * length for length in LENGTHS]


def token_source(pad_to=(8, 16)):
    tokens = np.repeat(np.arange(500) % 200 + 1, LENGTHS).astype("uint8")
    return TokenSource(tokens, LENGTHS, np.arange(500), 32, pad_to)


def text_source(pad_to=(8, 16)):
    return TextSource(TEXTS, np.arange(500), 32, pad_to=pad_to)


def pipeline(source, **more):
    return Pipeline(source, batch_size=16, shuffle=True, **more)


several_shapes = pytest.mark.skipif(ONE_SHAPE, reason="Keras requires one shape on TensorFlow")
SOURCES = pytest.mark.parametrize("make", [token_source, text_source])


@SOURCES
def test_batches_are_padded_to_the_next_length(make):
    seen = []
    for inputs, labels in pipeline(make()):
        longest = LENGTHS[labels].max()
        width = 32 if ONE_SHAPE else next(width for width in (8, 16, 32) if width >= longest)
        assert inputs["tokens"].shape == inputs["mask"].shape == (len(labels), width)
        np.testing.assert_array_equal(inputs["mask"].sum(axis=1), LENGTHS[labels])
        np.testing.assert_array_equal(inputs["mask"], inputs["tokens"] != 0)
        seen += labels.tolist()
    assert sorted(seen) == list(range(500)) and seen != sorted(seen)


@several_shapes
@SOURCES
def test_buckets_reduce_padding(make):
    def padded(pad_to):
        return sum(inputs["mask"].size for inputs, _ in pipeline(make(pad_to)))

    assert padded((8, 16)) < 0.8 * padded(()) == 0.8 * 500 * 32


@SOURCES
def test_order_depends_on_seed_and_epoch(make):
    def labels(**more):
        return np.concatenate([labels for _, labels in pipeline(make(), **more)]).tolist()

    assert labels(seed=2) == labels(seed=2) != labels(seed=3)
    assert labels(seed=2, epoch=1) != labels(seed=2)
    resumed = pipeline(make(), seed=2)
    resumed.on_epoch_end()
    assert np.concatenate([y for _, y in resumed]).tolist() == labels(seed=2, epoch=1)


@several_shapes
def test_batches_of_different_widths_are_shuffled():
    widths = [inputs["mask"].shape[1] for inputs, _ in pipeline(token_source())]
    changes = sum(one != other for one, other in zip(widths, widths[1:], strict=False))
    assert set(widths) == {8, 16, 32} and changes > 6


def test_order_without_buckets_matches_plain_pipeline():
    plain = Pipeline(np.arange(500), np.arange(500), batch_size=16, shuffle=True, seed=4)
    for (_, ours), (_, theirs) in zip(pipeline(text_source(()), seed=4), plain, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@SOURCES
def test_shards_of_a_batch_have_the_same_padding(make):
    whole, *parts = (pipeline(make(), shard=shard) for shard in ((0, 1), (0, 2), (1, 2)))
    for (inputs, _), *halves in zip(whole, *parts, strict=True):
        joined = np.concatenate([half["tokens"] for half, _ in halves])
        np.testing.assert_array_equal(joined, inputs["tokens"])


def test_pad_to_with_pairs_raises():
    with pytest.raises(ValueError, match="`pad_to` must be empty for pairs"):
        TextSource([("a", "b")], [0], 32, pad_to=(8,))


@pytest.mark.parametrize("lengths", [[1, 2], [9, 1]])
def test_lengths_that_do_not_match_raise(lengths):
    with pytest.raises(ValueError, match=r"`lengths` must sum.*lengths=\[.*4 tokens"):
        TokenSource([1, 2, 3, 4], lengths, [0, 1], 4)
