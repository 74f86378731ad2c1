"""A function or a layer as a training step on PyTorch runs it: see `bench.runners`."""

import torch


def make(function, x, weights):
    """A forward call, and one with gradients for `x` and for the weights."""
    leaf = x.clone().requires_grad_()

    def forward():
        with torch.no_grad():
            return [function(x)]

    cotangent = torch.ones_like(*forward())

    def both():
        result = function(leaf)
        gradients = torch.autograd.grad(result, [leaf, *weights], cotangent)
        return [result.detach(), *gradients]

    return forward, both
