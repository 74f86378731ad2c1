"""Train a preset on all chips of a TPU machine.

    pip install -e ".[train]" "jax[tpu]"    # in a clone; from a release, "keras_permix[train]"
    python tpu_fit.py [RECIPE] [--out FOLDER] [--data-dir FOLDER]

RECIPE is a name that `permix list` prints. Weights are float32, computation is in bfloat16. Run the
script on every host of a pod; each host reads its part of every batch. The host reads the loss only
every `--steps` steps, so the chips do not wait for it. If more `--workers` shorten an epoch, the
input was the bottleneck. To resume after an interruption, start the script again. `--smoke` runs on
a few generated images, on any machine.
"""

import argparse
import os

os.environ["KERAS_BACKEND"] = "jax"

from keras_permix.training import train  # noqa: E402  # Keras reads its backend when imported.
from keras_permix.training.distribute import distributed  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recipe", nargs="?", default="cspvit/cifar10_small")
    parser.add_argument("--out", help="folder of the run; on a pod, shared by all hosts")
    parser.add_argument("--data-dir", help="folder of the data; else KERAS_PERMIX_DATA or download")
    parser.add_argument("--steps", type=int, default=50, help="steps between two reads of the loss")
    parser.add_argument("--workers", type=int, default=4, help="threads that make batches")
    parser.add_argument("--smoke", action="store_true", help="two short epochs on generated images")
    arguments = parser.parse_args()

    small = {"model": {"num_layers": 1, "hidden_dim": 16}} if arguments.smoke else {}
    with distributed("auto") as here:
        if here.is_chief:
            print(f"{here.devices} devices in {here.count} processes", flush=True)
        done = train(
            arguments.recipe,
            precision="mixed_bfloat16",
            **small,
            out=arguments.out,
            data_dir=arguments.data_dir,
            smoke=arguments.smoke,
            verbose=2,
            distribute=here,
            steps_per_execution=arguments.steps,
            workers=arguments.workers,
        )
        if here.is_chief:
            print(f"fastest epoch: {min(row['seconds'] for row in done.rows)} s")
            for name, score in done.scores.items():
                print(f"{name}: {score}")
            print(f"preset: {done.folder / 'preset'}")


if __name__ == "__main__":
    main()
