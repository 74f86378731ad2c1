"""Distribute a run on PyTorch over processes, started by `torchrun` or a similar launcher."""

import datetime
import os

import torch
from torch import distributed as dist

from keras_permix._typing import Tensor
from keras_permix.training.distribute.distribution import Distribution, Processes

TIMEOUT = datetime.timedelta(hours=1)  # for the first process to score and write
SIGNS = ("gloo", "NCCL", "Connection closed by peer", "Connection reset by peer", "Socket Timeout")


def start(kind: str) -> Distribution:
    """Join the processes of the environment."""
    return Ranks()


class Ranks(Processes):
    """Run on the processes of `torch.distributed`, and join them if necessary."""

    def __init__(self) -> None:
        self._begun = False
        if not dist.is_initialized() and int(os.environ.get("WORLD_SIZE", 1)) > 1:
            if torch.cuda.is_available():
                torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
            backend = "nccl" if torch.cuda.is_available() else "gloo"
            dist.init_process_group(backend, timeout=TIMEOUT)
            self._begun = True
        joined = dist.is_initialized()
        super().__init__(*((dist.get_rank(), dist.get_world_size()) if joined else (0, 1)))

    def add_up(self, vector: Tensor) -> Tensor:
        with torch.no_grad():
            dist.all_reduce(vector)
        return vector

    def broadcast(self, content: bytes) -> bytes:
        box = [content]
        dist.broadcast_object_list(box, 0)
        return box[0]

    def wait(self) -> None:
        dist.barrier()

    def lost(self, error: Exception) -> bool:
        known = isinstance(error, RuntimeError) and any(sign in str(error) for sign in SIGNS)
        return known or isinstance(error, dist.DistError)

    def close(self) -> None:
        if self._begun:
            dist.destroy_process_group()
