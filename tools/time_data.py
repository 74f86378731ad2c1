"""Time the generation and reading of data: molecules, and the Long Range Arena with training.

    KERAS_BACKEND=torch python tools/time_data.py

The script prints sequences, images, molecules or batches per second of wall time and of CPU time.
CPU time does not depend on other processes. QM9 is read from the folder `KERAS_PERMIX_DATA`.
"""

import os
import time
from pathlib import Path

from keras_permix.data import from_smiles, generated_listops, generated_pathfinder
from keras_permix.data.files import read_rows
from keras_permix.tasks import task_of
from keras_permix.zoo import LRATransformer

LISTOPS = dict(train=8_000, validation=900, test=900)  # fewer than 10,000, so not cached
PICTURES = dict(train=2_000, validation=200, test=200)
SMALL = dict(hidden_dim=64, num_layers=2, mlp_dim=128, mixer="csp")
BATCH = 32
MOLECULES, HOPS = 6_000, 5  # hops: edges per path that Graphormer reads


def timed(what, count, run):
    """Print how many of `count` items `run()` processes per second. Return its result."""
    clock, processor = time.perf_counter(), time.process_time()
    result = run()
    clock, processor = time.perf_counter() - clock, time.process_time() - processor
    print(f"{what:48} {count / clock:10.1f} /s   {count / processor:10.1f} /s of CPU time")
    return result


def time_molecules():
    """Time the conversion of SMILES to padded arrays with shortest paths and their edges."""
    folder = os.environ.get("KERAS_PERMIX_DATA")
    if folder is None:
        print("QM9 is skipped: KERAS_PERMIX_DATA is not set")
        return
    rows = read_rows(Path(folder, "qm9.csv.xz"))  # small molecules first
    smiles = [row["smiles"] for row in rows[:: len(rows) // MOLECULES]]
    starts = range(0, len(smiles), BATCH)
    timed(
        f"QM9 read from SMILES, batches of {BATCH}",
        len(smiles),
        lambda: [from_smiles(smiles[start : start + BATCH], hops=HOPS) for start in starts],
    )


def main():
    time_molecules()
    total = sum(LISTOPS.values())
    listops = timed("ListOps made", total, lambda: generated_listops(2000, **LISTOPS))
    for size in (32, 128):
        total = sum(PICTURES.values())
        timed(
            f"Pathfinder made, {size} pixels",
            total,
            lambda size=size: generated_pathfinder(size, **PICTURES),
        )
    model = LRATransformer(vocabulary_size=16, max_sequence_length=2000, num_classes=10, **SMALL)
    task = task_of(model)
    model.compile("adam", loss=task.loss(), metrics=task.metrics())
    batches = task.batches(listops.train, BATCH, training=True)
    model.train_on_batch(*batches[0])
    timed(f"Batches read, {BATCH} x 2000", 100, lambda: [batches[i] for i in range(100)])
    timed(
        "Steps of a small model on them",
        2,
        lambda: [model.train_on_batch(*batches[i]) for i in (1, 2)],
    )


if __name__ == "__main__":
    main()
