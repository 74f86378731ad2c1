"""Test `Pipeline`: batch order, resuming, sharding, threads and shapes."""

import threading

import keras
import numpy as np
import pytest

from keras_permix.data import Augmentation, GraphSource, Pipeline, TextSource

IMAGES = np.random.default_rng(0).integers(0, 256, (50, 8, 8, 3), dtype="uint8")
LABELS = np.arange(50) % 7


def pipeline(images=IMAGES, labels=LABELS, **changes):
    augment = Augmentation(dict(crop_padding=2, flip=True), seed=3, num_classes=7)
    arguments = dict(batch_size=16, num_classes=7, shuffle=True, seed=3, augment=augment)
    return Pipeline(images, labels, **{**arguments, **changes})


def same(batches, others):
    return len(batches) == len(others) and all(
        np.array_equal(x, other_x) and np.array_equal(y, other_y)
        for (x, y), (other_x, other_y) in zip(batches, others, strict=True)
    )


class Recorder(Pipeline):
    """Pipeline that records the last batch returned for each epoch and index."""

    def __getitem__(self, index):
        batch = super().__getitem__(index)
        self.seen = {**getattr(self, "seen", {}), (self.epoch, index): batch}
        return batch


def test_unshuffled_batches_keep_order_and_values():
    batches = list(pipeline(shuffle=False, augment=None))
    assert [len(y) for _, y in batches] == [16, 16, 16, 2]
    np.testing.assert_array_equal(np.concatenate([x for x, _ in batches]), IMAGES)
    np.testing.assert_array_equal(np.concatenate([y for _, y in batches]), LABELS)
    assert (batches[0][0].dtype, batches[0][1].dtype) == ("uint8", "int32")


def test_epoch_contains_each_image_once_with_its_label():
    numbers = np.arange(50)
    images = np.broadcast_to(numbers[:, None, None, None], (50, 2, 2, 1)).astype("uint8")
    x, y = (np.concatenate(part) for part in zip(*pipeline(images, augment=None), strict=True))
    assert sorted(x[:, 0, 0, 0]) == list(numbers)
    assert list(x[:, 0, 0, 0]) != list(numbers)
    np.testing.assert_array_equal(LABELS[x[:, 0, 0, 0]], y)


def test_fixed_steps_continue_across_passes():
    numbers = np.arange(12)
    passes, cut = (
        Pipeline(
            numbers, numbers, batch_size=4, num_classes=12, shuffle=True, drop_remainder=True,
            steps=steps,
        )
        for steps in (None, 2)
    )  # fmt: skip
    seen = []
    for epoch in range(3):
        cut.epoch = epoch
        assert len(cut) == 2
        seen += [x for x, _ in cut]
    for number, (x, _) in enumerate(passes):
        assert np.array_equal(seen[number], x)
    passes.epoch = 1
    for number, (x, _) in enumerate(passes):
        assert np.array_equal(seen[3 + number], x)
    longer = Pipeline(numbers, numbers, batch_size=5, num_classes=12, steps=4)
    assert [x[0] for x, _ in longer] == [0, 5, 10, 0]


def test_batches_depend_only_on_seed_and_epoch():
    first = list(pipeline())
    assert same(first, list(pipeline()))
    assert not same(first, list(pipeline(seed=4)))
    assert not same(first, list(pipeline(epoch=1)))
    backwards = pipeline()
    assert same(first[::-1], [backwards[index] for index in (3, 2, 1, 0)])


@pytest.mark.parametrize("only", [dict(augment=None), dict(shuffle=False)], ids=str)
def test_order_and_augmentation_change_each_epoch(only):
    assert not same(list(pipeline(**only)), list(pipeline(**only, epoch=1)))


