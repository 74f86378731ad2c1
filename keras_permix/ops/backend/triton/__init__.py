"""Triton kernels for NVIDIA GPUs, which PyTorch and JAX call."""
