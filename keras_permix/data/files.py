"""Data files on disk: where they lie, and that they are what they should be."""

import os
from pathlib import Path

from keras_permix.checksums import read_with_sha256

DATA_VARIABLE = "KERAS_PERMIX_DATA"

SHA256 = {
    "cifar10.zip": "4d1452f23a33bb45862a632e9f725438c732b9995638995b3ac18006645d7546",
    "mnist-train-images-idx3-ubyte.gz":
        "71524e2cd1ad2968737f7f2f2ff69cbfc32df8ccddff51593f7cb2d4e0eb5b64",
    "mnist-train-labels-idx1-ubyte.gz":
        "fe03b8bd7915f70bf5aa08be480aa413fbd85afcaa58b35d230d335f284fd88e",
    "mnist-t10k-images-idx3-ubyte.gz":
        "5634745efa576a17e7d4cf5cd9d09123c75e6538e5114267c2d156edaf519341",
    "mnist-t10k-labels-idx1-ubyte.gz":
        "ae18e77e031ccde52407f794d123116439864147d33ac992975f85dd4dc42af6",
    "imdb_train.jsonl.xz": "803408307be083160617d3a87f7249bc7f14bc9a0cc14ff5b70606939569caca",
    "imdb_test.jsonl.xz": "aa0f3efca775fe71551bbe2cca6e46dede2c0f620d5a78db939e0e91cf4a0f70",
    "sst2.jsonl.xz": "730a21d4ce53a1f214859c5619bc31d620596afcaad98c8e52a58095c42de07d",
}  # fmt: skip


def find_folder(data_dir, names):
    """Return the folder that holds the files `names`, or None to use a download.

    A folder given by the caller must hold them. The folder of the environment variable
    `KERAS_PERMIX_DATA` is used where it does.
    """
    if data_dir is not None:
        return Path(data_dir)
    folder = os.environ.get(DATA_VARIABLE)
    if folder and all((Path(folder) / name).is_file() for name in names):
        return Path(folder)
    return None


def read_verified(path):
    """Return the bytes of a data file whose SHA-256 is known under its name.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if its bytes are not the known ones.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(
            "The data folder must hold the file named here. Image sets are downloaded by Keras "
            f"with `data_dir=None`. Received: a folder without {path}"
        )
    return read_with_sha256(path, SHA256[path.name])
