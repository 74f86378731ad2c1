"""Train a preset on a Ray cluster, with PyTorch.

    pip install -e ".[train]" torch "ray[train]"    # in a clone; else "keras_permix[train]"
    python ray_train.py [RECIPE] --workers 4 --gpu --out /shared/run

RECIPE is a name that `permix list` prints. Ray starts the workers on any free nodes and connects
them. Each worker processes a part of every batch. The batch size of the recipe is that of all
workers together. If a worker or a node is lost, Ray restarts all of them, up to `--failures` times.
The run then resumes from its last checkpoint, so all nodes must share the folder `--out`. `--smoke`
runs on a few generated images, on this machine.
"""

import argparse
from pathlib import Path

import ray.train
from ray.train.torch import TorchTrainer


def loop(config):
    """Train in one worker."""
    import os

    os.environ["KERAS_BACKEND"] = "torch"
    from keras_permix.training import train

    done = train(**config, distribute="data", verbose=2)
    if ray.train.get_context().get_world_rank() == 0:
        for name, score in done.scores.items():
            print(f"{name}: {score}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recipe", nargs="?", default="cspvit/cifar10_small")
    parser.add_argument("--out", required=True, help="folder of the run, which all nodes share")
    parser.add_argument("--data-dir", help="folder of the data, on each node")
    parser.add_argument("--workers", type=int, default=2, help="processes that share each batch")
    parser.add_argument("--gpu", action="store_true", help="a GPU for each worker")
    parser.add_argument("--failures", type=int, default=3, help="number of restarts")
    parser.add_argument("--smoke", action="store_true", help="two short epochs on generated images")
    arguments = parser.parse_args()

    out = Path(arguments.out).absolute()
    config = dict(
        recipe=arguments.recipe,
        **({"model": {"num_layers": 1, "hidden_dim": 16}} if arguments.smoke else {}),
        out=str(out),
        data_dir=arguments.data_dir,
        smoke=arguments.smoke,
    )
    trainer = TorchTrainer(
        loop,
        train_loop_config=config,
        scaling_config=ray.train.ScalingConfig(
            num_workers=arguments.workers, use_gpu=arguments.gpu
        ),
        run_config=ray.train.RunConfig(
            name=f"{out.name}_ray",
            storage_path=str(out.parent),
            failure_config=ray.train.FailureConfig(max_failures=arguments.failures),
        ),
    )
    trainer.fit()
    print(f"preset: {out / 'preset'}")


if __name__ == "__main__":
    main()
