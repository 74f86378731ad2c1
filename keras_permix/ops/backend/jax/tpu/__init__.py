"""Define Pallas kernels for TPUs."""
