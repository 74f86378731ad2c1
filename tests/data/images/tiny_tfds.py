"""Prepare and read a tiny TFDS data set while TensorFlow is hidden.

    python -m tests.data.images.tiny_tfds prepare|read FOLDER

`prepare` does not need TensorFlow, because the images are already encoded as PNG.
"""

import io
import json
import sys

import numpy as np

SIZES = [(20 + number, 30) for number in range(9)]


class Hidden:
    """Import finder that finds all modules except TensorFlow."""

    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "tensorflow":
            return None
        return self.finder.find_spec(name, path, target)

    def __getattr__(self, name):
        return getattr(self.finder, name)


def image(number):
    """Return a plain image with a unique level."""
    return np.full((*SIZES[number], 3), 10 * number, "uint8")


def prepare(folder):
    import tensorflow_datasets as tfds
    from PIL import Image

    class Tiny(tfds.core.GeneratorBasedBuilder):
        VERSION = tfds.core.Version("1.0.0")

        def _info(self):
            features = {
                "image": tfds.features.Image(shape=(None, None, 3), encoding_format="png"),
                "label": tfds.features.ClassLabel(names=["even", "odd"]),
            }
            return tfds.core.DatasetInfo(
                builder=self, features=tfds.features.FeaturesDict(features)
            )

        def _split_generators(self, dl_manager):
            return {"train": self._generate_examples(range(6)), "test": self._generate_examples(
                range(6, 9)
            )}  # fmt: skip

        def _generate_examples(self, numbers):
            for number in numbers:
                blob = io.BytesIO()
                Image.fromarray(image(number)).save(blob, "PNG")
                blob.seek(0)
                yield number, {"image": blob, "label": number % 2}

    Tiny(data_dir=folder, file_format="array_record").download_and_prepare()


def read(folder):
    """Print a summary of the data set as JSON, and whether TensorFlow was imported."""
    from keras_permix.data import Pipeline, tfds_images

    data = tfds_images("tiny", 16, folder)
    batches = Pipeline(*data.train, batch_size=6, num_classes=2, shuffle=True, seed=1)
    images, labels = batches[0]
    about = {
        "labels": data.labels,
        "shape": images.shape,
        "levels": images.mean((1, 2, 3)).tolist(),
        "targets": labels.tolist(),
        "test": len(data.test[0]),
        "tensorflow": "tensorflow" in sys.modules,
    }
    print(json.dumps(about))


if __name__ == "__main__":
    sys.meta_path[:] = [Hidden(finder) for finder in sys.meta_path]
    {"prepare": prepare, "read": read}[sys.argv[1]](sys.argv[2])
