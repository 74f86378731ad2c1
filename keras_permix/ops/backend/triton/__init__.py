"""Define Triton kernels for NVIDIA GPUs, called from PyTorch and JAX."""