@pytest.mark.parametrize("source", [False, True], ids=["arrays", "source"])
def test_shards_partition_unsharded_batches(source):
    class Source:
        """Source of 50 records that records the index of each batch it reads."""

        def __init__(self):
            self.seen = []

        def __len__(self):
            return 50

        def read(self, indices, epoch, index):
            self.seen.append(index)
            return IMAGES[indices], LABELS[indices]

    def sharded(shard):
        if source:
            return pipeline(Source(), None, batch_size=15, augment=None, shard=shard)
        # crops and flips match those of the whole batch
        return pipeline(batch_size=15, shard=shard)

    parts = [sharded((part, 3)) for part in range(3)]
    for index, (x, y) in enumerate(sharded((0, 1))):
        shared = [batches[index] for batches in parts]
        assert max(len(y) for _, y in shared) <= -(-len(y) // 3)
        np.testing.assert_array_equal(np.concatenate([x for x, _ in shared]), x)
        np.testing.assert_array_equal(np.concatenate([y for _, y in shared]), y)
    if source:
        draws = [index for batches in parts for index in batches.inputs.seen]
        assert len(set(draws)) == len(draws), "each shard must draw different random numbers"


def test_on_epoch_end_matches_fresh_pipeline():
    batches = pipeline()
    batches.on_epoch_end()
    batches.on_epoch_end()
    assert same(list(batches), list(pipeline(epoch=2)))


@pytest.mark.parametrize("threads", [1, 2])
def test_resumed_fit_matches_uninterrupted_fit(threads):
    def fit(epoch, epochs, weights=None):
        keras.utils.set_random_seed(0)
        model = keras.Sequential([keras.Input((8, 8, 3)), keras.layers.Flatten()])
        model.add(keras.layers.Dense(7))
        if weights:
            model.set_weights(weights)
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        batches = Recorder(
            IMAGES, LABELS, batch_size=16, num_classes=7, shuffle=True, seed=3, epoch=epoch,
            augment=Augmentation(dict(crop_padding=2), 3, 7), threads=threads,
        )  # fmt: skip
        model.fit(batches, initial_epoch=epoch, epochs=epochs, verbose=0, shuffle=False)
        return batches, model.get_weights()

    (whole, weights), (_, begun) = fit(0, 3), fit(0, 2)
    rest, same_weights = fit(2, 3, begun)
    assert whole.epoch == rest.epoch and same([weights], [same_weights])
    last = [(whole.epoch - 1, index) for index in range(len(whole))]
    assert same([whole.seen[key] for key in last], [rest.seen[key] for key in last])


def test_drop_remainder():
    assert [len(y) for _, y in pipeline(drop_remainder=True)] == [16, 16, 16]


def test_list_of_images_matches_array():
    assert same(list(pipeline(list(IMAGES))), list(pipeline()))


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        (dict(batch_size=0), "`batch_size` must be a positive integer. Received: batch_size=0"),
        (
            dict(batch_size=64, drop_remainder=True),
            "drops an incomplete batch.* Received: 50 samples, batch_size=64",
        ),
        (
            dict(images=IMAGES[:0], labels=LABELS[:0]),
            "`inputs` must fill at least one batch.*: 0 samples",
        ),
        (dict(labels=LABELS[1:]), r"same number.*inputs of \[50\], targets of shape \(49,\)"),
        (dict(labels=None), r"same number.*targets of shape \(1,\)"),
        (
            dict(images={"a": IMAGES, "b": IMAGES[1:]}),
            r"same number.*inputs of \[50, 49\], targets of shape \(50,\)",
        ),
        (dict(num_classes=6), "`num_classes - 1`.*targets from 0 to 6, num_classes=6"),
        (
            dict(labels=LABELS + 0.5, num_classes=8),
            "must be integers.*targets from 0.5 to 6.5, num_classes=8",
        ),
        (
            dict(labels=LABELS + 2**32, num_classes=8),
            r"targets from 4.29497e\+09 to .*num_classes=8",
        ),
        (dict(shard=(0, 3)), r"sample per shard.*a batch of 2 samples, shard=\(0, 3\)"),
        (dict(seed=-1), "expected non-negative integer"),
        (dict(epoch=-1), "expected non-negative integer"),
    ],
)
def test_invalid_arguments_raise(changes, rule):
    with pytest.raises(ValueError, match=rule):
        pipeline(**changes)


