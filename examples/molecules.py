"""Predict the solubility in water of molecules, written as SMILES.

    python examples/molecules.py

A small `SliceGraphormer` is trained on the solubilities of ESOL (`esol.csv` in the folder that
`KERAS_PERMIX_DATA` names). The baseline predicts the mean of the training targets. `--smoke` trains
a smaller model for two epochs on some molecules of QM9 in the folder of the tests. Its target is
the gap between HOMO and LUMO in hartree. The script requires `keras_permix[graph]`.
"""

import argparse
from pathlib import Path

from keras_permix.data import Pipeline, load_graphs
from keras_permix.zoo import SliceGraphormer

import keras
import numpy as np

SAMPLE = Path(__file__).resolve().parents[1] / "tests" / "data" / "graphs" / "qm9_sample.csv"
ASKED = ["CCO", "c1ccccc1", "CCCCCCCCCC"]


def load(smoke):
    """Return the training and test molecules, the unit of the target, and the model's sizes."""
    if smoke:
        files = dict(train=SAMPLE.name, test=SAMPLE.name, labels=("HOMO_LUMO_gap_au",))
        molecules, _ = load_graphs("sample", SAMPLE.parent, **files).train
        sizes = dict(hidden_dim=16, num_layers=1, num_heads=2, mlp_dim=16)
        return molecules[:34], molecules[34:], "gap in hartree", sizes
    data = load_graphs("esol", hops=1)
    sizes = dict(hidden_dim=64, num_layers=3, num_heads=4, mlp_dim=64, edges="single")
    return data.train[0], data.test[0], "log10 of mol/l", sizes


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="a run of seconds on sample data")
    parser.add_argument("--epochs", type=int, default=10)
    arguments = parser.parse_args()
    train, test, unit, sizes = load(arguments.smoke)
    epochs = 2 if arguments.smoke else arguments.epochs
    mean, std = float(train.targets.mean()), float(train.targets.std())

    keras.utils.set_random_seed(0)
    model = SliceGraphormer(**sizes, mean=mean, std=std)
    batches = Pipeline(train, batch_size=32, shuffle=True)
    rate = keras.optimizers.schedules.CosineDecay(1e-3, epochs * len(batches))
    model.compile(keras.optimizers.AdamW(rate), "mae")
    model.fit(batches, epochs=epochs, verbose=0)

    guess = np.abs(test.targets - mean).mean()
    error = model.evaluate(Pipeline(test, batch_size=32), verbose=0)
    print(f"{len(train)} training molecules, {len(test)} test molecules; {unit}")
    print(f"mean of the training targets: {guess:.4f} mean absolute error")
    print(f"SliceGraphormer: {error:.4f} mean absolute error, {model.count_params():,} parameters")
    for smiles, (value,) in zip(ASKED, model.predict(ASKED, verbose=0), strict=True):
        print(f"{smiles}: {value:.3f}")


if __name__ == "__main__":
    main()
