"""Print which operations take the time of a training step on PyTorch.

KERAS_BACKEND=torch python benchmarks/profile_step.py
"""

import keras
import numpy as np
import torch

from keras_permix.zoo import CSPViT, ViT

STEPS = 5
SHOWN = 9  # operations per model


def main():
    """Profile steps of the models of `cifar10_small`, with random weights and images."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (128, 32, 32, 3)).astype("float32")
    labels = rng.integers(0, 10, 128)
    for kind in (CSPViT, ViT):
        model = kind.from_preset("cifar10_small", load_weights=False)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.AdamW(), loss)
        model.train_on_batch(images, labels)
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            for _ in range(STEPS):
                model.train_on_batch(images, labels)
        rows = sorted(profile.key_averages(), key=lambda row: -row.self_cpu_time_total)
        total = sum(row.self_cpu_time_total for row in rows)
        print(f"{kind.__name__}: {total / STEPS / 1000:.0f} ms per step")
        for row in rows[:SHOWN]:
            print(f"  {100 * row.self_cpu_time_total / total:4.1f} %  {row.key}")


if __name__ == "__main__":
    main()
