"""Load saved models and write their outputs, for `check_models_elsewhere`.

python -m tests.reload FOLDER
"""

import pickle
import sys
from pathlib import Path

import keras
import numpy as np

import keras_permix  # noqa: F401  (registers the layers)


def main(folder):
    for path in folder.glob("*.keras"):
        inputs = pickle.loads(path.with_suffix(".pickle").read_bytes())
        outputs = keras.saving.load_model(path)(inputs)
        np.save(path.with_suffix(".npy"), keras.ops.convert_to_numpy(outputs))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
