"""Run Triton kernels on PyTorch."""