@pytest.mark.parametrize("mixed", [{}, dict(mixup=0.2, cutmix=1.0, erasing=0.5)])
@pytest.mark.parametrize("threads", [2, 5])
def test_threads_do_not_change_batches_or_losses(threads, mixed):
    """Keras requests a batch before the first epoch and then starts again."""

    def seen(threads):
        keras.utils.set_random_seed(0)
        model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(7)])
        one_hot = keras.losses.CategoricalCrossentropy
        loss = one_hot if mixed else keras.losses.SparseCategoricalCrossentropy
        model.compile("sgd", loss(from_logits=True))
        augment = Augmentation(dict(flip=True, **mixed), seed=3, num_classes=7)
        batches = Recorder(
            IMAGES, LABELS, batch_size=16, num_classes=7, shuffle=True, seed=3, augment=augment,
            threads=threads,
        )  # fmt: skip
        losses = model.fit(batches, epochs=3, verbose=0).history["loss"]
        return losses, batches.seen

    (losses, single), (others, threaded) = seen(1), seen(threads)
    assert single.keys() == threaded.keys() and losses == others
    assert same(list(single.values()), [threaded[key] for key in single])


@pytest.mark.parametrize("shuffle", [True, False])
def test_prefetching_makes_few_unused_batches(shuffle):
    made = []

    def augment(x, y, epoch, index):
        made.append((epoch, index))
        return x, y

    batches = Pipeline(np.arange(64), np.arange(64), batch_size=2, augment=augment, threads=4)
    order = np.random.default_rng(0).permutation(32) if shuffle else range(32)
    assert sorted(int(batches[int(index)][0][0]) for index in order) == list(range(0, 64, 2))
    # Random requests that happen to be consecutive start prefetching the next batches.
    assert len(made) < 50 if shuffle else sorted(made) == [(0, index) for index in range(32)]


@pytest.mark.parametrize("labels", [[0, 1, -1], [0, 1, 3]])
def test_source_class_out_of_range_raises(labels):
    texts = TextSource(["a", "b", "c"], labels, max_sequence_length=4)
    batches = Pipeline(texts, batch_size=3, num_classes=3)
    with pytest.raises(ValueError, match=r"`num_classes - 1`.*targets from"):
        batches[0]


@pytest.mark.parametrize("seed", range(4))
def test_fit_accepts_batches_of_several_widths(seed):
    """Vary the first batches: Keras derives the shapes for TensorFlow from the first two."""
    texts = ["a"] * 12 + ["a text of many words"] * 12
    source = TextSource(texts, np.arange(24) % 2, 32, pad_to=(8, 16))
    inputs = {
        name: keras.Input((None,), dtype=dtype, name=name)
        for name, dtype in (("tokens", "int32"), ("mask", "bool"))
    }
    x = keras.layers.Embedding(257, 4)(inputs["tokens"])
    x = keras.layers.GlobalAveragePooling1D()(x, mask=inputs["mask"])
    model = keras.Model(inputs, keras.layers.Dense(2)(x))
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    batches = Pipeline(source, batch_size=4, num_classes=2, shuffle=True, seed=seed)
    model.fit(batches, validation_data=Pipeline(source, batch_size=4), epochs=2, verbose=0)
    widths = [batches[index][0]["tokens"].shape[1] for index in range(len(batches))]
    assert set(widths) == ({32} if keras.backend.backend() == "tensorflow" else {8, 32})


def test_graphs_of_several_sizes_have_one_shape_on_tensorflow():
    graphs = [(np.zeros((size, 1), int), np.zeros((0, 3), int)) for size in (2, 2, 2, 2, 5, 3)]
    batches = Pipeline(GraphSource(graphs, np.zeros((6, 1))), batch_size=2)
    sizes = [batches[index][0]["x"].shape[1] for index in range(3)]
    hops = [batches[index][0]["edge_input"].shape[3] for index in range(3)]
    fixed = keras.backend.backend() == "tensorflow"
    assert (sizes, hops) == (([5] * 3, [4] * 3) if fixed else ([2, 2, 5], [1, 1, 1]))


def test_exception_in_thread_is_reraised():
    class Broken:
        def __len__(self):
            return 8

        def read(self, indices, epoch, index):
            raise OSError(f"no batch {index}")

    batches = Pipeline(Broken(), batch_size=2, threads=2)
    for index in (0, 2):
        with pytest.raises(OSError, match=f"no batch {index}"):
            batches[index]


def test_batches_are_prefetched_in_parallel():
    """Two threads wait for each other in `augment`; a single thread would time out."""
    both = threading.Barrier(2, timeout=30)

    def augment(x, y, epoch, index):
        both.wait()
        return x, y

    batches = Pipeline(np.arange(8), np.arange(8), batch_size=2, augment=augment, threads=2)
    assert [batches[index][1].tolist() for index in (0, 1)] == [[0, 1], [2, 3]]
