"""Pallas kernels for GPUs, by way of Triton."""
