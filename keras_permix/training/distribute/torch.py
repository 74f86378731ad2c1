"""PyTorch: a process for each device, started by `torchrun` or what sets the same environment.

Keras has no part for this: gradients and metrics go through `torch.distributed`, in one message a
step, between Keras' backward pass and its optimizer.
"""

import datetime
import os

import torch
from torch import distributed as dist

from keras_permix._typing import Model
from keras_permix.training.distribute.distribution import Distribution

HINT = "Start a process for each device: `torchrun --nproc-per-node=DEVICES -m keras_permix.cli …`."
TIMEOUT = datetime.timedelta(hours=1)  # in which the chief measures and writes; not to find a loss
SIGNS = ("gloo", "NCCL", "Connection closed by peer", "Connection reset by peer", "Socket Timeout")


def start(kind: str) -> Distribution:
    """Join the processes that the environment tells of."""
    if kind == "model":
        raise ValueError(
            "`distribute='model'` needs Keras on JAX; PyTorch has \"data\". "
            "Received: distribute='model' on torch"
        )
    return Processes()


class Processes(Distribution):
    """Each process has the whole model and its part of each batch."""

    def __init__(self) -> None:
        self._begun = False
        if not dist.is_initialized() and int(os.environ.get("WORLD_SIZE", 1)) > 1:
            if torch.cuda.is_available():
                torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
            backend = "nccl" if torch.cuda.is_available() else "gloo"
            dist.init_process_group(backend, timeout=TIMEOUT)
            self._begun = True
        if dist.is_initialized():
            self.index, self.count = dist.get_rank(), dist.get_world_size()
        self.devices = self.count
        self.stream = (self.index,) if self.index else ()

    def prepare(self, model: Model) -> None:
        self.refuse_batch_norms(model)
        for variable in [*model.variables, *model.optimizer.variables]:
            dist.broadcast(variable.value.data, 0)
        apply, results = model.optimizer.apply, model.get_metrics_result

        def apply_mean(gradients, trainable_variables=None):
            with torch.no_grad():
                self._sum([gradient for gradient in gradients if gradient is not None], self.count)
            return apply(gradients, trainable_variables)

        def results_of_all():
            values = [variable.value.data for variable in model.metrics_variables]
            own = [value.clone() for value in values]
            self._sum(values)
            summed = results()
            for value, mine in zip(values, own, strict=True):
                value.copy_(mine)
            return summed

        model.optimizer.apply, model.get_metrics_result = apply_mean, results_of_all

    def _sum(self, tensors, divisor=1):
        """Put the sum over all processes, divided, in place of each tensor."""
        for dtype in sorted({tensor.dtype for tensor in tensors}, key=str):
            some = [tensor for tensor in tensors if tensor.dtype == dtype]
            message = torch.cat([tensor.reshape(-1) for tensor in some])
            dist.all_reduce(message)
            parts = message.div_(divisor).split([tensor.numel() for tensor in some])
            for tensor, part in zip(some, parts, strict=True):
                tensor.copy_(part.view_as(tensor))

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
