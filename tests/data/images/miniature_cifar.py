"""Write miniatures of CIFAR in the official formats: Python 2 pickles and binary files."""

import io
import pickle
import tarfile

import numpy as np

BATCHES = [f"data_batch_{number}" for number in range(1, 6)]
# Archive -> its folder, files of both parts, number of classes, and whether files are pickles.
ARCHIVES = {
    "cifar-10-python.tar.gz": ("cifar-10-batches-py", (BATCHES, ["test_batch"]), 10, True),
    "cifar-100-python.tar.gz": ("cifar-100-python", (["train"], ["test"]), 100, True),
    "cifar-10-binary.tar.gz": (
        "cifar-10-batches-bin", ([f"{name}.bin" for name in BATCHES], ["test_batch.bin"]), 10, False
    ),
    "cifar-100-binary.tar.gz": ("cifar-100-binary", (["train.bin"], ["test.bin"]), 100, False),
}  # fmt: skip


class Python2(pickle._Pickler):
    """Pickler that writes bytes as strings of Python 2."""

    dispatch = dict(pickle._Pickler.dispatch)

    def save_text(self, value):
        self.write(pickle.BINSTRING + len(value).to_bytes(4, "little") + value)
        self.memoize(value)

    dispatch[bytes] = save_text


def pickled(value):
    """Return the pickle of a value as written by Python 2 with NumPy 1."""
    file = io.BytesIO()
    Python2(file, protocol=2).dump(value)
    return file.getvalue().replace(b"numpy._core.", b"numpy.core.")


def make_batch(rng, classes, is_pickled, count=3):
    """Return the content of a batch file, and the images and labels in it."""
    images = rng.integers(0, 256, (count, 32, 32, 3), dtype="uint8")
    labels = rng.integers(0, classes, count, dtype="uint8")
    rows = np.ascontiguousarray(images.transpose(0, 3, 1, 2)).reshape(count, -1)
    coarse = np.zeros(count, "uint8")
    if is_pickled:
        key = b"labels" if classes == 10 else b"fine_labels"
        names = [b"%d.png" % number for number in range(count)]
        batch = {b"data": rows, key: labels.tolist(), b"filenames": names}
        return pickled({**batch, b"coarse_labels": coarse.tolist()}), images, labels
    columns = [labels[:, None]] if classes == 10 else [coarse[:, None], labels[:, None]]
    return np.hstack([*columns, rows]).tobytes(), images, labels


def write_archive(folder, name):
    """Write an archive, and return the arrays of its training and test parts."""
    inner, parts, classes, is_pickled = ARCHIVES[name]
    rng = np.random.default_rng(0)
    written = []
    with tarfile.open(folder / name, "w:gz") as archive:
        for files in parts:
            made = [make_batch(rng, classes, is_pickled) for _ in files]
            for file, (blob, _, _) in zip(files, made, strict=True):
                entry = tarfile.TarInfo(f"{inner}/{file}")
                entry.size = len(blob)
                archive.addfile(entry, io.BytesIO(blob))
            written.append([np.concatenate([batch[n] for batch in made]) for n in (1, 2)])
    return written
