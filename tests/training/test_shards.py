"""Test sharded records, read through Grain: several processes and resuming within a pass."""

import dataclasses

import keras
import numpy as np
import pytest

from keras_permix.data import Dataset, Pipeline, RecordSource
from tests.training import runs

grain = pytest.importorskip("grain", reason="grain is not installed")
writers = pytest.importorskip("array_record.python.array_record_module")

pytestmark = pytest.mark.once
SHARDS = 3
# With 80 samples, a pass takes five batches, but an epoch only three.
RECIPE = dataclasses.replace(runs.RECIPE, steps_per_epoch=3, epochs=4)


def decode(record):
    return {"image": np.frombuffer(record[1:], "uint8").reshape(8, 8, 3), "label": record[0]}


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    """Write the training images of a small run to several files, in order."""
    images, labels = runs.make_images().train
    folder = tmp_path_factory.mktemp("shards")
    names = [f"made-{number:05d}-of-{SHARDS:05d}.array_record" for number in range(SHARDS)]
    for name, part in zip(names, np.array_split(np.arange(len(images)), SHARDS), strict=True):
        writer = writers.ArrayRecordWriter(str(folder / name), "group_size:1")
        for index in part:
            writer.write(bytes([labels[index]]) + images[index].tobytes())
        writer.close()
    return [str(folder / name) for name in names]


@pytest.fixture(scope="module")
def records(shards):
    """Return the records of all files, by index."""
    return grain.MapDataset.source(grain.sources.ArrayRecordDataSource(shards)).map(decode)


class Counted:
    """Records with a list of the indices that were read."""

    def __init__(self, records):
        self.records, self.read = records, []

    def __len__(self):
        return len(self.records)

    def __getitem__(self, index):
        self.read.append(index)
        return self.records[index]


def pipeline(records, **changes):
    arguments = dict(batch_size=16, num_classes=3, shuffle=True, seed=5, steps=3)
    return Pipeline(RecordSource(records), **{**arguments, **changes})


def test_records_keep_order_of_files(records):
    images, labels = runs.make_images().train
    read = RecordSource(records).read(range(len(labels)))
    np.testing.assert_array_equal(read[0], images)
    np.testing.assert_array_equal(read[1], labels)


def test_each_process_reads_only_its_part(records):
    parts = [Counted(records), Counted(records)]
    theirs = [pipeline(part, shard=(index, 2)) for index, part in enumerate(parts)]
    whole = pipeline(Counted(records))
    for epoch in range(5):  # of three batches each; a pass takes five
        for each in (*theirs, whole):
            each.epoch = epoch
        for step in range(3):
            cut = [each[step] for each in theirs]
            for ours, expected in zip(
                map(np.concatenate, zip(*cut, strict=True)), whole[step], strict=True
            ):
                np.testing.assert_array_equal(ours, expected)
    assert [len(part.read) for part in parts] == [120, 120]
    for number in range(3):
        some = slice(40 * number, 40 * (number + 1))
        assert sorted(parts[0].read[some] + parts[1].read[some]) == list(range(80))
    assert parts[0].read[:40] != parts[0].read[40:80]


def test_run_resumes_within_pass_over_data(records, tmp_path):
    class Stopped(Exception):
        """Imitate a process that ends."""

    class Stop(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            self.now = epoch

        def on_train_batch_end(self, batch, logs=None):
            if (self.now, batch) == (2, 1):
                raise Stopped

    def train(out, *callbacks):
        seen.append(Counted(records))
        dataset = Dataset(
            "made", (RecordSource(seen[-1]), None), runs.make_images().test, tuple("abc")
        )
        # One thread, since several read in any order.
        return runs.train(
            RECIPE, dataset, tmp_path / out, verbose=0, callbacks=callbacks, workers=1
        )

    seen = []
    model, rows = train("whole")
    with pytest.raises(Stopped):
        train("stopped", Stop())
    again, after = train("stopped")
    assert seen[2].read[-16 * 6 :] == seen[0].read[-16 * 6 :]  # third and fourth epoch
    for ours, theirs in zip(again.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert [{**row, "seconds": 0} for row in after] == [{**row, "seconds": 0} for row in rows]
