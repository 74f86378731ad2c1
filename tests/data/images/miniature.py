"""Write miniatures of the data files, in the formats that `load_images` reads."""

import gzip
import hashlib
import io
import struct
import zipfile

import numpy as np
from PIL import Image

from keras_permix.data.files import SHA256


def write_cifar10(folder, count=6):
    """Write `cifar10.zip` with two strips per part, and return its arrays."""
    rng = np.random.default_rng(0)
    parts = {}
    with zipfile.ZipFile(folder / "cifar10.zip", "w") as archive:
        for part in ("train", "test"):
            x = rng.integers(0, 256, (2 * count, 32, 32, 3), dtype="uint8")
            y = rng.integers(0, 10, 2 * count, dtype="uint8")
            for number, strip in enumerate(x.reshape(2, -1, 32, 3)):
                blob = io.BytesIO()
                Image.fromarray(strip).save(blob, "WEBP", lossless=True)
                archive.writestr(f"{part}_{number:03d}.webp", blob.getvalue())
            archive.writestr(f"{part}_labels.bin", y.tobytes())
            parts[part] = x, y
    return parts


def write_mnist(folder, count=5):
    """Write the four idx files, and return their arrays."""
    rng = np.random.default_rng(1)
    parts = {}
    for part, name in (("train", "train"), ("test", "t10k")):
        x = rng.integers(0, 256, (count, 28, 28), dtype="uint8")
        y = rng.integers(0, 10, count, dtype="uint8")
        for kind, values in (("images-idx3", x), ("labels-idx1", y)):
            header = bytes((0, 0, 8, values.ndim)) + struct.pack(f">{values.ndim}I", *values.shape)
            path = folder / f"mnist-{name}-{kind}-ubyte.gz"
            path.write_bytes(gzip.compress(header + values.tobytes()))
        parts[part] = x, y
    return parts


def trust(monkeypatch, folder):
    """Register the checksums of the files in `folder` as those of the real files."""
    for path in folder.iterdir():
        monkeypatch.setitem(SHA256, path.name, hashlib.sha256(path.read_bytes()).hexdigest())
