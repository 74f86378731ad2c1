"""Kernels for accelerators: plain torch and Triton, or JAX and Pallas; no Keras.

Everything here is the same permutation as the reference in `keras.ops`, to the last bit.
"""
