"""Train a preset on a Ray cluster, with PyTorch.

    pip install ".[train]" torch "ray[train]"    # in a clone; else "keras_permix[train]"
    python ray_train.py [RECIPE] --workers 4 --gpu --out /shared/run

RECIPE is one of `permix list`. Ray starts the workers, on whatever nodes have room, and joins them;
each takes its part of every batch, whose size is that of the whole run. Where a worker or a node is
lost, Ray starts all of them again, up to `--failures` times, and the run goes on from its last
checkpoint: for that, `--out` is a folder that all nodes share. `--smoke` tries all of it on a few
generated images, on this machine.
"""

import argparse
from pathlib import Path

import ray.train
from ray.train.torch import TorchTrainer


def loop(config):
    """What each worker runs."""
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
    parser.add_argument("--failures", type=int, default=3, help="how often to start again")
    parser.add_argument("--smoke", action="store_true", help="two short epochs of generated images")
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
